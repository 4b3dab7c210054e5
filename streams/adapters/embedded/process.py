"""A program started under a guard: it ends when we do, and can be stopped, killed and asked how it is."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.adapters.embedded.errors import EmbeddedError

_GUARD = Path(__file__).with_name("guard.py")
_TAIL_BYTES = 32_000
_LOG_KEPT_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine under which a program runs."""

    name: str
    uid: int
    gid: int

    @classmethod
    def unprivileged(cls) -> Account | None:
        """For root: who to become for a program that refuses root. None for anyone else."""
        if os.geteuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            return cls(name, entry.pw_uid, entry.pw_gid)
        raise EmbeddedError(
            "PostgreSQL refuses to run as root, and there is neither a user 'postgres' nor 'nobody' to run it as; "
            "run townclock as an ordinary user, or create one: useradd --system postgres"
        )


def clean_environment(**extra: str) -> dict[str, str]:
    """What a child sees: nothing of ours that could change it (`JAVA_TOOL_OPTIONS`, `PG*`, `LC_ALL`)."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "SYSTEMROOT") if name in os.environ}
    locale = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
    return {"PATH": os.defpath, **kept, "LC_ALL": locale, "TZ": "UTC", **extra}


class GuardedProcess:
    """One running program. Not restarted by itself; make a new one."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log_path: Path,
        stop_signal: signal.Signals,
        grace_s: float,
        account: Account | None = None,
        inherited_fds: Sequence[int] = (),
    ) -> None:
        """Start it. `inherited_fds` stay open in the guard and the program: a lock among them is held until both end.

        Raises `EmbeddedError` if it can't be executed.
        """
        self._stop_signal = stop_signal
        self._grace_s = grace_s
        self.log_path = log_path
        spec = {
            "argv": [str(part) for part in argv],
            "uid": account.uid if account else None,
            "gid": account.gid if account else None,
            "cwd": str(folder),
            "stop_signal": int(stop_signal),
            "death_signal": int(signal.SIGKILL),
            "grace_s": grace_s,
        }
        self._log_start = _open_place(log_path)
        with log_path.open("ab") as log:
            self._guard = subprocess.Popen(  # noqa: S603 -- no shell, and our own script
                [sys.executable, "-I", "-S", str(_GUARD), json.dumps(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=dict(environment),
                pass_fds=tuple(inherited_fds),
                start_new_session=True,  # a Ctrl-C in the terminal is for us: we stop our children in order
                bufsize=0,
            )
        self.pid = self._await_start(argv[0])

    def _await_start(self, program: str) -> int:
        report = self._guard.stdout.readline() if self._guard.stdout else b""
        word, _, rest = report.decode(errors="replace").strip().partition(" ")
        if word == "started":
            return int(rest)
        self._guard.wait()
        self._close_pipes()
        raise EmbeddedError(f"{program} could not be started: {rest or self.log_tail()}")

    @property
    def exit_status(self) -> int | None:
        """None while it runs; 128 + N if signal N ended it."""
        return self._guard.poll()

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within the time."""
        try:
            self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._close_pipes()
        return True

    def send(self, number: signal.Signals) -> None:
        """Pass a signal on, through the guard, which has not yet reaped the program: never to a stranger's pid."""
        if self._guard.stdin is None or self.exit_status is not None:
            return
        try:
            self._guard.stdin.write(bytes([number]))
        except BrokenPipeError:
            return

    def stop(self) -> int:
        """Ask it to end, and kill it after the grace. Its exit status."""
        self.send(self._stop_signal)
        if not self.wait(self._grace_s):
            self.kill()
        return self._guard.returncode

    def kill(self) -> None:
        """SIGKILL, as a crash would; returns when it is gone."""
        self.send(signal.SIGKILL)
        self._guard.wait()
        self._close_pipes()

    def log_tail(self, lines: int = 15) -> str:
        """The last lines written since this start, without Java's stack frames."""
        with self.log_path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        told = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t... "))]
        return "\n".join(told[-lines:])

    def _close_pipes(self) -> None:
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe is not None:
                pipe.close()


def _open_place(log_path: Path) -> int:
    """Where this start's lines will begin. A log grown large is put aside, one such is kept."""
    size = log_path.stat().st_size if log_path.exists() else 0
    if size > _LOG_KEPT_BYTES:
        log_path.replace(log_path.with_suffix(".log.1"))
        return 0
    return size
