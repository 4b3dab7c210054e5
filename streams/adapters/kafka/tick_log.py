"""`ticks` for a ticker: its last records, the ends that bound a tick, and appending."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import OffsetSpec

from streams.adapters.codec import encode
from streams.adapters.kafka.client import admin, producer_config, reader_config, reason
from streams.adapters.kafka.join_inputs import tick_of
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.domain.tick import Tick
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.names import Names
from streams.pipeline.tick import AppendTimes, Watermarks

_CALL_TIMEOUT_S: Final = 3.0
_SLICE_S: Final = 0.1
_MESSAGE_TIMEOUT_MS: Final = 30_000


class KafkaTickLog:
    """The `TickLog` port. Used by one thread; its waits end with Interrupted when asked to."""

    def __init__(
        self, bootstrap_servers: str, names: Names, partition_count: int, interrupted: Callable[[], bool]
    ) -> None:
        """Does not wait for the broker."""
        self._names = names
        self._partitions = range(partition_count)
        self._interrupted = interrupted
        self._bootstrap_servers = bootstrap_servers
        self._admin = admin(bootstrap_servers)
        self._reader = reader_config(bootstrap_servers, "ticker", names.processor_group)
        # Not compressed: the client inside Faust, whose host listens to ticks, reads no lz4.
        more = {"message.timeout.ms": _MESSAGE_TIMEOUT_MS, "compression.type": "none"}
        self._producer_config = producer_config(bootstrap_servers, "ticker", **more)
        self._producer = Producer(self._producer_config)
        self._schedules_id: str | None = None
        self._times: list[int] = []
        self._failed: list[KafkaError] = []
        self._untimed = False

    def last_ticks(self) -> dict[int, Tick | None]:
        """See TickLog. All partitions side by side: one after the other, 24 would take seconds."""
        consumer = Consumer(self._reader)
        try:
            return self._last_ticks(consumer)
        except KafkaException as error:
            raise _unreachable("read ticks", error) from None
        finally:
            consumer.close()

    def _last_ticks(self, consumer: Consumer) -> dict[int, Tick | None]:
        """From the ends backwards, in longer and longer steps: the end of a log may hold no record."""
        found: dict[int, Tick | None] = dict.fromkeys(self._partitions)
        bounds = {partition: self._bounds(consumer, partition) for partition in self._partitions}
        wanted = [partition for partition, (low, high) in bounds.items() if low < high]
        back = 1
        while wanted:
            starts = {p: max(bounds[p][0], bounds[p][1] - back) for p in wanted}
            last = self._last_from(consumer, starts)
            found.update({partition: _tick(message) for partition, message in last.items()})
            wanted = [p for p in wanted if p not in last and starts[p] > bounds[p][0]]
            back *= 2
        return found

    def _last_from(self, consumer: Consumer, starts: Mapping[int, int]) -> dict[int, Message]:
        """The last record of each partition from its start on, where there is one."""
        consumer.assign([TopicPartition(self._names.ticks, partition, start) for partition, start in starts.items()])
        last: dict[int, Message] = {}
        unread = set(starts)
        while unread:
            message = consumer.poll(_CALL_TIMEOUT_S)
            if self._interrupted():
                raise Interrupted
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - the library spells it so
            partition, error = message.partition(), message.error()
            if error is None and partition is not None:
                last[partition] = message
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                unread.discard(-1 if partition is None else partition)
            elif error is not None:
                raise KafkaException(error)
        return last

    def _bounds(self, consumer: Consumer, partition: int) -> tuple[int, int]:
        found = consumer.get_watermark_offsets(TopicPartition(self._names.ticks, partition), timeout=_CALL_TIMEOUT_S)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001
        return int(found[0]), int(found[1])

    def watermarks(self) -> Watermarks:
        """See TickLog. Raises BrokenPromise if `schedules` is not what it was: its offsets would mean other things."""
        wanted = {TopicPartition(self._names.schedules, p): OffsetSpec.latest() for p in self._partitions}
        wanted[TopicPartition(self._names.tzdata, 0)] = OffsetSpec.latest()
        try:
            futures = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_CALL_TIMEOUT_S
            )
            described = self._admin.describe_topics(
                TopicCollection([self._names.schedules]), request_timeout=_CALL_TIMEOUT_S
            )
            found = {(tp.topic, tp.partition): int(future.result().offset) for tp, future in futures.items()}
            self._require_same(described[self._names.schedules].result())
        except KafkaException as error:
            # An admin client keeps the leaders' epochs it knows: after a broker's restart it would be refused for ever.
            self._admin = admin(self._bootstrap_servers)
            raise _unreachable("tell the ends of schedules and tzdata", error) from None
        schedules = {partition: found[self._names.schedules, partition] for partition in self._partitions}
        return Watermarks(schedules, found[self._names.tzdata, 0])

    def _require_same(self, schedules: Any) -> None:
        found_id, count = str(schedules.topic_id), len(schedules.partitions)
        self._schedules_id = self._schedules_id or found_id
        if found_id != self._schedules_id:
            raise BrokenPromise(
                f"{self._names.schedules} was deleted and created again while the ticker ran: no tick is written that "
                "would take its offsets for the old topic's; see townclock topics check"
            )
        if count != len(self._partitions):
            raise BrokenPromise(
                f"{self._names.schedules} now has {count} partitions, not {len(self._partitions)}: keys would be "
                "misplaced, so no tick is written; see townclock topics check"
            )

    def append(self, ticks: Sequence[Tick]) -> AppendTimes:
        """See TickLog."""
        self._times, self._failed, self._untimed = [], [], False
        for tick in ticks:
            value = encode(tick)
            while True:
                try:
                    self._producer.produce(
                        self._names.ticks, value, partition=tick.partition, on_delivery=self._acknowledged
                    )
                    break
                except BufferError:
                    if self._interrupted():
                        raise Interrupted from None
                    self._producer.poll(_SLICE_S)
                except KafkaException as error:
                    self._renew_producer()
                    raise _unreachable("take ticks", error) from None
        while self._producer.flush(_SLICE_S):
            if self._interrupted():
                raise Interrupted
        if self._failed:
            if any(error.fatal() for error in self._failed):
                self._renew_producer()
            raise _unreachable("take ticks", KafkaException(self._failed[-1]))
        if self._untimed:
            raise BrokenPromise("ticks does not stamp records with LogAppendTime; see townclock topics check")
        return AppendTimes(min(self._times), max(self._times))

    def _renew_producer(self) -> None:
        """After an error that a producer does not recover from. What of its ticks arrived is read from the log."""
        self._producer.purge()
        self._producer.flush(_SLICE_S)
        self._producer = Producer(self._producer_config)

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed.append(error)
            return
        kind, at_ms = message.timestamp()
        self._untimed |= kind != TIMESTAMP_LOG_APPEND_TIME
        self._times.append(at_ms)


def _unreachable(what: str, error: KafkaException) -> ServiceUnreachable:
    return ServiceUnreachable(f"Kafka can't {what} ({reason(error)})")


def _tick(message: Message) -> Tick:
    tick = tick_of(message)
    if isinstance(tick, BrokenPromise):
        raise BrokenPromise(f"ticks[{message.partition()}], offset {message.offset()}: {tick}")
    return tick
