"""The registrars' group: reads `schedule-changes` and, back again, `schedules`, from where the registry says.

Kafka's own committed offsets are written for whoever watches the group's lag; nothing begins at them. The registry's
were written in the transaction of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog
from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from streams.adapters.clock import SystemClock
from streams.adapters.kafka.admin_calls import end_offsets, start_offsets
from streams.adapters.kafka.client import admin as admin_client
from streams.adapters.kafka.client import member_config, reason
from streams.adapters.kafka.topics import topic_id
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.pipeline.registry import SourceRecord

NextOffsets = Callable[[str, str], Mapping[int, int]]

_BEGINNING: Final = int(OFFSET_BEGINNING)
# Inside an assignment nothing else happens; what takes longer ends the session, and the next one tries again.
_GIVE_UP_S: Final = 4.0
_TOLD_EVERY_S: Final = 10.0
_GONE: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)

_log = structlog.get_logger()


class ChangeReader:
    """A member of the group. For one thread, which also runs the assignments, inside `batch`."""

    def __init__(
        self, bootstrap_servers: str, group: str, protocol: str, topics: Sequence[str], next_offsets: NextOffsets
    ) -> None:
        """Joins at the first `batch`. `next_offsets(topic, topic_id)` tells how far each partition is taken in."""
        self._admin: AdminClient = admin_client(bootstrap_servers)
        self._next_offsets = next_offsets
        self._topic_ids: dict[str, str] = {}
        self._clock = SystemClock()
        self._told_at_s: dict[int, float] = {}
        config = member_config(bootstrap_servers, "townclock-registrar", group, protocol, error_cb=self._tell)
        self._consumer = Consumer(config)
        self._consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked)

    def batch(self, most: int, timeout_s: float) -> list[SourceRecord]:
        """Waits for a first record, then takes what is there already. [] when the time is over.

        Raises ServiceUnreachable, and BrokenPromise where the registry is ahead of the log.
        """
        try:
            first = self._consumer.poll(timeout_s)
            if first is None:
                return []
            records = self._read(first)  # before an assignment in `consume` can tell of another topic of this name
            for message in self._consumer.consume(most - 1, 0):
                records += self._read(message)
        except KafkaException as error:
            raise ServiceUnreachable(f"the changes can't be read ({reason(error)})") from None
        return records

    def done(self, records: Sequence[SourceRecord]) -> None:
        """Tell the group how far these came. A partition that has moved to another member is theirs to tell."""
        ends = {(record.topic, record.partition): record.offset + 1 for record in records}
        places = [Place(topic, partition, offset) for (topic, partition), offset in ends.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            _log.info("offsets_not_told", reason=reason(error))

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _read(self, message: Message) -> list[SourceRecord]:
        error = message.error()
        if error is not None:
            if error.fatal() or error.code() in _GONE:
                raise ServiceUnreachable(f"{message.topic() or 'the group'} can't be read: {error.str()}")
            _log.warning("kafka_error", problem=error.str())
            return []
        topic, partition, offset = str(message.topic()), int(message.partition() or 0), int(message.offset() or 0)
        kind, append_ms = message.timestamp()
        return [
            SourceRecord(
                topic,
                self._topic_ids[topic],
                partition,
                offset,
                _bytes(message.key()),
                _bytes(message.value()),
                0 if kind == TIMESTAMP_NOT_AVAILABLE else append_ms,
            )
        ]

    def _tell(self, error: KafkaError) -> None:
        """librdkafka's own complaints, of each kind one in a while: it goes on trying by itself."""
        now_s = self._clock.boot_s()
        if now_s >= self._told_at_s.get(error.code(), 0.0):
            self._told_at_s[error.code()] = now_s + _TOLD_EVERY_S
            _log.warning("kafka_client", problem=error.str())

    def _assigned(self, consumer: Consumer, places: list[Place]) -> None:
        for topic in sorted({place.topic for place in places}):
            mine = [place for place in places if place.topic == topic]
            self._topic_ids[topic] = topic_id(self._admin, topic, give_up_s=_GIVE_UP_S)
            taken_in = self._next_offsets(topic, self._topic_ids[topic])
            partitions = [place.partition for place in mine]
            starts = start_offsets(self._admin, topic, partitions, give_up_s=_GIVE_UP_S)
            ends = end_offsets(self._admin, topic, partitions, committed=False, give_up_s=_GIVE_UP_S)
            for place in mine:
                p = place.partition
                place.offset = _begin_at(f"{topic}[{p}]", taken_in.get(p), starts[p], ends[p])
        consumer.incremental_assign(places)
        _log.info("partitions_assigned", partitions=_shown(places))

    def _revoked(self, consumer: Consumer, places: list[Place]) -> None:
        consumer.incremental_unassign(places)
        _log.info("partitions_revoked", partitions=_shown(places))


def _begin_at(where: str, taken_in: int | None, start: int, end: int) -> int:
    """Raises BrokenPromise if the log ends before what was taken in: it lost its end, or is another log."""
    if taken_in is None:
        return _BEGINNING
    if taken_in > end:
        raise BrokenPromise(
            f"{where} ends at {end}, and {taken_in} records of it were taken in: the log has lost its end. Changes "
            "appended since may not have been seen. Restore the topic, or delete its rows in table source_offset to "
            "have it read again from its beginning"
        )
    if taken_in < start:
        _log.error("alarm_changes_lost", partition=where, taken_in=taken_in, log_starts_at=start)
        return start
    return taken_in


def _shown(places: Sequence[Place]) -> list[str]:
    return [f"{place.topic}[{place.partition}]" for place in places]


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
