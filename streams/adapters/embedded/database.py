"""PostgreSQL on this machine: loopback only, its data kept in a folder, run by an unprivileged user when we are root.

The start, in order: lock the folder, check the disk, find the programs, initialise once (into a temporary folder, then
rename), choose a port, start under a guard, wait until the server answers from this very data folder. Durable settings
(`fsync`, `synchronous_commit`) are PostgreSQL's own defaults: on.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from streams.adapters.clock import Clock, SystemClock
from streams.adapters.embedded.errors import EmbeddedError, PortTaken
from streams.adapters.embedded.folder import (
    LOOPBACK,
    FolderLock,
    choose_port,
    explained,
    make_folder,
    require_free_space,
    sync_folder,
    write_atomically,
)
from streams.adapters.embedded.postgres_programs import (
    Programs,
    find_programs,
    place_data,
    remove_data,
    remove_stale_pid_file,
    require_version,
)
from streams.adapters.embedded.process import Account, GuardedProcess, clean_environment
from streams.domain.errors import ServiceUnreachable

NAME = "townclock"
_NEEDED_BYTES = 256 << 20
_GRACE_S = 30.0
_POLL_S = 0.05
_START_TRIES = 3
_SETTINGS = {
    "max_connections": "200",
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "logging_collector": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
}


class EmbeddedDatabase:
    """One PostgreSQL server over one data folder, with a database and superuser `townclock`.

    Ends with the process that started it, however that ends. What was committed survives `kill` and a restart.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 120.0,
        needed_bytes: int = _NEEDED_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is touched before `start`. `settings` are server settings that win over those of this module.

        A port not named is the one of the last start where it is free, else a free one.
        """
        self.data_dir = Path(data_dir).absolute()
        self.log_path = self.data_dir / "postgres.log"
        self._wanted_port = port
        self._port: int | None = None
        self._settings = {**_SETTINGS, **(settings or {})}
        self._start_timeout_s = start_timeout_s
        self._needed_bytes = needed_bytes
        self._clock = clock or SystemClock()
        self._lock = FolderLock(self.data_dir, "PostgreSQL")
        self._account: Account | None = None
        self._process: GuardedProcess | None = None

    @property
    def pid(self) -> int | None:
        """The postmaster, None unless it runs."""
        return self._process.pid if self._process and self._process.exit_status is None else None

    @property
    def is_running(self) -> bool:
        return self.pid is not None

    @property
    def dsn(self) -> str:
        """For the database `townclock`. Holds the password of this data folder."""
        return self.dsn_of(NAME)

    def dsn_of(self, database: str) -> str:
        """For another database of this server."""
        if self._port is None:
            raise EmbeddedError("the database has not been started")
        password = (self.data_dir / "password").read_text(encoding="utf-8").strip()
        # settled here, so that PGSSLMODE or PGOPTIONS of the user's shell can't keep clients out
        plain = "sslmode=disable&options="
        return f"postgresql://{NAME}:{password}@{LOOPBACK}:{self._port}/{quote(database, safe='')}?{plain}"

    def start(self) -> EmbeddedDatabase:
        """Return when the server takes connections; a server that was killed has recovered by then.

        Raises `FolderInUse`, `NoSpace`, `PortTaken`, `EmbeddedError` for missing programs or a folder of another
        version, and `ServiceUnreachable` with the end of its log if it does not come up in time.
        """
        if self.is_running:
            return self
        make_folder(self.data_dir)
        self._lock.acquire()
        try:
            with explained(self.data_dir, "PostgreSQL"):
                self._prepare_and_run()
            self._ensure_database(NAME)
        except BaseException:
            self._abandon()
            raise
        return self

    def stop(self) -> None:
        """End it in good order (SIGINT: open sessions are cut, nothing committed is lost)."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        self._lock.release()

    def kill(self) -> None:
        """SIGKILL to the postmaster, as a crash would; its sessions notice and end by themselves."""
        self._abandon()

    def restart(self) -> None:
        """Stop and start on the same port, so that clients find it again."""
        self.stop()
        self.start()

    def destroy(self) -> None:
        """Stop it and remove all of its data."""
        self.stop()
        remove_data(self.data_dir)

    def __enter__(self) -> EmbeddedDatabase:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def create_database(self, name: str) -> str:
        """Make an empty database, or find it there; its dsn."""
        self._ensure_database(name)
        return self.dsn_of(name)

    def log_tail(self, lines: int = 15) -> str:
        """The end of what the server wrote."""
        return self._process.log_tail(lines) if self._process else ""

    def _abandon(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._lock.release()

    def _prepare_and_run(self) -> None:
        require_free_space(self.data_dir, self._needed_bytes, "PostgreSQL")
        self._account = Account.unprivileged()
        programs = find_programs(self._account)
        place = place_data(self.data_dir, self._account)
        if place != self.data_dir:
            require_free_space(place, self._needed_bytes, "PostgreSQL")
        pgdata = place / "pgdata"
        if not pgdata.exists():
            self._initialise(programs, pgdata)
        require_version(programs, pgdata)
        self._run(programs, pgdata)

    def _initialise(self, programs: Programs, pgdata: Path) -> None:
        """Whole or not at all: a folder named `pgdata` is one that initdb finished and synced."""
        for left in pgdata.parent.glob("pgdata.tmp-*"):
            shutil.rmtree(left)
        temporary = pgdata.parent / f"pgdata.tmp-{os.getpid()}"
        temporary.mkdir(mode=0o700)
        secret = temporary.with_name(f"{temporary.name}-password")
        password = self.data_dir / "password"
        if not password.exists():
            write_atomically(password, secrets.token_urlsafe(24) + "\n", mode=0o600)
        write_atomically(secret, password.read_text(encoding="utf-8"), mode=0o600)
        owner: dict[str, object] = {}
        if self._account is not None:
            os.chown(temporary, self._account.uid, self._account.gid)
            os.chown(secret, self._account.uid, self._account.gid)
            owner = {"user": self._account.uid, "group": self._account.gid, "extra_groups": []}
        command = [
            programs.path("initdb"), "-D", str(temporary), "-U", NAME, "--auth=scram-sha-256", "--pwfile", str(secret),
            "--encoding=UTF8", "--no-locale", "--no-instructions",
        ]  # fmt: skip
        try:
            done = subprocess.run(  # type: ignore[call-overload]  # noqa: S603 -- no shell
                command, capture_output=True, text=True, env=clean_environment(), cwd="/", stdin=subprocess.DEVNULL,
                check=False, **owner,
            )  # fmt: skip
        finally:
            secret.unlink()
        if done.returncode != 0:
            shutil.rmtree(temporary, ignore_errors=True)
            raise EmbeddedError(f"PostgreSQL's data folder could not be made:\n{done.stderr.strip()[-2000:]}")
        temporary.rename(pgdata)
        sync_folder(pgdata.parent)

    def _run(self, programs: Programs, pgdata: Path) -> None:
        remembered = self._port or _read_port(self.data_dir / "port")
        for attempt in range(_START_TRIES):
            remove_stale_pid_file(pgdata)
            self._port = choose_port(self._wanted_port, remembered, purpose="PostgreSQL")
            self._process = self._launch(programs, pgdata)
            if self._await_answer(self._process, pgdata):
                write_atomically(self.data_dir / "port", f"{self._port}\n")
                return
            tail = self._process.log_tail()
            if "Address already in use" in tail:
                if self._wanted_port is not None:
                    raise PortTaken(f"port {self._wanted_port}, asked for PostgreSQL, was taken; name another port")
                remembered = None
            elif "shared memory block" not in tail or attempt + 1 == _START_TRIES:
                break
        status = self._process.exit_status if self._process else None
        raise EmbeddedError(
            f"PostgreSQL ended while starting (status {status}); its log is {self.log_path} and ends:\n{tail}"
        )

    def _launch(self, programs: Programs, pgdata: Path) -> GuardedProcess:
        command = [programs.path("postgres"), "-D", str(pgdata), "-p", str(self._port)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return GuardedProcess(
            command,
            environment=clean_environment(),
            folder=pgdata,
            log_path=self.log_path,
            stop_signal=signal.SIGINT,
            grace_s=_GRACE_S,
            account=self._account,
            inherited_fds=[self._lock.fd],
        )

    def _await_answer(self, process: GuardedProcess, pgdata: Path) -> bool:
        """Whether it came up; False if it ended. Raises if it is neither up nor ended in time."""
        reason = ""
        deadline_s = self._clock.boot_s() + self._start_timeout_s
        while self._clock.boot_s() < deadline_s:
            try:
                with psycopg.connect(self.dsn_of("postgres"), connect_timeout=10) as connection:
                    row = connection.execute("SHOW data_directory").fetchone()
            except psycopg.OperationalError as error:
                reason = str(error).strip()
            else:
                if row is not None and Path(row[0]).samefile(pgdata):
                    return True
                raise EmbeddedError(f"another PostgreSQL answers on port {self._port}; name another port")
            if process.wait(_POLL_S):
                return False
        raise ServiceUnreachable(
            f"PostgreSQL did not answer on port {self._port} within {self._start_timeout_s:.0f} s ({reason}); "
            f"its log is {self.log_path} and ends:\n{process.log_tail()}"
        )

    def _ensure_database(self, name: str) -> None:
        with psycopg.connect(self.dsn_of("postgres"), autocommit=True) as connection:
            known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def _read_port(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
