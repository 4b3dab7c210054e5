"""How an installation is: how far each partition is joined, and what waits, of what age, on each lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.adapters.clock import Clock
from streams.adapters.kafka.client import reader_config
from streams.adapters.kafka.joined_clock import joined_minute
from streams.adapters.postgres.base import Connection, connect, statements
from streams.domain.errors import ServiceUnreachable
from streams.pipeline.names import Names


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """One region's provider. `oldest_due_age_s` is none where nothing is due."""

    region: str
    provider: str
    open_rows: int
    in_review: int
    done: int
    oldest_due_age_s: float | None
    held: bool


@dataclass(frozen=True, slots=True)
class Status:
    """`cursor_age_s` is how long ago the least advanced partition's next minute was due; none before the first."""

    cursor_age_s: float | None = None
    schedules: int = 0
    outbox: int = 0
    lanes: Sequence[LaneStatus] = ()
    problems: list[str] = field(default_factory=list)


class StatusReader:
    """Reads one installation's status. A service that is away is a problem in the status, not an error."""

    def __init__(
        self, bootstrap_servers: str, names: Names, dsn: str, schema: str, partitions: int, clock: Clock
    ) -> None:
        """Connects when first asked."""
        self._names = names
        self._partitions = partitions
        self._clock = clock
        self._where = (dsn, schema)
        self._consumer = Consumer(reader_config(bootstrap_servers, "status", names.processor_group))
        self._connection: Connection | None = None

    def read(self) -> Status:
        """The status now."""
        problems: list[str] = []
        age_s: float | None = None
        try:
            age_s = self._cursor_age_s()
        except KafkaException:
            problems.append("Kafka does not answer")
        try:
            if self._connection is None or self._connection.closed:
                self._connection = connect(*self._where, "status", statement_timeout="5s")
            return self._from_ledger(self._connection, age_s, problems)
        except (psycopg.Error, ServiceUnreachable):
            self._drop()
            return Status(cursor_age_s=age_s, problems=[*problems, "PostgreSQL does not answer"])

    def _cursor_age_s(self) -> float | None:
        asked = [TopicPartition(self._names.ticks, number) for number in range(self._partitions)]
        lowest = min(joined_minute(found) for found in self._consumer.committed(asked, timeout=5))
        return None if lowest < 0 else max(0.0, self._clock.now_s() - (lowest + 1) * 60)

    def _from_ledger(self, connection: Connection, age_s: float | None, problems: list[str]) -> Status:
        named = statements("status")
        counts = connection.execute(named["counts"]).fetchone() or (0, 0)
        lanes = [LaneStatus(*row) for row in connection.execute(named["lanes"]).fetchall()]
        return Status(age_s, counts[0], counts[1], lanes, problems)

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Ends both connections."""
        self._drop()
        self._consumer.close()
