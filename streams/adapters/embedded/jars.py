"""Apache Kafka's own files: fetched once per user, each checked against `kafka/jars.lock`, never trusted unchecked.

The lock file lists sha256, size and Maven coordinate of every jar, so nothing is resolved: each is fetched by name
into a temporary folder, verified, and renamed into place. A run that was broken off leaves whole verified jars
only; the next one fetches what is missing or damaged. Two runs at once: the second waits and finds the work done.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from streams.adapters.embedded.errors import DownloadFailed, EmbeddedError, NoSpace
from streams.adapters.embedded.folder import require_free_space
from streams.adapters.embedded.progress import Progress, download_progress
from streams.domain.errors import InvalidInput

LOCK_FILE = Path(__file__).with_name("kafka") / "jars.lock"
_TRIES = 4
_CONNECTIONS = 6
_TIMEOUT_S = 30
_SPARE_BYTES = 10 << 20
_CA_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned file."""

    sha256: str
    size_bytes: int
    group: str
    artifact: str
    version: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinate(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    def matches(self, path: Path) -> bool:
        """Whether the file is there, whole and unchanged."""
        if not path.is_file() or path.stat().st_size != self.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def read_lock(path: Path = LOCK_FILE) -> list[Jar]:
    """The pinned jars. Lines are `SHA256 SIZE GROUP:ARTIFACT:VERSION`; `#` starts a comment line."""
    jars = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            digest, size, coordinate = line.split()
            group, artifact, version = coordinate.split(":")
            if len(digest) != 64 or int(digest, 16) < 0:
                raise ValueError
            jars.append(Jar(digest, int(size), group, artifact, version))
        except ValueError:
            raise InvalidInput(
                f"{path}:{number}: not a jar's line ({line[:80]!r}); write SHA256 SIZE GROUP:ARTIFACT:VERSION"
            ) from None
    if not jars:
        raise InvalidInput(f"{path}: no jars are listed; restore the file")
    return jars


def cache_folder() -> Path:
    """`TOWNCLOCK_CACHE`, else `$XDG_CACHE_HOME/townclock`, else `~/.cache/townclock`. Not created here."""
    if chosen := os.environ.get("TOWNCLOCK_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "townclock"
    try:
        return Path.home() / ".cache" / "townclock"
    except RuntimeError as error:
        raise EmbeddedError("there is no home folder to keep downloads in; set TOWNCLOCK_CACHE to a folder") from error


def jars_folder(lock_path: Path = LOCK_FILE) -> Path:
    """Where the jars of this lock file live: versions beside each other, never mixed on one classpath."""
    digest = hashlib.sha256(lock_path.read_bytes()).hexdigest()[:12]
    return cache_folder() / f"kafka-{digest}"


def ensure_jars(
    lock_path: Path = LOCK_FILE,
    folder: Path | None = None,
    *,
    repository: str | None = None,
    progress: Callable[[int, int], contextlib.AbstractContextManager[Progress]] = download_progress,
    pause_s: Callable[[int], float] = lambda attempt: 2.0**attempt,
) -> Path:
    """The folder in which every jar of the lock file is present and verified; fetches what is not.

    `repository` (or `TOWNCLOCK_MAVEN_REPOSITORY`) replaces Maven Central. Other jars in the folder are removed, since
    all of it is the classpath. Raises `NoSpace`, `DownloadFailed`, or `EmbeddedError` if the folder can't be used.
    """
    jars = read_lock(lock_path)
    folder = folder or jars_folder(lock_path)
    repository = repository or os.environ.get("TOWNCLOCK_MAVEN_REPOSITORY")
    with _exclusive(folder):
        _tidy(folder, jars)
        missing = [jar for jar in jars if not jar.matches(folder / jar.name)]
        if missing:
            total_bytes = sum(jar.size_bytes for jar in missing)
            require_free_space(folder, total_bytes + _SPARE_BYTES, "Apache Kafka's download")
            with progress(len(missing), total_bytes) as shown, _system_certificates():
                _Fetch(folder, repository, shown, pause_s).run(missing)
    return folder


@contextlib.contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """The folder, created and locked; another process's download is waited for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _no_space(folder) from error
        raise EmbeddedError(
            f"the cache folder {folder} can't be used: {error.strerror}; set TOWNCLOCK_CACHE to a folder of yours"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _tidy(folder: Path, jars: Sequence[Jar]) -> None:
    """Remove what a killed run left, and jars that don't belong. The lock is held, so nobody is at work here."""
    names = {jar.name for jar in jars}
    for path in folder.iterdir():
        if path.name.startswith(".fetch-"):
            shutil.rmtree(path, ignore_errors=True)
        elif path.suffix == ".jar" and path.name not in names:
            path.unlink()


class _Stopped(Exception):
    """Another download has failed for good: this one need not go on."""


class _Fetch:
    """Several jars, a few at a time; the first one that fails for good ends the others."""

    def __init__(
        self, folder: Path, repository: str | None, progress: Progress, pause_s: Callable[[int], float]
    ) -> None:
        self._folder = folder
        self._repositories = {"chosen": repository.rstrip("/")} if repository else None
        self._progress = progress
        self._pause_s = pause_s
        self._stop = threading.Event()

    def run(self, jars: Sequence[Jar]) -> None:
        pool = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="fetch")
        futures = [pool.submit(self._fetch, jar) for jar in jars]
        try:
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            self._stop.set()
            pool.shutdown(cancel_futures=True)
        errors = [error for future in done if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, _Stopped)), errors[0])

    def _fetch(self, jar: Jar) -> None:
        reason = ""
        for attempt in range(_TRIES):
            if attempt and self._stop.wait(self._pause_s(attempt - 1)):
                raise _Stopped
            temporary = self._folder / f".fetch-{jar.artifact}-{attempt}"
            try:
                path = self._download(jar, temporary)
                if jar.matches(path):
                    path.replace(self._folder / jar.name)
                    self._progress.arrived(jar.name)
                    return
                reason = f"what arrived is not the pinned file ({path.stat().st_size:,} of {jar.size_bytes:,} bytes)"
            except _Stopped:
                raise
            except Exception as error:  # jgo and requests raise many kinds: each is tried again, then told
                if _is_disk_full(error):
                    raise _no_space(self._folder) from error
                reason = f"{type(error).__name__}: {str(error)[:300]}"
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        raise DownloadFailed(
            f"{jar.coordinate} could not be fetched in {_TRIES} tries ({reason}); check the network connection "
            f"(HTTPS_PROXY, REQUESTS_CA_BUNDLE, TOWNCLOCK_MAVEN_REPOSITORY), then run the same command again: "
            f"it goes on where it stopped"
        )

    def _download(self, jar: Jar, temporary: Path) -> Path:
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 -- slow, and needed once

        context = MavenContext(
            resolver=PythonResolver(progress_callback=self._watch),
            repo_cache=temporary,
            local_repos=[],
            remote_repos=self._repositories,
            timeout=_TIMEOUT_S,
        )
        return Path(context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve())

    @contextlib.contextmanager
    def _watch(self, _name: str, _total_bytes: int) -> Iterator[Callable[[int], None]]:
        def received(count_bytes: int) -> None:
            if self._stop.is_set():
                raise _Stopped
            self._progress.received(count_bytes)

        yield received


def _is_disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


def _no_space(folder: Path) -> NoSpace:
    return NoSpace(
        f"the disk of {folder} is full; free some space or set TOWNCLOCK_CACHE to a folder elsewhere, "
        f"then run the same command again: it goes on where it stopped"
    )


@contextlib.contextmanager
def _system_certificates() -> Iterator[None]:
    """requests brings certificates of its own; a machine with a private authority keeps it in the system's bundle."""
    name = "REQUESTS_CA_BUNDLE"
    if os.environ.get(name) or os.environ.get("CURL_CA_BUNDLE"):
        yield
        return
    candidates = [os.environ.get("SSL_CERT_FILE") or "", *_CA_BUNDLES]
    bundle = next((path for path in candidates if path and Path(path).is_file()), None)
    if bundle is None:
        yield
        return
    os.environ[name] = bundle
    try:
        yield
    finally:
        del os.environ[name]
