"""One suite for the ports of the ticker and the joiner: what the fakes of the unit tests do, Kafka does too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.kafka.join_inputs import JoinInputs
from streams.adapters.kafka.occurrence_emitter import OccurrenceEmitter
from streams.adapters.kafka.tick_log import KafkaTickLog
from streams.domain.minutes import parse_tick
from streams.domain.occurrence import Ended, TickSource
from streams.domain.tick import Tick
from streams.pipeline.cursors import Cursor
from tests.joining import Installation
from tests.unit.test_join_round import Broker
from tests.unit.test_ticker import Log

START = parse_tick("2027-01-11T00:00Z")


@pytest.fixture(params=["fake", "kafka"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def here(kind: str, request: pytest.FixtureRequest) -> Installation | None:
    if kind == "fake":
        return None
    broker = request.getfixturevalue("broker")
    return Installation(broker.bootstrap_servers, request.getfixturevalue("topic_prefix"), partitions=3)


@pytest.fixture
def cursors(here: Installation | None) -> Iterator[Any]:
    if here is None:
        fake = Broker()
        fake.committed = dict.fromkeys(range(3), Cursor(0)) | {3: None}
        yield fake
        return
    inputs = JoinInputs(here.servers, "test", here.names, 3)
    yield inputs
    inputs.close()


def test_cursors_are_read_as_written_each_on_its_own(cursors: Any) -> None:
    assert cursors.read([0, 1, 2]) == dict.fromkeys(range(3), Cursor(0))
    assert cursors.read([]) == {}
    mine = Cursor(17, START, 4, "a-session")
    cursors.write({0: mine, 2: Cursor(3, START + 1, 4, "a-session")})
    assert cursors.read([0, 1, 2]) == {0: mine, 1: Cursor(0), 2: Cursor(3, START + 1, 4, "a-session")}
    cursors.write({0: Cursor(5, START, 5, "another")})
    assert cursors.read([0])[0] == Cursor(5, START, 5, "another")
    assert cursors.read([3]) == {3: None}


@pytest.fixture
def log(here: Installation | None) -> Any:
    if here is None:
        fake = Log(partitions=3)
        fake.ends = 0
        return fake
    return KafkaTickLog(here.servers, here.names, 3, lambda: False)


def test_ticks_are_appended_to_their_partitions_and_the_last_of_each_is_told(log: Any) -> None:
    assert log.last_ticks() == dict.fromkeys(range(3))
    marks = log.watermarks()
    assert marks.schedules.keys() == {0, 1, 2}
    ticks = [Tick(START + n, p, "id", 3, n, 2, 1_000 * n, "trial") for n in range(5) for p in range(2)]
    times = log.append(ticks)
    assert times.earliest_ms <= times.latest_ms
    assert log.last_ticks() == {0: ticks[-2], 1: ticks[-1], 2: None}


@pytest.fixture
def emitter(here: Installation | None) -> Any:
    return Broker() if here is None else OccurrenceEmitter(here.servers, "test", here.names, lambda: False)


def test_what_is_emitted_is_there_in_order_once_it_is_flushed(emitter: Any, here: Installation | None) -> None:
    records = [
        Ended(f"s{n}", 1, n + 1, "paused", START + n, TickSource(n % 3, n, 0), "eu", "default", "trial")
        for n in range(300)
    ]
    for record in records:
        emitter.emit(record.source.partition, record)
    assert emitter.flush() == {}
    assert emitter.flush() == {}
    found = [record for _, record in emitter.acknowledged] if here is None else here.records()
    for partition in range(3):
        assert [one for one in found if one.source.partition == partition] == records[partition::3]


@pytest.mark.parametrize("size_bytes", [2_000_000, 5_000_000])
def test_what_a_broker_refuses_is_told_by_partition(broker: EmbeddedBroker, topic_prefix: str, size_bytes: int) -> None:
    """The first size is refused by the broker, the second by its client. (The fake is told what to refuse.)"""
    here = Installation(broker.bootstrap_servers, topic_prefix)
    emitter = OccurrenceEmitter(here.servers, "test", here.names, lambda: False)
    noise = random.Random(1).randbytes(size_bytes // 2).hex()  # not to be compressed below the limit
    emitter.emit(0, Ended("s", 1, 1, "paused", START, TickSource(0, 0, 0), "eu", "x", "trial"))
    emitter.emit(1, Ended("s", 1, 1, "paused", START, TickSource(1, 0, 0), "eu", noise, "trial"))
    refused = emitter.flush()
    assert refused.keys() == {1}
    assert "topics check" in str(refused[1])
    assert emitter.flush() == {}
