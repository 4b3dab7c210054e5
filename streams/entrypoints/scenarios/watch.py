"""How far a scenario is: minutes joined, records taken in, rows still open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.adapters.kafka.admin_calls import end_offsets
from streams.adapters.kafka.client import admin, reader_config
from streams.adapters.kafka.joined_clock import joined_minute
from streams.adapters.postgres.base import Connection, connect
from streams.pipeline.names import Names

# In `review` a person decides: nothing more happens to the row by itself.
_OPEN = "SELECT count(*) FROM ledger WHERE state IN ('waiting', 'pending', 'leased', 'sending', 'retry', 'unknown')"
_TAKEN_IN = "SELECT topic, partition, max(next_offset) FROM source_offset GROUP BY topic, partition"

_SUPPRESSED = "SELECT topic, sum(duplicates)::bigint FROM source_offset GROUP BY topic"
_UNKNOWN = (
    "SELECT region, count(DISTINCT l.key) FROM ledger l"
    " JOIN attempt a ON a.date = l.date AND a.key = decode(l.key, 'hex')"
    " WHERE a.outcome = 'unknown' GROUP BY region"
)


@dataclass(frozen=True, slots=True)
class Progress:
    """`joined_minutes` is per partition, -1 before the first; `behind` counts records that intake has yet to take."""

    joined_minutes: tuple[int, ...]
    behind: int
    open_rows: int


class Watch:
    """Reads cursors, offsets and the ledger of one installation. One thread at a time."""

    def __init__(self, bootstrap_servers: str, names: Names, regions: Sequence[str], partitions: int) -> None:
        """Connects when first asked."""
        self._admin = admin(bootstrap_servers)
        self._names = names
        self._topics = [names.occurrences(region) for region in regions]
        self._partitions = partitions
        self._consumer = Consumer(reader_config(bootstrap_servers, "scenario-watch", names.processor_group))
        self._connection: Connection | None = None

    def open(self, dsn: str, schema: str) -> None:
        """Connect to the ledger. Raises ServiceUnreachable."""
        self._connection = connect(dsn, schema, "scenario watch")

    def joined_minutes(self) -> tuple[int, ...]:
        """The last minute joined on each partition. Raises KafkaException."""
        asked = [TopicPartition(self._names.ticks, number) for number in range(self._partitions)]
        return tuple(joined_minute(found) for found in self._consumer.committed(asked, timeout=10))

    def look(self) -> Progress:
        """All of it. What intake has taken is read before the ends of the topics, so `behind` is never too small."""
        minutes = self.joined_minutes()
        if self._connection is None:
            raise KafkaException("open() comes first")
        taken = {(topic, partition): at for topic, partition, at in self._connection.execute(_TAKEN_IN).fetchall()}
        behind = 0
        for topic in self._topics:
            for partition, end in end_offsets(self._admin, topic, range(self._partitions), committed=True).items():
                behind += max(0, end - taken.get((topic, partition), 0))
        row = self._connection.execute(_OPEN).fetchone()
        return Progress(minutes, behind, row[0] if row else 0)

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """By region: duplicates that intake recognised, and keys whose outcome was unknown for a while."""
        if self._connection is None:
            raise KafkaException("open() comes first")
        suppressed = {
            topic.removeprefix(self._names.occurrences("")): count
            for topic, count in self._connection.execute(_SUPPRESSED).fetchall()
            if topic in self._topics
        }
        return suppressed, dict(self._connection.execute(_UNKNOWN).fetchall())

    def close(self) -> None:
        """Ends both connections."""
        self._consumer.close()
        if self._connection is not None:
            self._connection.close()
