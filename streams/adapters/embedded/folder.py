"""What both services need of a data folder: one owner at a time, room on the disk, ports."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import random
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from streams.adapters.embedded.errors import EmbeddedError, FolderInUse, NoSpace, PortTaken
from streams.domain.errors import TownclockError

LOOPBACK = "127.0.0.1"
_PORT_RANGE = range(20_000, 32_000)  # below what systems hand out for outgoing connections
_LOCK_NAME = ".lock"
_PAUSE_S = 0.1


class FolderLock:
    """An exclusive hold on a data folder, kept by every process that inherits its descriptor.

    So the hold ends when the last of owner, guard and service has ended, and never before, whatever was killed.
    """

    def __init__(self, folder: Path, service: str) -> None:
        self._folder = folder
        self._service = service
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        if self._fd is None:
            raise EmbeddedError(f"the lock of {self._folder} is not held")
        return self._fd

    def acquire(self, *, patience_s: float = 30.0) -> None:
        """Take the folder.

        While its last owner lives, refused at once with `FolderInUse`. When the owner is gone, or is this very
        object's process after a kill, its service may still be ending: waited for up to `patience_s`.
        """
        path = self._folder / _LOCK_NAME
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            for _ in range(max(1, int(patience_s / _PAUSE_S))):
                if _try_lock(fd):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, json.dumps({"pid": os.getpid(), "holder": id(self)}).encode(), 0)
                    self._fd = fd
                    return
                self._refuse_if_owned(fd)
                time.sleep(_PAUSE_S)
            raise FolderInUse(f"{self._folder} is still in use by {self._service}, whose owner is gone; end it first")
        except BaseException:
            if self._fd is None:
                os.close(fd)
            raise

    def _refuse_if_owned(self, fd: int) -> None:
        try:
            owner = json.loads(os.pread(fd, 4096, 0) or b"{}")
        except json.JSONDecodeError:
            return
        pid = int(owner.get("pid", 0))
        if pid == os.getpid() and owner.get("holder") == id(self):
            return  # ours, after a kill: the service's last processes are about to go
        if pid and _is_alive(pid):
            raise FolderInUse(
                f"{self._folder} is in use: process {pid} runs {self._service} on it; "
                f"stop that one first, or choose another folder with --data"
            )

    def release(self) -> None:
        """Let go of our own hold; a service still running keeps its own."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        raise
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def make_folder(folder: Path) -> Path:
    """Create it with its parents; an absolute path. A clear error where that is not possible."""
    try:
        folder = folder.absolute()
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / _LOCK_NAME
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise NoSpace(f"the disk of {folder} is full; free some space or choose another folder") from error
        raise EmbeddedError(f"the folder {folder} can't be used: {error.strerror}; choose another one") from error
    return folder


@contextlib.contextmanager
def explained(folder: Path, service: str) -> Iterator[None]:
    """Any other refusal of the file system during a start, as an error that a person can act on."""
    try:
        yield
    except TownclockError:
        raise
    except OSError as error:
        what = f"{error.strerror or error} ({error.filename or folder})"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoSpace(
                f"{service} could not be started: {what}; free some space or choose another folder"
            ) from error
        raise EmbeddedError(f"{service} could not be started: {what}; mend that or choose another folder") from error


def require_free_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """`NoSpace` unless the disk of `folder` has `needed_bytes` left."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise NoSpace(
            f"{folder} has {free_bytes / 1e6:.0f} MB free, and {purpose} needs {needed_bytes / 1e6:.0f} MB; "
            f"free some space or choose another folder"
        )


def port_is_free(port: int) -> bool:
    """Whether a server could listen on it on the loopback address now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose_port(wanted: int | None, remembered: int | None, *, purpose: str, taken: Sequence[int] = ()) -> int:
    """The port asked for, or `PortTaken`; else the one used last time if it is free; else a free one."""
    if wanted is not None:
        if not port_is_free(wanted):
            raise PortTaken(f"port {wanted}, asked for {purpose}, is in use; stop what uses it or name another port")
        return wanted
    if remembered is not None and remembered not in taken and port_is_free(remembered):
        return remembered
    for port in random.sample(_PORT_RANGE, 200):
        if port not in taken and port_is_free(port):
            return port
    raise PortTaken(f"no free port was found for {purpose} between {_PORT_RANGE.start} and {_PORT_RANGE.stop}")


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """The whole new text or the whole old one, whenever the machine stops."""
    temporary = path.with_name(f"{path.name}.tmp-{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in it durable."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
