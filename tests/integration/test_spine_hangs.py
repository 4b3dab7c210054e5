"""Registrar and relay whose database neither answers nor goes away: they stop in time, and nothing is lost by it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.kafka.change_publisher import publish_changes
from streams.pipeline.names import Names
from tests.installation import SETTINGS, Installation
from tests.registry_support import change
from tests.services import unique_name


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """A process and its children get no time."""
    head = psutil.Process(pid)
    family = [head, *head.children(recursive=True)]
    for process in family:
        process.suspend()
    try:
        yield
    finally:
        for process in family:
            if process.is_running():
                process.resume()


def test_they_stop_within_5_s_and_lose_nothing(
    broker: EmbeddedBroker, services_folder: Path, topic_prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "townclock.toml").write_text(SETTINGS)
    own = EmbeddedDatabase(services_folder / unique_name("p"))
    own.start()
    here = Installation(tmp_path, broker.bootstrap_servers, own.dsn, "frozen", Names(topic_prefix))

    def publish(first: int) -> None:
        changes = [change(schedule_id=f"s{n}", change_id=f"c{n}") for n in range(first, first + 20)]
        publish_changes(here.bootstrap_servers, here.names, changes, lambda _: None)

    try:
        here.prepare()
        processes = [here.start("registrar"), here.start("relay")]
        publish(0)
        here.wait_until("SELECT count(*) FROM schedule WHERE landed_sequence = 1", 20)
        assert own.pid is not None
        with frozen(own.pid):
            publish(20)
            for process in processes:
                began_s = time.monotonic()
                assert process.stop(6.0) == 0, process.log  # 5 s, and what a loaded machine adds
                assert time.monotonic() - began_s < 6.0
        assert "left_behind" in processes[0].log
        assert not any("Traceback" in process.log for process in processes)
        for command in ("registrar", "relay"):
            here.start(command)
        here.wait_until("SELECT count(*) FROM schedule WHERE landed_sequence = 1", 40, 120)
        assert here.one("SELECT count(*) FROM revision") == 40
    finally:
        here.close()
        own.destroy()
