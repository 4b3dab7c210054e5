"""Run by itself, as a process of its own: starts one program and never outlives the process that asked for it.

Standard input is a pipe held by the owner. A byte on it is a signal number to pass on; its end means that the owner is
gone, however it died, and the program is stopped: first its own stop signal, after the grace SIGKILL. Should the guard
itself be killed, Linux kills the program (`PR_SET_PDEATHSIG`). Standard output reports `started PID`, or
`failed REASON`. The exit status is the program's, or 128 + the signal that ended it.

A process and not `preexec_fn`, because code between fork and exec is unsafe in a program with threads, and because the
kernel's parent-death signal is tied to the thread that forked: here there is one thread, and it lives to the end.
Only the standard library is imported, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_DESCENDANTS_S = 10.0
_STOP_REQUESTS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _become(spec: dict[str, Any], guard_pid: int, failure_fd: int, libc: ctypes.CDLL | None) -> NoReturn:
    """In the child: drop privileges, tie it to the guard, and turn into the program."""
    try:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, and exec would hand that on
            signal.signal(number, signal.SIG_DFL)
        if spec["uid"] is not None:
            os.setgroups([])
            os.setgid(spec["gid"])
            os.setuid(spec["uid"])
        if libc is not None:  # after setuid, which clears it
            libc.prctl(_PR_SET_PDEATHSIG, spec["death_signal"], 0, 0, 0)
            if os.getppid() != guard_pid:
                os._exit(127)
        os.chdir(spec["cwd"])
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
        os.execv(spec["argv"][0], spec["argv"])  # noqa: S606 -- starting this program is what a guard is for
    except BaseException as error:  # noqa: BLE001 -- between fork and exec there is nobody else to tell
        os.write(failure_fd, f"{type(error).__name__}: {error}".encode())
    os._exit(127)


def _read_all(fd: int) -> bytes:
    parts = []
    while part := os.read(fd, 65536):
        parts.append(part)
    return b"".join(parts)


def _ended(pid: int) -> int | None:
    """The program's exit status, None while it runs. Its orphans, which Linux gives us, are reaped on the way."""
    while True:
        try:
            found, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 127
        if found == 0:
            return None
        if found == pid:
            return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _await_descendants(wake: int) -> None:
    """A killed PostgreSQL leaves its sessions, which notice and end: be there until they have."""
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if found == 0:
            ready, _, _ = select.select([wake], [], [], _DESCENDANTS_S)
            if not ready:
                return
            os.read(wake, 4096)


def _watch(pid: int, wake: int, stop_signal: int, grace_s: float) -> int:
    """Pass signals on until the program ends; its status."""
    stopping = False
    while True:
        ready, _, _ = select.select([wake] if stopping else [0, wake], [], [], grace_s if stopping else None)
        received = os.read(wake, 4096) if wake in ready else b""
        if (status := _ended(pid)) is not None:
            return status
        if stopping and not ready:
            os.kill(pid, signal.SIGKILL)
        owner_gone = False
        if 0 in ready:
            numbers = os.read(0, 64)
            for number in numbers:
                os.kill(pid, number)
            owner_gone = not numbers
        if not stopping and (owner_gone or any(number in received for number in _STOP_REQUESTS)):
            stopping = True
            os.kill(pid, stop_signal)


def main() -> int:
    spec = json.loads(sys.argv[1])
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, *_STOP_REQUESTS):
        signal.signal(number, lambda *_: None)
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None  # loaded before the fork
    if libc is not None:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    failure_read, failure_write = os.pipe()
    guard_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(spec, guard_pid, failure_write, libc)
    os.close(failure_write)
    if failure := _read_all(failure_read):
        os.waitpid(pid, 0)
        os.write(1, b"failed " + failure.replace(b"\n", b" ") + b"\n")
        return 127
    os.write(1, f"started {pid}\n".encode())
    status = _watch(pid, wake_read, spec["stop_signal"], spec["grace_s"])
    _await_descendants(wake_read)
    return status


if __name__ == "__main__":
    sys.exit(main())
