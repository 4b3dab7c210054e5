"""The parts of the embedded services that need no service: lock files, folders, ports, names, guards."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.embedded.errors import EmbeddedError, FolderInUse, NoSpace, PortTaken
from streams.adapters.embedded.folder import (
    FolderLock,
    choose_port,
    explained,
    make_folder,
    port_is_free,
    require_free_space,
)
from streams.adapters.embedded.jars import LOCK_FILE, cache_folder, jars_folder, read_lock
from streams.adapters.embedded.java import escaped
from streams.adapters.embedded.process import GuardedProcess, clean_environment
from streams.domain.errors import InvalidInput, ServiceUnreachable
from tests.services import wait_for

DIGEST = "8a7458657938e9b692224db83aac458c13abd7a59ab75c3d3b08bd2233a646a2"


def test_the_lock_file_pins_kafka() -> None:
    jars = read_lock()
    assert len(jars) == len({jar.name for jar in jars}) == 47
    assert {"kafka-clients-4.4.0.jar", "kafka-tools-4.4.0.jar"} <= {jar.name for jar in jars}
    assert 40e6 < sum(jar.size_bytes for jar in jars) < 50e6


@pytest.mark.parametrize(
    "line",
    [
        "just words",
        f"{DIGEST} 12",
        f"{DIGEST} twelve org.example:part:1",
        f"{DIGEST} 12 org.example:part",
        f"{DIGEST[:-1]} 12 org.example:part:1",
        f"{'g' * 64} 12 org.example:part:1",
    ],
)
def test_a_bad_line_of_a_lock_file_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "jars.lock"
    path.write_text(f"# pinned\n\n{DIGEST}  12  org.example:good:1\n{line}\n")
    with pytest.raises(InvalidInput, match=r"jars\.lock:4: not a jar's line"):
        read_lock(path)


def test_an_empty_lock_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jars.lock"
    path.write_text("# nothing\n")
    with pytest.raises(InvalidInput, match="no jars are listed"):
        read_lock(path)


def test_where_downloads_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOWNCLOCK_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "townclock"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "townclock"
    monkeypatch.setenv("TOWNCLOCK_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    other = tmp_path / "jars.lock"
    other.write_text(LOCK_FILE.read_text() + "# a change\n")
    assert jars_folder().parent == jars_folder(other).parent == tmp_path / "own"
    assert jars_folder() != jars_folder(other)


def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path, "Apache Kafka"), FolderLock(tmp_path, "Apache Kafka")
    first.acquire()
    with pytest.raises(FolderInUse, match=f"in use: process {os.getpid()} runs Apache Kafka.*stop that one first"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_the_hold_of_a_dead_owner_ends_with_its_last_process(tmp_path: Path) -> None:
    holder = (
        "import sys, subprocess; from pathlib import Path; from streams.adapters.embedded.folder import FolderLock\n"
        "lock = FolderLock(Path(sys.argv[1]), 'Apache Kafka'); lock.acquire()\n"
        "child = subprocess.Popen(['sleep', '60'], pass_fds=[lock.fd], stdout=-3, stderr=-3)\n"
        "print(child.pid)"
    )
    done = subprocess.run([sys.executable, "-c", holder, str(tmp_path)], capture_output=True, text=True, check=True)
    orphan = int(done.stdout)
    try:
        with pytest.raises(FolderInUse, match="still in use by Apache Kafka"):
            FolderLock(tmp_path, "Apache Kafka").acquire(patience_s=0.3)
    finally:
        os.kill(orphan, signal.SIGKILL)
    lock = FolderLock(tmp_path, "Apache Kafka")
    lock.acquire(patience_s=20)
    lock.release()


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EmbeddedError, match=r"can't be used: .*; choose another one"):
        make_folder(tmp_path / "file" / "data")


def test_no_room(tmp_path: Path) -> None:
    with pytest.raises(NoSpace, match=r"MB free, and Apache Kafka needs .* choose another folder"):
        require_free_space(tmp_path, 1 << 60, "Apache Kafka")


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, NoSpace), (errno.EROFS, EmbeddedError)])
def test_other_refusals_of_the_file_system(number: int, kind: type[EmbeddedError], tmp_path: Path) -> None:
    with (
        pytest.raises(kind, match=rf"Apache Kafka could not be started: .*\({tmp_path}/x\); .* choose another folder"),
        explained(tmp_path, "Apache Kafka"),
    ):
        raise OSError(number, os.strerror(number), f"{tmp_path}/x")
    with pytest.raises(ServiceUnreachable, match=r"^as it was$"), explained(tmp_path, "Apache Kafka"):
        raise ServiceUnreachable("as it was")


@pytest.mark.parametrize("service", [EmbeddedBroker, EmbeddedDatabase])
def test_a_service_without_room_does_not_start(
    service: type[EmbeddedBroker | EmbeddedDatabase], tmp_path: Path
) -> None:
    refused = service(tmp_path / "data", needed_bytes=1 << 60)
    for _ in range(2):  # and lets go of the folder
        with pytest.raises(NoSpace):
            refused.start()
    assert not refused.is_running


def test_ports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert not port_is_free(port)
        with pytest.raises(PortTaken, match=f"port {port}, asked for Apache Kafka, is in use"):
            choose_port(port, None, purpose="Apache Kafka")
        assert choose_port(None, port, purpose="Apache Kafka") != port
    chosen = choose_port(None, None, purpose="Apache Kafka")
    assert port_is_free(chosen)
    assert choose_port(None, chosen, purpose="Apache Kafka") == chosen
    assert choose_port(None, chosen, purpose="Apache Kafka", taken=[chosen]) != chosen


def test_names_kafka_can_not_use(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a comma, quote or line break"):
        EmbeddedBroker(tmp_path / "a,b").start()
    assert not (tmp_path / "a,b").exists()


def test_a_properties_file_is_ascii() -> None:
    assert escaped("/häuser/𝄞/a\\b") == "/h\\u00e4user/\\ud834\\udd1e/a\\\\b"


def test_children_see_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "PGDATA", "PGPORT", "LC_ALL", "LD_PRELOAD"):
        monkeypatch.setenv(name, "hostile")
    assert "hostile" not in clean_environment().values()
    assert clean_environment(JAVA_HOME="/java")["JAVA_HOME"] == "/java"


def guarded(folder: Path, *argv: str, grace_s: float = 20.0) -> GuardedProcess:
    return GuardedProcess(
        argv,
        environment=clean_environment(),
        folder=folder,
        log_path=folder / "log",
        stop_signal=signal.SIGTERM,
        grace_s=grace_s,
    )


def test_a_guarded_process_and_its_log(tmp_path: Path) -> None:
    process = guarded(tmp_path, "/bin/sh", "-c", "echo out; echo err >&2; exit 7")
    assert process.wait(20)
    assert process.exit_status == 7
    assert process.log_tail() == "out\nerr"
    again = guarded(tmp_path, "/bin/sh", "-c", "echo second")
    assert again.wait(20)
    assert again.log_tail() == "second"


def test_a_guarded_process_stops(tmp_path: Path) -> None:
    process = guarded(tmp_path, "/bin/sleep", "60")
    assert Path(f"/proc/{process.pid}").exists() or sys.platform != "linux"
    assert process.stop() == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    process = guarded(tmp_path, "/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", grace_s=0.3)
    wait_for(lambda: process.log_tail() == "ready", 20)
    assert process.stop() == 128 + signal.SIGKILL


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedError, match="/nowhere/java could not be started: FileNotFoundError"):
        guarded(tmp_path, "/nowhere/java")


@pytest.mark.parametrize("victim", ["owner", "guard"])
def test_it_never_outlives_owner_or_guard(victim: str, tmp_path: Path) -> None:
    if victim == "guard" and sys.platform != "linux":
        return  # only Linux ties a process to its parent; elsewhere the owner's end of the pipe still does
    owner_script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
        "from tests.unit.test_embedded import guarded\n"
        "process = guarded(Path(sys.argv[1]), '/bin/sleep', '60')\n"
        "print(process._guard.pid, process.pid, flush=True); sys.stdin.read()"
    )
    root = str(Path(__file__).parents[2])
    with subprocess.Popen(
        [sys.executable, "-c", owner_script, str(tmp_path), root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        guard_pid, pid = map(int, owner.stdout.readline().split())
        os.kill({"owner": owner.pid, "guard": guard_pid}[victim], signal.SIGKILL)
        try:
            wait_for(lambda: not running(pid), 20, f"process {pid} ended")
        finally:
            owner.kill()


def running(pid: int) -> bool:
    """Whether it runs; one that ended and was not yet reaped does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return sys.platform != "linux"
