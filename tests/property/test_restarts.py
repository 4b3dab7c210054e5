"""One partition's log of ticks and plans, joined without a break and with breaks everywhere: the same bytes.

The log has what can go wrong in one: two tickers that interleave, outages that are caught up, produces that were lost
or doubled, watermarks that go back, plans that become visible late, a morning with a repeated hour. A joiner stops at a
cursor it committed, or is set back by hand, and begins again where JoinStart says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.adapters import codec
from streams.adapters.kafka import join_start
from streams.adapters.kafka.join_start import JoinStart
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.minutes import parse_tick
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.schedule import Daily, Gap, Overlap, Policy
from streams.domain.tick import Tick
from streams.domain.tz_asof import TzBook
from streams.pipeline.cursors import Cursor
from streams.pipeline.join import PartitionJoin, Terms
from streams.pipeline.names import Names
from tests.effort import examples
from tests.schedules import schedule

START = parse_tick("2026-10-24T23:20Z")  # Berlin's 02:00 comes at 00:00Z and again at 01:00Z
MINUTES = 260
WARM_UP = 70  # more than the hour between two copies of a label here
MS = 60_000
POLICIES = [Policy(Gap.SKIP, overlap) for overlap in Overlap]


class Placed(NamedTuple):
    append_ms: int
    value: Any


@dataclass
class Logs:
    """`live` none is a scenario. Offsets are positions."""

    scenario: str | None
    plans: list[Placed]
    ticks: list[Placed]

    @property
    def terms(self) -> Terms:
        return Terms(self.scenario, "id", 1, frozenset({"eu"}))


def logs(random: Random) -> Logs:
    made = Logs(random.choice([None, "trial"]), [], [])
    tickers = [START, START]  # the next minute of each
    down_until = [0, 0]
    sequences: dict[str, int] = {}
    for now_ms in range(START * MS, (START + MINUTES) * MS, 20_000):
        for _ in range(random.choice([0, 0, 0, 0, 1, 2])):
            made.plans.append(Placed(now_ms + random.randrange(-3_000, 20_000), _plan(random, sequences)))
        for which in random.sample([0, 1], 2):
            if random.random() < 0.01:
                down_until[which] = now_ms + random.choice([1, 10, 60, 100]) * MS
            if now_ms < down_until[which]:
                continue
            tickers[which] = _tick(random, made, tickers[which], now_ms)
            if random.random() < 0.02:  # starts again, and reads the last record there is
                tickers[which] = made.ticks[-1].value.minute + 1 if made.ticks else START
    return made


def _plan(random: Random, sequences: dict[str, int]) -> tuple[str, Plan]:
    name = random.choice(["a", "b", "c"])
    sequence = sequences.get(name, 0) + 1
    if random.random() < 0.15 and sequence > 1:
        sequence = random.randrange(1, sequence)  # published again
    else:
        sequences[name] = sequence
    choice = Random(f"{name}{sequence}")
    state = choice.choice([RevisionState.ACTIVE, RevisionState.ACTIVE, RevisionState.PAUSED, RevisionState.DELETED])
    at = tuple(sorted({120 + choice.randrange(60) for _ in range(12)} | {choice.randrange(90, 240)}))
    one = schedule(id=name, rule=Daily(at), policy=choice.choice(POLICIES))
    return name, Plan(name, 1, sequence, (Revision(sequence, state, None, one),))


def _tick(random: Random, made: Logs, following: int, now_ms: int) -> int:
    """A ticker's turn: every minute that has begun, in one batch, with ends read a little before."""
    now = now_ms // MS
    if following > now or (made.scenario is None and random.random() < 0.02):
        return following
    seen = max(0, len(made.plans) - random.choice([0, 0, 0, 1, 3]))
    for minute in range(following, now + 1):
        if random.random() < 0.02:
            return minute  # the rest of the batch was lost
        if random.random() < 0.02:
            continue  # this one was
        tick = Tick(minute, 0, "id", 1, seen, 2, now_ms, made.scenario)
        made.ticks += [Placed(now_ms + random.randrange(2_000), tick)] * random.choice([1] * 19 + [2])
    return now + 1


class Inputs:
    """What JoinStart asks of the log."""

    def __init__(self, made: Logs) -> None:
        self.made = made
        self.tz = TzBook()
        self.tz.add_bundle(wheel_bundle())
        self.tz.add_activation(1, wheel_bundle().version, 0)
        self.tz.position = 2
        self.firsts: dict[int, int] = {}

    def tick_bounds(self, partitions: Collection[int]) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(partitions, (0, len(self.made.ticks)))

    def tick_offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        return {
            partition: next((n for n, placed in enumerate(self.made.ticks) if placed.append_ms >= at_ms), None)
            for partition, at_ms in times_ms.items()
        }

    def begin(self, joins: Collection[PartitionJoin], first_tick_offsets: Mapping[int, int]) -> None:
        del joins
        self.firsts = dict(first_tick_offsets)

    def end(self, partition: int) -> None:
        raise AssertionError(f"partition {partition} was stopped")


