"""A delivery worker whose database neither answers nor goes away."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from tests.delivery_support import LANE, Delivery
from tests.ledger_support import make_fire
from tests.services import wait_for


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


def test_it_stops_within_5_s_and_loses_nothing(
    broker: EmbeddedBroker, services_folder: Path, topic_prefix: str, tmp_path: Path
) -> None:
    own = EmbeddedDatabase(services_folder / "frozen-postgres")
    own.start()
    try:
        delivery = Delivery(tmp_path, broker.bootstrap_servers, own.dsn, topic_prefix, "frozen")
        try:
            worker = delivery.worker()
            delivery.sandbox.change(LANE, hold=True)
            fires = [make_fire(f"s-{n}") for n in range(20)]
            delivery.emit(fires)
            wait_for(lambda: delivery.counts()["held"] == 20, 60, delivery.said)
            assert own.pid is not None
            with frozen(own.pid):
                began_s = time.monotonic()
                assert delivery.stop(worker) == 0
                assert time.monotonic() - began_s < 6.0  # 5 s, and what a loaded machine adds
            assert "delivery_left_behind" in delivery.said()
            assert "Traceback" not in delivery.said()
            delivery.sandbox.change(LANE, hold=False)
            delivery.worker("next")
            delivery.wait_states({"done": 20})
            assert delivery.effects() == {fire.key: 1 for fire in fires}
        finally:
            delivery.close()
    finally:
        own.destroy()
