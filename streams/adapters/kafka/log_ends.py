"""First offsets and ends of partitions, asked over a connection that no fetch holds up.

A consumer's own question waits behind its long-polling fetch, 100 ms a partition.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.adapters.kafka.client import admin

_TIMEOUT_S: Final = 5.0


class LogEnds:
    """Ends are those a reader of committed records sees. Raises KafkaException; the next call asks anew."""

    def __init__(self, bootstrap_servers: str) -> None:
        """Does not connect."""
        self._bootstrap_servers = bootstrap_servers
        self._admin: AdminClient | None = None

    def bounds(self, topic: str, partitions: Collection[int]) -> dict[int, tuple[int, int]]:
        """(first offset, end) of each partition."""
        firsts = self._ask(topic, partitions, OffsetSpec.earliest())
        ends = self.ends(topic, partitions)
        return {partition: (firsts[partition], ends[partition]) for partition in partitions}

    def ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """The end of each partition."""
        return self._ask(topic, partitions, OffsetSpec.latest())

    def _ask(self, topic: str, partitions: Collection[int], spec: OffsetSpec) -> dict[int, int]:
        if not partitions:
            return {}
        if self._admin is None:
            self._admin = admin(self._bootstrap_servers)
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}
        try:
            futures = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_S
            )
            return {tp.partition: int(future.result().offset) for tp, future in futures.items()}
        except KafkaException:
            # An admin client keeps the leaders' epochs it knows: after a broker's restart it would be refused for ever.
            self._admin = None
            raise
