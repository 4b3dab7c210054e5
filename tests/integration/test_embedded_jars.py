"""Fetching the broker's files: whole and verified, whatever the network, the disk or a kill did before."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streams.adapters.embedded import jars as jars_module
from streams.adapters.embedded.errors import DownloadFailed, EmbeddedError, NoSpace
from streams.adapters.embedded.jars import LOCK_FILE, ensure_jars, jars_folder, read_lock
from tests.integration.maven_repository import Repository, serving, some_jars
from tests.services import wait_for


@pytest.fixture
def repository() -> Iterator[Repository]:
    with serving(Repository(some_jars())) as running:
        yield running


def fetch(repository: Repository, folder: Path, **options: object) -> Path:
    lock = repository.lock_file(folder)
    return ensure_jars(lock, folder / "jars", repository=repository.url, pause_s=lambda _attempt: 0.01, **options)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_every_jar_arrives_and_a_second_run_asks_for_nothing(repository: Repository, tmp_path: Path) -> None:
    folder = fetch(repository, tmp_path)
    assert contents(folder) == repository.files
    assert set(repository.requests.values()) == {1}
    fetch(repository, tmp_path)
    assert sum(repository.requests.values()) == len(repository.files)


@pytest.mark.parametrize("damage", ["truncated", "changed", "empty", "removed"])
def test_a_damaged_jar_is_fetched_again_and_only_that(damage: str, repository: Repository, tmp_path: Path) -> None:
    folder = fetch(repository, tmp_path)
    victim = folder / "part2-1.2.jar"
    whole = victim.read_bytes()
    if damage == "removed":
        victim.unlink()
    else:
        victim.write_bytes({"truncated": whole[:-1], "changed": b"x" + whole[1:], "empty": b""}[damage])
    fetch(repository, tmp_path)
    assert contents(folder) == repository.files
    assert repository.requests["part2-1.2.jar"] == 2
    assert sum(repository.requests.values()) == len(repository.files) + 1


def test_strays_and_leftovers_are_removed(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    (folder / ".fetch-part1-0").mkdir(parents=True)
    (folder / ".fetch-part1-0" / "part").write_bytes(b"half")
    (folder / "kafka-clients-3.9.1.jar").write_bytes(b"an older one")
    fetch(repository, tmp_path)
    assert contents(folder) == repository.files


def test_a_wrong_file_is_never_put_in_place(repository: Repository, tmp_path: Path) -> None:
    repository.answer = lambda name, content: content[::-1] if name == "part3-1.3.jar" else content
    with pytest.raises(DownloadFailed, match=r"org\.example:part3:1\.3 .* 4 tries .*not the pinned file") as caught:
        fetch(repository, tmp_path)
    assert caught.value.exit_code == 3
    assert repository.requests["part3-1.3.jar"] == 4
    assert not (tmp_path / "jars" / "part3-1.3.jar").exists()


def test_a_line_cut_off_midway_is_tried_again(repository: Repository, tmp_path: Path) -> None:
    failures = {"part0-1.0.jar": 2, "part4-1.4.jar": 3}
    repository.cut_off = set(failures)

    def answer(name: str, content: bytes) -> bytes:
        failures[name] = failures.get(name, 0) - 1
        return content[: len(content) // 2] if failures[name] >= 0 else content

    repository.answer = answer
    assert contents(fetch(repository, tmp_path)) == repository.files
    assert (repository.requests["part0-1.0.jar"], repository.requests["part4-1.4.jar"]) == (3, 4)


def test_a_server_that_refuses_at_first(repository: Repository, tmp_path: Path) -> None:
    repository.answer = lambda name, content: None if repository.requests[name] < 3 else content
    assert contents(fetch(repository, tmp_path)) == repository.files


def test_no_network(repository: Repository, tmp_path: Path) -> None:
    repository.url = "http://127.0.0.1:9/maven2"  # the discard port: nothing listens there
    with pytest.raises(DownloadFailed, match=r"check the network connection.*it goes on where it stopped"):
        fetch(repository, tmp_path)


def test_two_at_once_fetch_each_jar_once(repository: Repository, tmp_path: Path) -> None:
    threads = [threading.Thread(target=fetch, args=(repository, tmp_path)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(tmp_path / "jars") == repository.files
    assert set(repository.requests.values()) == {1}


def test_a_killed_download_goes_on(repository: Repository, tmp_path: Path) -> None:
    release = threading.Event()

    def answer(name: str, content: bytes) -> bytes:
        if name == "part4-1.4.jar":
            release.wait(60)
        return content

    repository.answer = answer
    lock = repository.lock_file(tmp_path)
    script = (
        "import sys; from pathlib import Path; from streams.adapters.embedded.jars import ensure_jars\n"
        "ensure_jars(Path(sys.argv[1]), Path(sys.argv[2]), repository=sys.argv[3])"
    )
    folder = tmp_path / "jars"
    command = [sys.executable, "-c", script, str(lock), str(folder), repository.url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as child:
        try:
            wait_for(
                lambda: (
                    folder.exists() and len(list(folder.glob("*.jar"))) == 4 and repository.requests["part4-1.4.jar"]
                ),
                60,
                "four of five jars",
            )
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
            release.set()
    assert not (folder / "part4-1.4.jar").exists()
    fetch(repository, tmp_path)
    assert contents(folder) == repository.files
    assert {name: count for name, count in repository.requests.items() if count > 1} == {"part4-1.4.jar": 2}


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A real file system of that size."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "townclock-test", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def may_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False)
    return probe.returncode == 0


@contextmanager
def filling_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """A folder whose disk has room at first, and a path whose writing fills it.

    A real small disk where this user may mount one; elsewhere every download ends in the error that a full disk gives.
    """
    if may_mount():
        with small_disk(tmp_path / "disk", 40 << 20) as disk:
            yield disk, disk / "filler"
        return

    def download(_self: object, _jar: object, temporary: Path) -> Path:
        temporary.mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(temporary / "some.jar"))

    monkeypatch.setattr(jars_module._Fetch, "_download", download)
    yield tmp_path, tmp_path / "filler"


def test_a_disk_that_fills_up_while_fetching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(Repository(some_jars(4, 200_000))) as repository,
        filling_disk(tmp_path, monkeypatch) as (disk, filler),
    ):

        def answer(_name: str, content: bytes) -> bytes:
            if may_fill and not filler.exists():
                with filler.open("wb") as file:
                    try:
                        while True:
                            file.write(b"\0" * 4096)
                            file.flush()
                    except OSError:
                        pass
            return content

        may_fill = disk != tmp_path
        repository.answer = answer
        lock = repository.lock_file(tmp_path)
        with pytest.raises(NoSpace, match="full; free some space or set TOWNCLOCK_CACHE"):
            ensure_jars(lock, disk / "jars", repository=repository.url)
        assert not list((disk / "jars").glob(".fetch-*"))
        monkeypatch.undo()
        if may_fill:
            filler.unlink()
        repository.answer = lambda _name, content: content
        assert contents(ensure_jars(lock, disk / "jars", repository=repository.url)) == repository.files


def test_a_disk_without_room_is_told_before_anything_is_fetched(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars_module, "_SPARE_BYTES", 1 << 60)
    with pytest.raises(NoSpace, match=r"MB free, and Apache Kafka's download needs .* free some space"):
        fetch(repository, tmp_path)
    assert not repository.requests


def test_a_cache_that_is_not_a_folder(tmp_path: Path, repository: Repository) -> None:
    (tmp_path / "jars").write_text("a file")
    with pytest.raises(EmbeddedError, match=r"can't be used: .*; set TOWNCLOCK_CACHE"):
        fetch(repository, tmp_path)


def test_a_truncated_jar_of_kafka_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real lock file, from where everybody gets it, in a copy of the cache."""
    cached = ensure_jars()
    jars = {jar.name: jar for jar in read_lock(LOCK_FILE)}
    assert {path.name for path in cached.glob("*.jar")} == set(jars)
    monkeypatch.setenv("TOWNCLOCK_CACHE", str(tmp_path / "cache"))
    folder = jars_folder()
    shutil.copytree(cached, folder)
    victim = folder / min(jars.values(), key=lambda jar: jar.size_bytes).name
    os.truncate(victim, victim.stat().st_size // 2)
    assert ensure_jars() == folder
    assert victim.read_bytes() == (cached / victim.name).read_bytes()
