"""`townclock embedded`, as a person runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from streams.adapters.embedded.postgres_programs import remove_data
from tests.services import wait_for

TOWNCLOCK = [sys.executable, "-c", "from streams.entrypoints.cli import main; main()", "embedded"]


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="townclock-test-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder / "data"
        if (folder / "data" / "postgres").exists():
            remove_data(folder / "data" / "postgres")


def townclock(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOWNCLOCK, *arguments], capture_output=True, text=True, check=False, timeout=120)


def test_fetch_is_quick_when_all_is_there(broker: object) -> None:
    done = townclock("fetch")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Apache Kafka: 47 files verified in ")
    assert done.stderr == ""


def test_fetch_into_a_folder_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TOWNCLOCK_CACHE", str(tmp_path / "file" / "cache"))
    done = townclock("fetch")
    assert done.returncode == 1
    assert "can't be used" in done.stderr
    assert "set TOWNCLOCK_CACHE" in done.stderr
    assert "Traceback" not in done.stderr


def test_fetch_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWNCLOCK_CACHE", str(tmp_path))
    for name in ("HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing listens on the discard port
    done = townclock("fetch")
    assert done.returncode == 3
    assert "could not be fetched in 4 tries" in done.stderr
    assert "check the network connection" in done.stderr
    assert "Traceback" not in done.stderr


def test_run_until_interrupted(data_dir: Path) -> None:
    with subprocess.Popen(
        [*TOWNCLOCK, "run", "--data", str(data_dir), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            where = json.loads(running.stdout.readline())
            metadata = AdminClient({"bootstrap.servers": where["bootstrap_servers"]}).list_topics(timeout=30)
            assert metadata.cluster_id == where["cluster_id"]
            with psycopg.connect(where["dsn"]) as connection:
                assert connection.execute("SELECT current_database()").fetchone() == ("townclock",)
            refused = townclock("run", "--data", str(data_dir))
            assert refused.returncode == 1
            assert f"{data_dir} is in use: process {running.pid}" in refused.stderr
            port = where["bootstrap_servers"].rpartition(":")[2]
            taken = townclock("run", "--data", str(data_dir.with_name("other")), "--kafka-port", port)
            assert taken.returncode == 1
            assert f"port {port}, asked for Apache Kafka, is in use" in taken.stderr
            children = psutil.Process(running.pid).children(recursive=True)
            assert len(children) >= 4
            running.send_signal(signal.SIGINT)
            assert running.wait(20) == 0
        finally:
            running.kill()
    wait_for(lambda: not any(child.is_running() for child in children), 10, "nothing is left running")


def test_run_says_when_a_service_dies(data_dir: Path) -> None:
    with subprocess.Popen(
        [*TOWNCLOCK, "run", "--data", str(data_dir), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            running.stdout.readline()
            children = psutil.Process(running.pid).children(recursive=True)
            java = next(child for child in children if child.name() == "java")
            os.kill(java.pid, signal.SIGKILL)
            assert running.wait(40) == 1
            assert running.stderr is not None
            assert "Apache Kafka has ended; its log is" in running.stderr.read()
        finally:
            running.kill()
    wait_for(lambda: not any(child.is_running() for child in children), 10, "nothing is left running")
