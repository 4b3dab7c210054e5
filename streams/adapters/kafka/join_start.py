"""Where a joiner begins to read `ticks`, given its cursor: early enough to warm up, at a place that can be proven.

Live, no tick of minute M is appended before M begins, give or take the skew: so no record below the first one appended
at M (less the skew) speaks of a minute from M on, and reading from the record before it reproduces every decision from
M on. A scenario's append times say nothing about its minutes: it is read from its beginning, state only, which is fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.adapters.kafka.client import reader_config
from streams.adapters.kafka.join_inputs import CALL_TIMEOUT_S, JoinInputs, tick_of
from streams.domain.asof import SKEW_MS
from streams.domain.errors import BrokenPromise
from streams.domain.tick import Tick
from streams.pipeline.cursors import Cursor
from streams.pipeline.join import WARM_UP_TICKS, PartitionJoin, Terms
from streams.pipeline.names import Names

_TICK_MS: Final = 60_000


class JoinStart:
    """Makes a PartitionJoin for a cursor and has it fed. Raises KafkaException; a repetition does no harm."""

    def __init__(self, bootstrap_servers: str, client_id: str, names: Names, terms: Terms, inputs: JoinInputs) -> None:
        self._where = (bootstrap_servers, client_id)
        self._names = names
        self._terms = terms
        self._inputs = inputs

    def begin(
        self, cursors: Mapping[int, Cursor | None], keep_all: frozenset[int]
    ) -> dict[int, tuple[PartitionJoin, int]]:
        """A join for each partition, and the end of its `ticks` now.

        One without a cursor, or with one outside the log, is stopped and says why.
        """
        bounds = self._inputs.tick_bounds(cursors.keys())
        problems = {p: self._problem(p, cursor, bounds[p]) for p, cursor in cursors.items()}
        good = {p: cursor for p, cursor in cursors.items() if cursor is not None and problems[p] is None}
        resets, around = self._minutes(good, bounds)
        firsts = self._first_offsets(good, bounds, around)
        joins = {}
        starting = []
        for partition, cursor in cursors.items():
            join = PartitionJoin(
                partition,
                self._terms,
                self._inputs.tz,
                cursor,
                reset_minute=resets.get(partition),
                keep_all=partition in keep_all,
            )
            if (problem := problems[partition]) is not None:
                self._inputs.end(partition)
                join.stop(problem)
            else:
                starting.append(join)
            joins[partition] = (join, bounds[partition][1])
        if starting:
            self._inputs.begin(starting, firsts)
        return joins

    def _problem(self, partition: int, cursor: Cursor | None, bounds: tuple[int, int]) -> BrokenPromise | None:
        where = f"{self._names.ticks}[{partition}]"
        group = self._names.processor_group
        fix = (
            f"set one: kafka-consumer-groups --group {group} --topic {self._names.ticks}:{partition} "
            "--reset-offsets --to-offset N --execute (N from "
            f"{bounds[0]} to {bounds[1]}; what lies before it is not joined)"
        )
        if cursor is None:
            return BrokenPromise(f"group {group} has no cursor on {where}; {fix}")
        if cursor.offset > bounds[1]:
            return BrokenPromise(f"the cursor {cursor.offset} on {where} is beyond the log's end {bounds[1]}; {fix}")
        if cursor.offset < bounds[0]:
            return BrokenPromise(
                f"the cursor {cursor.offset} on {where} is before the first tick that is left, at {bounds[0]}: the "
                f"minutes between were not joined and their ticks are deleted; {fix}"
            )
        return None

    def _minutes(
        self, cursors: Mapping[int, Cursor], bounds: Mapping[int, tuple[int, int]]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Minutes to emit from, of cursors set by hand; and for each cursor the minute before which to warm up."""
        by_hand = {
            partition: min(cursor.offset, bounds[partition][1] - 1)
            for partition, cursor in cursors.items()
            if cursor.session is None and bounds[partition][0] < cursor.offset
        }
        seen = self._peek(by_hand)
        around = {p: cursor.minute + 1 for p, cursor in cursors.items() if cursor.minute is not None}
        around |= {partition: tick.minute for partition, tick in seen.items()}
        resets = {p: tick.minute for p, tick in seen.items() if cursors[p].offset < bounds[p][1]}
        return resets, around

    def _first_offsets(
        self, cursors: Mapping[int, Cursor], bounds: Mapping[int, tuple[int, int]], around: Mapping[int, int]
    ) -> dict[int, int]:
        firsts = {partition: bounds[partition][0] for partition in cursors}
        if self._terms.scenario is not None:
            return firsts
        times = {p: (minute - WARM_UP_TICKS) * _TICK_MS - SKEW_MS for p, minute in around.items() if p in cursors}
        for partition, offset in self._inputs.tick_offsets_at(times).items():
            cursor = cursors[partition].offset
            found = cursor if offset is None else min(offset, cursor)
            firsts[partition] = max(bounds[partition][0], found - 1)
        return firsts

    def _peek(self, offsets: Mapping[int, int]) -> dict[int, Tick]:
        """The tick at, or first after, an offset. A partition with none, or with one that can't be read, is left out.

        A consumer of its own: the shared one is in the middle of other partitions.
        """
        if not offsets:
            return {}
        consumer = Consumer(reader_config(*self._where, self._names.processor_group))
        try:
            return self._first_of_each(consumer, offsets)
        finally:
            consumer.close()

    def _first_of_each(self, consumer: Consumer, offsets: Mapping[int, int]) -> dict[int, Tick]:
        consumer.assign([TopicPartition(self._names.ticks, p, offset) for p, offset in offsets.items()])
        waiting, found = set(offsets), {}
        while waiting:
            message = consumer.poll(CALL_TIMEOUT_S)
            if message is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - librdkafka's name begins so
            error, partition = message.error(), message.partition()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
                raise KafkaException(error)
            if partition not in waiting:
                continue
            waiting.discard(partition)
            consumer.incremental_unassign([TopicPartition(self._names.ticks, partition)])
            tick = None if error is not None else tick_of(message)
            if isinstance(tick, Tick):
                found[partition] = tick
        return found
