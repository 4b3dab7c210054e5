"""An installation on a real broker for tests of ticks and joins: topics, plans, ticks, cursors, occurrences."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.adapters import codec
from streams.adapters.clock import SystemClock, new_id
from streams.adapters.kafka import topics
from streams.adapters.kafka.client import producer_config, reader_config
from streams.adapters.kafka.engine import Engine
from streams.domain.occurrence import OccurrenceRecord
from streams.domain.placement import partition_of
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.schedule import Schedule
from streams.domain.tick import Tick
from streams.pipeline.cursors import Cursor
from streams.pipeline.join import Terms
from streams.pipeline.names import Names
from tests.services import wait_for

REGIONS = ("eu", "us")
SCENARIO = "trial"
Seen = tuple[str, int, int, bytes, bytes, tuple[tuple[str, bytes], ...]]


class Installation:
    """One prefix on a broker. `scenario` none is live."""

    def __init__(self, servers: str, prefix: str, partitions: int = 2, scenario: str | None = SCENARIO) -> None:
        self.servers, self.names, self.partitions, self.scenario = servers, Names(prefix), partitions, scenario
        topics.create(self.names, REGIONS, servers, partitions=partitions, replication=1)
        self.admin = AdminClient({"bootstrap.servers": servers})
        self.producer = Producer(producer_config(servers, "test", **{"compression.type": "none"}))
        self.topic_id = topics.topic_id(self.admin, self.names.schedules)
        self.tzdata_end = self.end(self.names.tzdata, 0)
        self.sequence = 0

    @property
    def terms(self) -> Terms:
        return Terms(self.scenario, self.topic_id, self.partitions, frozenset(REGIONS))

    def end(self, topic: str, partition: int) -> int:
        return topics.end_offsets(self.admin, topic, [partition], committed=True)[partition]

    def wait_for_leaders(self) -> None:
        """After a restart of the broker. With new clients: an old admin client keeps old leaders' epochs."""

        def ready() -> bool:
            self.admin = AdminClient({"bootstrap.servers": self.servers})
            wanted = {TopicPartition(self.names.schedules, p): OffsetSpec.latest() for p in range(self.partitions)}
            try:
                return all(future.result(5).offset >= 0 for future in self.admin.list_offsets(wanted).values())
            except KafkaException:
                return False

        wait_for(ready, 60, "no leaders", poll_s=0.2)

    def put(self, *schedules: Schedule, state: RevisionState = RevisionState.ACTIVE, incarnation: int = 1) -> None:
        for one in schedules:
            self.sequence += 1
            revision = Revision(self.sequence, state, None, one)
            plan = Plan(one.id, incarnation, self.sequence, (revision,))
            self.producer.produce(self.names.schedules, codec.encode(plan), one.id.encode())
        assert self.producer.flush(30) == 0

    def tick(self, minute: int, partition: int, **fields: Any) -> Tick:
        values: dict[str, Any] = {
            "minute": minute,
            "partition": partition,
            "schedules_topic_id": self.topic_id,
            "partition_count": self.partitions,
            "watermark": self.end(self.names.schedules, partition),
            "tzdata_watermark": self.tzdata_end,
            "produced_at_ms": 0,
            "scenario": self.scenario,
        }
        return Tick(**{**values, **fields})

    def tick_all(self, minutes: Iterable[int], **fields: Any) -> None:
        ends = {p: self.end(self.names.schedules, p) for p in range(self.partitions)}
        for minute in minutes:
            for partition in range(self.partitions):
                self.send(self.tick(minute, partition, **{"watermark": ends[partition], **fields}))
        assert self.producer.flush(30) == 0

    def send(self, *ticks: Tick) -> None:
        for tick in ticks:
            self.producer.produce(self.names.ticks, codec.encode(tick), partition=tick.partition)
        self.producer.poll(0)

    def home(self, schedule_id: str) -> int:
        return partition_of(schedule_id.encode(), self.partitions)

    def cursors(self) -> dict[int, Cursor]:
        found = topics.committed_offsets(
            self.admin, self.names.processor_group, self.names.ticks, range(self.partitions)
        )
        return {partition: Cursor.parse(offset, metadata) for partition, (offset, metadata) in found.items()}

    def set_cursor(self, offsets: Mapping[int, int], metadata: str = "") -> None:
        """As kafka-consumer-groups --reset-offsets does."""
        items = [TopicPartition(self.names.ticks, p, o, metadata) for p, o in offsets.items()]
        asked = ConsumerGroupTopicPartitions(self.names.processor_group, items)
        for future in self.admin.alter_consumer_group_offsets([asked]).values():
            assert all(item.error is None for item in future.result(30).topic_partitions)

    def wait_joined(self, minute: int, timeout_s: float = 30.0) -> None:
        wait_for(
            lambda: all(cursor.minute == minute for cursor in self.cursors().values()),
            timeout_s,
            lambda: f"cursors {self.cursors()}, wanted minute {minute}",
            poll_s=0.05,
        )

    def occurrences(self) -> list[Seen]:
        """(region, partition, offset, key, value, headers) of everything emitted, by region, partition, offset."""
        return [
            (region, m.partition(), m.offset(), m.key(), m.value(), tuple(m.headers() or ()))
            for region in REGIONS
            for m in read_topic(self.servers, self.names.occurrences(region), range(self.partitions))
        ]

    def values(self) -> list[bytes]:
        return [seen[4] for seen in self.occurrences()]

    def records(self) -> list[OccurrenceRecord]:
        return [codec.decode(value) for value in self.values()]  # type: ignore[misc]

    def engine(
        self, failed: Callable[[BaseException], None] = lambda error: None, session: str | None = None
    ) -> Engine:
        return Engine(self.servers, self.names, self.terms, session or new_id(), SystemClock(), failed)

    def settings(self, folder: Path) -> Path:
        file = folder / "townclock.toml"
        lines = [] if self.scenario is None else [f'scenario = "{self.scenario}"']
        lines += ["[kafka]", f'bootstrap_servers = "{self.servers}"', f'topic_prefix = "{self.names.prefix}"']
        file.write_text("\n".join([*lines, *(f"[regions.{region}]" for region in REGIONS)]) + "\n")
        return file