class Start(JoinStart):
    made: Logs

    def _peek(self, offsets: Mapping[int, int]) -> dict[int, Tick]:
        return {partition: self.made.ticks[offset].value for partition, offset in offsets.items()}


class Run:
    """A joiner from one cursor on. `emitted` has (minute, bytes) of what came out."""

    def __init__(self, made: Logs, cursor: Cursor, ahead: Random, *, keep_all: bool = False) -> None:
        self.made, self.cursor, self.ahead = made, cursor, ahead
        self.emitted: list[tuple[int, bytes]] = []
        inputs: Any = Inputs(made)
        start = Start("nowhere:1", "test", Names("t-"), made.terms, inputs)
        start.made = made
        self.join = start.begin({0: cursor}, frozenset({0} if keep_all else ()))[0][0]
        self._next = inputs.firsts[0]
        self._plans = 0

    def to(self, offset: int) -> None:
        """Handle ticks below an offset. Plans are read as far as is needed, or further."""
        while self._next < offset:
            self.join.add_tick(self._next, self.made.ticks[self._next].value)
            self._next += 1
            while (starving := self.join.starving_for()) is not None:
                self._read_plans(starving[1])
            if self.ahead.random() < 0.05:
                self._read_plans(self.ahead.randrange(len(self.made.plans) + 1))
            done = self.join.run(1_000, 100_000, lambda: False)
            if self.join.must_restart:
                self._again(offset)
                return
            assert self.join.problem is None
            self.emitted += [(record.instant, codec.encode(record)) for record in done.records]
            if done.next_offset is not None:
                self.cursor = Cursor(done.next_offset, done.minute, 1, "me")

    def _again(self, offset: int) -> None:
        other = Run(self.made, self.cursor, self.ahead, keep_all=True)
        other.to(offset)
        self.join, self.cursor, self._next, self._plans = other.join, other.cursor, other._next, other._plans
        self.emitted += other.emitted

    def _read_plans(self, end: int) -> None:
        while self._plans < end:
            placed = self.made.plans[self._plans]
            self.join.add_plan(self._plans, placed.append_ms, placed.value[0], placed.value[1])
            self._plans += 1


@pytest.fixture(autouse=True, scope="module")
def _a_short_warm_up() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(join_start, "WARM_UP_TICKS", WARM_UP)
    yield
    patch.undo()


FIRST = Cursor(0)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 32))
def test_breaks_change_nothing(seed: int) -> None:
    random = Random(seed)
    made = logs(random)
    whole = Run(made, FIRST, random)
    whole.to(len(made.ticks))
    cursor, emitted = FIRST, []
    stops = sorted(random.sample(range(len(made.ticks) + 1), min(4, len(made.ticks) + 1)))
    for stop in [*stops, len(made.ticks)]:
        part = Run(made, cursor, random)
        part.to(stop)
        emitted += part.emitted
        cursor = part.cursor
    assert emitted == whole.emitted
    assert cursor == whole.cursor


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_cursor_set_back_by_hand_gives_the_same_again_from_the_first_tick_of_its_minute(seed: int) -> None:
    random = Random(seed)
    made = logs(random)
    whole = Run(made, FIRST, random)
    whole.to(len(made.ticks))
    for _ in range(3):
        offset = random.randrange(len(made.ticks)) if made.ticks else 0
        if not made.ticks:
            return
        minute = made.ticks[offset].value.minute
        again = Run(made, Cursor(offset), random)
        again.to(len(made.ticks))
        wanted = [item for item in whole.emitted if item[0] >= minute]
        assert again.emitted[len(again.emitted) - len(wanted) :] == wanted
        assert set(again.emitted) <= set(whole.emitted)


def test_the_logs_have_what_they_are_for() -> None:
    """Else the properties above would prove little."""
    found = {"repeated": 0, "back": 0, "hole": 0, "fires": 0, "ends": 0}

    for seed in range(30):
        made = logs(Random(seed))
        ticks = [placed.value for placed in made.ticks]
        for one, following in pairwise(ticks):
            found["repeated"] += following.minute <= one.minute
            found["back"] += following.watermark < one.watermark
            found["hole"] += following.minute > one.minute + 1
        run = Run(made, FIRST, Random(1))
        run.to(len(ticks))
        kinds = [type(codec.decode(value)).__name__ for _, value in run.emitted]
        found["fires"] += kinds.count("Fire")
        found["ends"] += kinds.count("Ended")
    assert all(count > 20 for count in found.values()), found
