"""One partition's join without a broker: order, holes, duplicates, warm-up, and each reason to stop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.errors import BrokenPromise
from streams.domain.minutes import parse_tick
from streams.domain.occurrence import Ended, Fire, OccurrenceRecord
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.schedule import Daily, Gap, Overlap, Policy
from streams.domain.tick import Tick
from streams.domain.tz_asof import TzBook
from streams.pipeline.cursors import Cursor
from streams.pipeline.join import Done, PartitionJoin, Terms
from tests.schedules import schedule

TERMS = Terms("trial", "topic-1", 4, frozenset({"eu"}))
START = parse_tick("2026-10-25T00:00Z")
EVERY_MINUTE = schedule(zone="Etc/UTC", rule=Daily(tuple(range(1440))))
BERLIN = schedule(policy=Policy(Gap.SKIP, Overlap.FIRST))


def tick(minute: int, watermark: int = 1, **fields: object) -> Tick:
    return replace(Tick(minute, 2, "topic-1", 4, watermark, 2, 0, "trial"), **fields)  # type: ignore[arg-type]


def tz_book(activations: int = 1) -> TzBook:
    book = TzBook()
    book.add_bundle(wheel_bundle())
    for number in range(activations):
        book.add_activation(1 + number, wheel_bundle().version, number)
    book.position = 1 + activations
    return book


def plan(sequence: int, one=EVERY_MINUTE, state: RevisionState = RevisionState.ACTIVE) -> Plan:  # type: ignore[no-untyped-def]
    return Plan(one.id, 1, sequence, (Revision(sequence, state, None, one),))


class Partition:
    """A join that has read some plans and gets ticks by offset."""

    def __init__(
        self, *plans: Plan, cursor: Cursor | None = None, reset_minute: int | None = None, tz: TzBook | None = None
    ) -> None:
        self.join = PartitionJoin(2, TERMS, tz or tz_book(), cursor, reset_minute=reset_minute)
        for offset, one in enumerate(plans):
            self.join.add_plan(offset, 0, one.schedule_id, one)

    def take(self, first_offset: int, *ticks: Tick | BrokenPromise) -> Done:
        for number, one in enumerate(ticks):
            self.join.add_tick(first_offset + number, one)
        return self.join.run(10_000, 100_000, lambda: False)


def instants(records: list[OccurrenceRecord]) -> list[int]:
    return [record.instant for record in records]


def test_minutes_come_out_in_order_each_once_with_the_tick_that_decided() -> None:
    done = Partition(plan(1)).take(0, tick(START), tick(START + 1), tick(START + 1), tick(START + 4), tick(START + 2))
    assert instants(done.records) == [START, START + 1, START + 2, START + 3, START + 4]
    sources = [record.source.offset for record in done.records if isinstance(record, Fire)]
    assert sources == [0, 1, 3, 3, 3]
    assert (done.next_offset, done.minute, done.minutes) == (5, START + 4, 5)


def test_a_missing_minute_has_the_watermark_of_the_tick_that_fills_it() -> None:
    partition = Partition(plan(1), plan(2, state=RevisionState.PAUSED))
    done = partition.take(0, tick(START), tick(START + 3, watermark=2))
    assert [type(record) for record in done.records] == [Fire, Ended]
    assert instants(done.records) == [START, START + 1]


def test_a_tick_waits_until_its_watermarks_are_read() -> None:
    partition = Partition(plan(1))
    assert partition.take(0, tick(START, watermark=5)).minutes == 0
    assert partition.join.starving_for() == ("schedules", 5)
    partition.join.plans_position = 5  # an end of partition: compaction left holes
    assert partition.join.run(10, 10, lambda: False).minutes == 1
    late = Partition(plan(1), tz=TzBook())
    assert late.take(0, tick(START)).minutes == 0
    assert late.join.starving_for() == ("tzdata", 2)


def test_a_batch_stops_between_minutes_and_a_hole_is_committed_only_when_it_is_filled() -> None:
    partition = Partition(plan(1))
    partition.take(0, tick(START))
    partition.join.add_tick(1, tick(START + 10))
    first = partition.join.run(4, 100, lambda: False)
    assert (instants(first.records), first.next_offset) == ([START + n for n in range(1, 5)], None)
    second = partition.join.run(100, 3, lambda: False)
    assert (instants(second.records), second.next_offset) == ([START + n for n in range(5, 8)], None)
    third = partition.join.run(100, 100, lambda: False)
    assert (instants(third.records), third.next_offset, third.minute) == (
        [START + n for n in range(8, 11)],
        2,
        START + 10,
    )
    assert partition.join.run(100, 100, lambda: False) == Done()


def test_nothing_before_the_cursor_is_emitted_but_all_of_it_counts() -> None:
    """The second copy of 02:30 in Berlin: known not to be the first only by a joiner that has warmed up."""
    minutes = [tick(START + n) for n in range(91)]
    cold = Partition(plan(1, BERLIN), cursor=Cursor(0)).take(60, *minutes[60:])
    warm = Partition(plan(1, BERLIN), cursor=Cursor(60, START + 59, 1, "x")).take(0, *minutes)
    assert instants(cold.records) == [START + 90]
    assert warm.records == []
    assert (warm.next_offset, warm.minute) == (91, START + 90)


def test_an_end_at_the_first_minute_after_the_cursor_is_seen() -> None:
    plans = plan(1), plan(2, state=RevisionState.DELETED)
    partition = Partition(*plans, cursor=Cursor(3, START + 2, 1, "x"))
    done = partition.take(0, *(tick(START + n, watermark=1) for n in range(3)), tick(START + 3, watermark=2))
    assert [type(record) for record in done.records] == [Ended]


def test_a_reset_onto_a_repeated_tick_steps_back_to_the_minutes_first() -> None:
    log = [tick(START), tick(START + 1), tick(START + 2), tick(START + 1), tick(START + 3)]
    partition = Partition(plan(1), cursor=Cursor(3), reset_minute=START + 1)
    done = partition.take(0, *log)
    assert instants(done.records) == [START + 1, START + 2, START + 3]
    assert [record.source.offset for record in done.records if isinstance(record, Fire)] == [1, 2, 4]


def test_where_the_ticks_before_the_cursor_are_gone_the_cursors_minute_counts() -> None:
    partition = Partition(plan(1), cursor=Cursor(7, START + 4, 1, "x"))
    done = partition.take(7, tick(START + 4), tick(START + 6))
    assert instants(done.records) == [START + 5, START + 6]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"scenario": None}, "a live clock"),
        ({"scenario": "other"}, "scenario other"),
        ({"schedules_topic_id": "topic-2"}, "deleted and created again"),
        ({"partition_count": 5}, "5 partitions"),
        ({"partition": 1}, "partition 1"),
    ],
)
def test_a_tick_of_another_world_stops_the_partition_after_what_came_before(
    fields: dict[str, object], said: str
) -> None:
    partition = Partition(plan(1))
    done = partition.take(0, tick(START), tick(START + 1, **fields), tick(START + 2))
    assert instants(done.records) == [START]
    assert done.next_offset == 1
    assert partition.join.problem is not None
    assert said in str(partition.join.problem)
    assert "ticks[2] at offset 1" in str(partition.join.problem)
    assert partition.take(3, tick(START + 3)) == Done()


@pytest.mark.parametrize(
    "bad", [BrokenPromise("garbage"), tick(START + 2, schedules_topic_id="topic-2", watermark=1_000)]
)
def test_a_cursor_set_behind_a_tick_that_stopped_the_partition_gets_it_going(bad: Tick | BrokenPromise) -> None:
    log = [tick(START), tick(START + 1), bad, tick(START + 3), tick(START + 4)]
    partition = Partition(plan(1), cursor=Cursor(2, START + 1, 1, "x"))
    assert partition.take(0, *log[:2]).records == []
    if isinstance(bad, BrokenPromise):
        assert partition.take(2, *log[2:]).records == []
        assert partition.join.problem is not None
    mended = Partition(plan(1), cursor=Cursor(3), reset_minute=START + 3)
    done = mended.take(0, *log)
    assert mended.join.problem is None
    assert instants(done.records) == [START + 2, START + 3, START + 4]
    assert (done.next_offset, done.minute) == (5, START + 4)


def test_an_invalid_plan_stops_the_first_tick_that_counts_it() -> None:
    partition = Partition(plan(1))
    partition.join.add_invalid_plan(1, "garbage")
    done = partition.take(0, tick(START, watermark=1), tick(START + 1, watermark=2))
    assert instants(done.records) == [START]
    assert "schedules[2], offset 1: garbage" in str(partition.join.problem)


def test_a_tick_that_cannot_be_read_a_region_unknown_and_a_second_activation_stop_the_partition() -> None:
    partition = Partition(plan(1))
    assert instants(partition.take(0, tick(START), BrokenPromise("garbage")).records) == [START]
    assert "garbage" in str(partition.join.problem)
    partition = Partition(plan(1, replace(EVERY_MINUTE, region="moon")))
    assert partition.take(0, tick(START)).records == []
    assert "[regions.moon]" in str(partition.join.problem)
    partition = Partition(plan(1), tz=tz_book(activations=2))
    assert partition.take(0, tick(START, tzdata_watermark=3)).records == []
    assert "tz activations" in str(partition.join.problem)
    partition = Partition(plan(1), tz=tz_book(activations=2))
    assert instants(partition.take(0, tick(START, tzdata_watermark=2)).records) == [START]


def test_a_watermark_far_behind_asks_for_a_new_start_and_one_that_keeps_all_answers_it() -> None:
    plans = [plan(n + 1, state=RevisionState.PAUSED if n else RevisionState.ACTIVE) for n in range(200)]
    ticks = [tick(START + n, watermark=n + 1) for n in range(200)]
    partition = Partition(*plans)
    partition.take(0, *ticks, tick(START + 200, watermark=1))
    assert partition.join.must_restart
    again = PartitionJoin(2, TERMS, tz_book(), Cursor(200, START + 199, 1, "x"), keep_all=True)
    for offset, one in enumerate(plans):
        again.add_plan(offset, 0, one.schedule_id, one)
    for offset, one_tick in enumerate([*ticks, tick(START + 200, watermark=1)]):
        again.add_tick(offset, one_tick)
    assert instants(again.run(10_000, 10_000, lambda: False).records) == [START + 200]
