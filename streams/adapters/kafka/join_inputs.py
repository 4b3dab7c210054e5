"""What joiners read: `ticks` through one shared consumer, `schedules` and `tzdata` through another. One owner thread.

The tick consumer also reads and writes the cursors: offsets of a group that never has members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.adapters.codec import Undecodable, decode
from streams.adapters.kafka.client import reader_config, reason
from streams.adapters.kafka.log_ends import LogEnds
from streams.adapters.kafka.tz_records import take_tzdata
from streams.domain.errors import BrokenPromise
from streams.domain.placement import partition_of
from streams.domain.plan import Plan
from streams.domain.tick import Tick
from streams.domain.tz_asof import TzBook
from streams.pipeline.cursors import Cursor
from streams.pipeline.join import PartitionJoin
from streams.pipeline.names import Names

CALL_TIMEOUT_S: Final = 10.0
_PLANS_AT_ONCE: Final = 5_000
_TICKS_AT_ONCE: Final = 1_000
_MOST_QUEUED_TICKS: Final = 10_000
_OUT_OF_LOG: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001 - librdkafka's name begins so
)
_GONE: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001
)
_FORBIDDEN: Final = KafkaError.TOPIC_AUTHORIZATION_FAILED

_log = structlog.get_logger()


class JoinInputs:
    """Feeds the PartitionJoins it is given. Transient errors raise KafkaException; nothing is lost by a repetition."""

    def __init__(self, bootstrap_servers: str, client_id: str, names: Names, partition_count: int) -> None:
        """Does not wait for the broker."""
        self.tz = TzBook()
        self._names = names
        self._partition_count = partition_count
        self._joins: dict[int, PartitionJoin] = {}
        self._tick_positions: dict[int, int] = {}
        self._plans = Consumer(reader_config(bootstrap_servers, client_id, names.processor_group))
        self._ticks = Consumer(reader_config(bootstrap_servers, client_id, names.processor_group))
        self._ends = LogEnds(bootstrap_servers)
        self._reads_tzdata = False

    def begin(self, joins: Collection[PartitionJoin], first_tick_offsets: Mapping[int, int]) -> None:
        """Read for partitions from these offsets of `ticks` and the beginning of `schedules`, anew if they were read.

        All at once: a partition that joins others in the middle of a fetch waits for its end.
        """
        plans, ticks = [], []
        if not self._reads_tzdata:
            plans.append(TopicPartition(self._names.tzdata, 0, OFFSET_BEGINNING))
            self._connect()
        for join in joins:
            partition = join.partition
            self.end(partition)
            plans.append(TopicPartition(self._names.schedules, partition, OFFSET_BEGINNING))
            ticks.append(TopicPartition(self._names.ticks, partition, first_tick_offsets[partition]))
        self._reads_tzdata = True
        for join in joins:
            self._joins[join.partition] = join
            self._tick_positions[join.partition] = first_tick_offsets[join.partition]
        self._plans.incremental_assign(plans)
        self._ticks.incremental_assign(ticks)

    def _connect(self) -> None:
        """Have connections and leaders at hand: by itself librdkafka looks for them once a second only."""
        for consumer, topic in (
            (self._plans, self._names.tzdata),
            (self._plans, self._names.schedules),
            (self._ticks, self._names.ticks),
        ):
            consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=CALL_TIMEOUT_S)

    def end(self, partition: int) -> None:
        """Read no more for a partition."""
        if self._joins.pop(partition, None) is not None:
            del self._tick_positions[partition]
            self._plans.incremental_unassign([TopicPartition(self._names.schedules, partition)])
            self._ticks.incremental_unassign([TopicPartition(self._names.ticks, partition)])

    def tick_position(self, partition: int) -> int:
        """Offsets of `ticks` below this one have been read; 0 for a partition that is not read."""
        return self._tick_positions.get(partition, 0)

    def pump_plans(self, timeout_s: float) -> int:
        """Take what there is of `schedules` and `tzdata`; how many records."""
        messages = self._plans.consume(_PLANS_AT_ONCE, timeout_s)
        for message in messages:
            if message.topic() == self._names.tzdata:
                self._take_tzdata(message)
            elif (join := self._joins.get(_partition(message))) is not None:
                self._take_plan(join, message)
        return len(messages)

    def pull_ticks(self, timeout_s: float) -> int:
        """Take what there is of `ticks`, unless too many wait already; how many records."""
        if sum(join.queued for join in self._joins.values()) >= _MOST_QUEUED_TICKS:
            return 0
        messages = self._ticks.consume(_TICKS_AT_ONCE, timeout_s)
        for message in messages:
            join = self._joins.get(_partition(message))
            if join is not None:
                self._take_tick(join, message)
        return len(messages)

    # The Cursors port.

    def read(self, partitions: Collection[int]) -> Mapping[int, Cursor | None]:
        """See Cursors."""
        if not partitions:
            return {}
        found = self._ticks.committed(
            [TopicPartition(self._names.ticks, partition) for partition in partitions], timeout=CALL_TIMEOUT_S
        )
        _raise_first(found)
        return {tp.partition: Cursor.parse(tp.offset, tp.metadata) if tp.offset >= 0 else None for tp in found}

    def write(self, cursors: Mapping[int, Cursor]) -> None:
        """See Cursors."""
        wanted = [
            TopicPartition(self._names.ticks, partition, cursor.offset, cursor.metadata)
            for partition, cursor in cursors.items()
        ]
        _raise_first(self._ticks.commit(offsets=wanted, asynchronous=False) or [])

    # The ends of the logs.

    def tick_bounds(self, partitions: Collection[int]) -> dict[int, tuple[int, int]]:
        """First offset and end of partitions of `ticks`."""
        return self._ends.bounds(self._names.ticks, partitions)

    def end_of(self, topic: str, partition: int) -> int:
        """The end of `schedules[partition]`, or of `tzdata`."""
        if topic == "tzdata":
            return self._ends.ends(self._names.tzdata, [0])[0]
        return self._ends.ends(self._names.schedules, [partition])[partition]

    def tick_offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        """The first offset appended at or after a time, by partition; none if there is none."""
        if not times_ms:
            return {}
        asked = [TopicPartition(self._names.ticks, partition, at_ms) for partition, at_ms in times_ms.items()]
        found = self._ticks.offsets_for_times(asked, timeout=CALL_TIMEOUT_S)
        _raise_first(found)
        return {tp.partition: tp.offset if tp.offset >= 0 else None for tp in found}

    def close(self) -> None:
        """Let go of both consumers."""
        self._ticks.close()
        self._plans.close()

    # One record at a time.

    def _take_plan(self, join: PartitionJoin, message: Message) -> None:
        offset = _offset(message)
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                join.plans_position = max(join.plans_position, offset)
            else:
                _pass_or_stop(error, f"schedules[{join.partition}]", join.stop)
            return
        try:
            schedule_id = _key(message)
            value = message.value()
            plan = None if value is None else decode(value)
            if plan is not None and not isinstance(plan, Plan):
                raise Undecodable(f"a {type(plan).__name__} where a plan was expected")
            if plan is not None and plan.schedule_id != schedule_id:
                raise Undecodable(f"a plan of {plan.schedule_id} under the key {schedule_id}")
            home = partition_of(schedule_id.encode(), self._partition_count)
            if home != join.partition:
                raise Undecodable(f"schedule {schedule_id} belongs to partition {home}: it was not placed by murmur2")
        except Undecodable as problem:
            join.add_invalid_plan(offset, f"{problem}; only townclock relay may write schedules")
            return
        join.add_plan(offset, message.timestamp()[1], schedule_id, plan)

    def _take_tick(self, join: PartitionJoin, message: Message) -> None:
        offset = _offset(message)
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self._tick_positions[join.partition] = max(self._tick_positions[join.partition], offset)
            else:
                _pass_or_stop(error, f"ticks[{join.partition}]", join.stop)
            return
        self._tick_positions[join.partition] = offset + 1
        if join.problem is None:
            join.add_tick(offset, tick_of(message))

    def _take_tzdata(self, message: Message) -> None:
        offset = _offset(message)
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                self.tz.position = max(self.tz.position, offset)
            elif error.code() in _OUT_OF_LOG | _GONE | {_FORBIDDEN}:
                raise BrokenPromise(f"tzdata can't be read: {reason(error)}; see townclock topics check")
            return
        value = message.value()
        take_tzdata(self.tz, offset, value if isinstance(value, bytes) else None)


def tick_of(message: Message) -> Tick | BrokenPromise:
    """The tick in a record, or what is wrong with it."""
    try:
        value = decode(message.value())
    except Undecodable as problem:
        return BrokenPromise(f"{problem}; only townclock ticker may write ticks")
    if isinstance(value, Tick):
        return value
    return BrokenPromise(f"a {type(value).__name__}; only townclock ticker may write ticks")


def _pass_or_stop(error: KafkaError, where: str, stop: Callable[[BrokenPromise], None]) -> None:
    """Losses of connection pass, inside the library; what is gone, or not allowed, does not."""
    if error.fatal():
        raise KafkaException(error)
    if error.code() in _OUT_OF_LOG:
        stop(
            BrokenPromise(
                f"{where}: the offset to read from is no longer in the log ({reason(error)}); set a cursor that is, "
                "with kafka-consumer-groups --reset-offsets"
            )
        )
    elif error.code() in _GONE:
        stop(BrokenPromise(f"{where} is gone ({reason(error)}); see townclock topics check"))
    elif error.code() == _FORBIDDEN:
        stop(BrokenPromise(f"{where} may not be read ({reason(error)}); see the broker's access rules"))
    else:
        _log.warning("broker_trouble", what=where, problem=reason(error))


def _raise_first(found: list[TopicPartition]) -> None:
    for item in found:
        if item.error is not None:
            raise KafkaException(item.error)


def _key(message: Message) -> str:
    key = message.key()
    try:
        return (key if isinstance(key, bytes) else b"").decode()
    except UnicodeDecodeError:
        raise Undecodable(f"a key that is not UTF-8: {key!r}") from None


def _partition(message: Message) -> int:
    partition = message.partition()
    return -1 if partition is None else int(partition)


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else int(offset)
