"""Reads `occurrences.<region>` as a member of the region's group: see `streams.pipeline.intake.Source`.

The ledger's offsets win over Kafka's. On assignment, where Kafka's is ahead (or the ledger knows nothing of the topic),
reading goes back to the ledger's and an alarm is logged: something was committed that the ledger does not have. Where
Kafka's is behind, somebody has reset the group: it is read again, and the ledger tells the duplicates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.adapters.kafka.client import member_config, reason
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.pipeline.intake import Record

LedgerOffsets = Callable[[], Mapping[int, int]]

_BEGINNING: Final = int(OFFSET_BEGINNING)
_PREFETCH_KB: Final = 8192
_ASK_S: Final = 10.0
_WAIT_S: Final = 0.5
_FATAL: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED})

_log = structlog.get_logger()


class OccurrenceConsumer:
    """One owner thread. `ledger_offsets` is asked there too, at every assignment, until it answers or `stopping`."""

    def __init__(
        self,
        bootstrap_servers: str,
        client_id: str,
        group: str,
        protocol: str,
        topic: str,
        topic_id: str,
        ledger_offsets: LedgerOffsets,
        stopping: Callable[[float], bool],
    ) -> None:
        """Joins the group at the first poll. `stopping(s)` waits up to `s` seconds for the end."""
        self.topic = topic
        self.topic_id = topic_id
        self._ledger_offsets = ledger_offsets
        self._stopping = stopping
        more = {"queued.max.messages.kbytes": _PREFETCH_KB, "error_cb": _tell}
        self._consumer = Consumer(member_config(bootstrap_servers, client_id, group, protocol, **more))
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        self._paused = False
        self._durable: dict[int, int] = {}

    def poll(self, most: int, timeout_s: float) -> list[Record]:
        """See Source. Waits for the first record, then takes what is there already."""
        found: list[Record] = []
        message = self._consumer.poll(timeout_s)
        while message is not None:
            error = message.error()
            if error is None:
                found.append(_record(message))
            else:
                self._judge(error)
            if len(found) >= most:
                break
            message = self._consumer.poll(0)
        return found

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """See Source. A partition that has moved on to somebody else is theirs to commit."""
        self._durable.update(next_offsets)
        self._commit(next_offsets, wait=False)

    def _commit(self, next_offsets: Mapping[int, int], *, wait: bool) -> None:
        offsets = [TopicPartition(self.topic, partition, at) for partition, at in sorted(next_offsets.items())]
        if not offsets:
            return
        try:
            if wait:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            _log.info("offsets_not_committed", reason=reason(error))

    def idle(self) -> None:
        """See Source."""
        assignment = self._consumer.assignment()
        if assignment:
            self._consumer.pause(assignment)
            self._paused = True
        self._consumer.poll(0)

    def resume_from(self, next_offsets: Mapping[int, int]) -> None:
        """See Source. What was fetched before is thrown away."""
        assignment = self._consumer.assignment()
        if self._paused and assignment:
            self._consumer.resume(assignment)
        self._paused = False
        for item in assignment:
            at = next_offsets.get(item.partition, _BEGINNING)
            if (durable := self._durable.get(item.partition, 0)) > max(at, 0):
                where = {"topic": self.topic, "partition": item.partition, "was": durable, "goes_back_to": at}
                _log.error("alarm_ledger_has_less", note="another or a restored database answers now", **where)
            try:
                self._consumer.seek(TopicPartition(self.topic, item.partition, at))
            except KafkaException as error:
                raise ServiceUnreachable(f"Kafka can't go back on {self.topic}: {reason(error)}") from None

    def close(self) -> None:
        """See Source."""
        self._commit(self._durable, wait=True)
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        offsets = self._ask_ledger()
        if offsets is None:
            return
        for item, kafka in zip(partitions, self._committed(consumer, partitions), strict=True):
            ledger = offsets.get(item.partition)
            item.offset = self._start(item.partition, kafka, ledger)
        consumer.incremental_assign(partitions)
        _log.info("partitions_assigned", topic=self.topic, partitions=sorted(item.partition for item in partitions))

    def _start(self, partition: int, kafka: int, ledger: int | None) -> int:
        """Where to begin: Kafka's committed offset (below 0: none), unless the ledger has less."""
        where = {"topic": self.topic, "partition": partition, "kafka": kafka, "ledger": ledger}
        if ledger is None:
            if kafka > 0:
                _log.error("alarm_offset_ahead_of_ledger", goes_back_to="the beginning", **where)
            return _BEGINNING
        if kafka > ledger:
            _log.error("alarm_offset_ahead_of_ledger", goes_back_to=ledger, **where)
            return ledger
        if 0 <= kafka < ledger:
            _log.info("offset_behind_ledger", note="read again; duplicates are recognised", **where)
            return kafka
        return ledger

    def _committed(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[int]:
        while True:
            try:
                return [item.offset for item in consumer.committed(partitions, timeout=_ASK_S)]
            except KafkaException as error:
                _log.warning("waiting", what="the group's offsets", problem=reason(error))
                if self._stopping(_WAIT_S):
                    return [-1] * len(partitions)

    def _ask_ledger(self) -> Mapping[int, int] | None:
        while True:
            try:
                return self._ledger_offsets()
            except ServiceUnreachable as error:
                _log.warning("waiting", what="the ledger's offsets", problem=str(error))
                if self._stopping(_WAIT_S):
                    return None

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What was taken in is durable already; telling the group spares its next owner reading it again."""
        del consumer
        gone = {
            item.partition: self._durable.pop(item.partition) for item in partitions if item.partition in self._durable
        }
        self._commit(gone, wait=True)
        _log.info("partitions_revoked", topic=self.topic, partitions=sorted(item.partition for item in partitions))

    def _lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer
        for item in partitions:
            self._durable.pop(item.partition, None)
        _log.warning("partitions_lost", topic=self.topic, partitions=sorted(item.partition for item in partitions))

    def _judge(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in _FATAL:
            raise BrokenPromise(f"{self.topic} can't be read: {error.str()}; see townclock topics check")
        if error.code() == KafkaError._MAX_POLL_EXCEEDED:  # noqa: SLF001 - the library's own codes are spelled so
            _log.warning("left_the_group", reason=error.str())
        else:
            _log.warning("kafka_error", topic=self.topic, problem=error.str())


def _record(message: Message) -> Record:
    partition, offset = message.partition(), message.offset()
    headers: Any = message.headers()
    return Record(
        0 if partition is None else partition,
        0 if offset is None else offset,
        _bytes(message.key()),
        _bytes(message.value()),
        headers or (),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


@functools.cache
def _tell_once(code: int, text: str) -> None:
    _log.warning("kafka_client", code=code, problem=text)


def _tell(error: KafkaError) -> None:
    """librdkafka's own complaints, each kind once: it goes on trying by itself."""
    _tell_once(error.code(), error.str())