class Joining:
    """An engine that owns partitions while the block runs."""

    def __init__(self, installation: Installation, partitions: Sequence[int] | None = None) -> None:
        self.errors: list[BaseException] = []
        self.engine = installation.engine(self.errors.append)
        self._partitions = range(installation.partitions) if partitions is None else partitions

    def __enter__(self) -> Engine:
        self.engine.start()
        assert self.engine.own(self._partitions, 1, 20)
        return self.engine

    def __exit__(self, *_: object) -> None:
        assert self.engine.shutdown(20)
        assert not self.errors


def read_topic(servers: str, topic: str, partitions: Iterable[int]) -> list[Message]:
    """Every committed record, by partition, then offset."""
    consumer = Consumer(reader_config(servers, "test", "unused"))
    found: list[Message] = []
    try:
        for partition in partitions:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(30)
                assert message is not None, f"{topic}[{partition}] does not answer"
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    break
                found.append(message)
    finally:
        consumer.close()
    return found


class Process:
    """A `townclock` command as a process, its output kept."""

    def __init__(self, folder: Path, config: Path, *arguments: str, module: str = "streams") -> None:
        self.log = folder / f"{arguments[0]}-{new_id()[:8]}.log"
        options = ["--config", str(config), *arguments] if module == "streams" else [str(config), *arguments]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *options],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(Path(__file__).parent.parent)},
                cwd=folder,
            )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)

    def terminate(self, timeout_s: float = 5.0) -> int:
        self.process.terminate()
        return self.process.wait(timeout_s)

    @property
    def text(self) -> str:
        return self.log.read_text()
