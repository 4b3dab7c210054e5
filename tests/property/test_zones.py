"""All nine policies against the minute-by-minute oracle, and the two functions against each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.minutes import MINUTES_PER_DAY, day_of
from streams.domain.schedule import POLICIES, Gap, Overlap, Policy
from streams.domain.timeline import Timeline
from streams.domain.zones import Firing, ZoneTable
from tests.calendar_support import HARD_ZONES, independent_zone
from tests.effort import examples
from tests.property.oracle import CODES, Brute, transitions, zone_offset

FROM = day_of(1993, 1, 1) * MINUTES_PER_DAY
TO = day_of(2038, 1, 1) * MINUTES_PER_DAY
GRID = 720
MARGIN = 5

BY_CODE = {(policy.gap.value, policy.overlap.value): policy for policy in POLICIES}


def check(table: ZoneTable, offset: Callable[[int], int], first: int, last: int, reach: int) -> int:
    """Compare both functions with the oracle for ticks `first`..`last`; labels lie at most `reach` ticks off."""
    labels = range(first + offset(first) - reach, last + offset(last) + reach)
    brute = Brute(
        offset, range(labels.start - offset(first) - 2 * reach, labels.stop - offset(last) + 2 * reach), labels
    )
    expected: dict[int, set[tuple[int, int, int]]] = {tick: set() for tick in range(first, last)}
    for label in labels:
        landing = table.label_landing(label)
        for names, code in CODES.items():
            fires = brute.fires(label, *names)
            assert list(landing.firings(BY_CODE[names])) == fires, (label, names)
            for tick, copy in fires:
                if tick in expected:
                    expected[tick].add((label, code, copy))
    for tick, reached in expected.items():
        found = [
            (label, code, copy) for label, mask, copy in table.reached(tick) for code in range(9) if mask >> code & 1
        ]
        assert len(found) == len(set(found))
        assert set(found) == reached, tick
    return len(labels) * len(CODES)


@pytest.mark.parametrize("zone", HARD_ZONES)
def test_every_transition_from_1993_to_2037(zone: str) -> None:
    table = wheel_bundle().table(zone)
    offset = cache(zone_offset(independent_zone(zone)))
    for tick in range(FROM, TO, GRID):
        assert table.offset_at(tick) == offset(tick), tick
    for tick, before, after in transitions(offset, range(FROM, TO, GRID)):
        jump = abs(after - before)
        check(table, offset, tick - jump - MARGIN, tick + jump + MARGIN, jump)


@st.composite
def timelines(draw: st.DrawFn) -> tuple[ZoneTable, Callable[[int], int]]:
    """Zones worse than any real one: jumps so close together that labels are repeated thrice and gaps are undone."""
    first = draw(st.integers(-20, 20))
    steps = draw(st.lists(st.tuples(st.integers(1, 30), st.integers(-20, 20)), max_size=6))
    at, changes = draw(st.sampled_from([0, (1 << 19) - 20, -50])), []
    for gap, offset in steps:
        at += gap
        changes.append((at, offset))

    def offset_of(tick: int) -> int:
        return next((offset for start, offset in reversed(changes) if start <= tick), first)

    return ZoneTable("synthetic", Timeline(first, changes)), offset_of


@settings(max_examples=examples(150), deadline=None)
@given(timelines())
def test_zones_worse_than_real_ones(zone: tuple[ZoneTable, Callable[[int], int]]) -> None:
    table, offset = zone
    starts = [piece.start for piece in table._line.pieces(-1000, 1 << 20)][1:] or [0]
    check(table, cache(offset), starts[0] - 60, starts[-1] + 60, 45)


@settings(max_examples=examples(150), deadline=None)
@given(timelines())
def test_next_change_is_where_the_answer_changes_shape(zone: tuple[ZoneTable, Callable[[int], int]]) -> None:
    table, _ = zone
    starts = [piece.start for piece in table._line.pieces(-1000, 1 << 20)][1:] or [0]

    def shape(tick: int) -> list[tuple[int, int, int]]:
        return [(label - tick, mask, copy) for label, mask, copy in table.reached(tick)]

    tick, last = starts[0] - 60, starts[-1] + 60
    while tick < last:
        change = table.next_change(tick)
        end = last if change is None else change
        assert all(shape(each) == shape(tick) for each in range(tick, end))
        assert change is None or table._shape(change) != table._shape(change - 1)
        tick = end


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(wheel_bundle().names), st.integers(0, day_of(2150, 1, 1) * MINUTES_PER_DAY), st.data())
def test_ticks_and_labels_are_inverse_in_every_zone(name: str, anywhere: int, data: st.DataObject) -> None:
    table = wheel_bundle().table(name)
    change = table.next_change(anywhere)
    near = anywhere if change is None else change + data.draw(st.integers(-90, 90))
    for tick in (anywhere, near):
        assert table.offset_at(tick) == zone_offset(independent_zone(name))(tick)
        for label, mask, copy in table.reached(tick):
            for policy in POLICIES:
                assert (Firing(tick, copy) in table.resolve(label, policy)) == bool(mask >> policy.code & 1)
        label = tick + table.offset_at(tick) + data.draw(st.integers(-70, 70))
        for policy in POLICIES:
            for firing in table.resolve(label, policy):
                ways = [(mask, copy) for at, mask, copy in table.reached(firing.tick) if at == label]
                assert [copy for mask, copy in ways if mask >> policy.code & 1] == [firing.copy]


@settings(max_examples=examples(100), deadline=None)
@given(timelines(), st.integers(-10, 150), st.sampled_from(POLICIES))
def test_a_rule_that_comes_into_force_midway_sees_only_later_copies(
    zone: tuple[ZoneTable, Callable[[int], int]], since: int, policy: Policy
) -> None:
    table, _ = zone
    for label in range(-60, 200):
        landing = table.label_landing(label)
        fires = landing.firings(policy, since)
        later = [tick for tick in landing.copies if tick >= since]
        if landing.copies:
            wanted = {Overlap.FIRST: later[:1], Overlap.SECOND: later[:2][-1:], Overlap.BOTH: later[:2]}[policy.overlap]
            assert [firing.tick for firing in fires] == wanted
        else:
            assert all(firing.tick >= since for firing in fires)
            assert policy.gap is not Gap.SKIP or not fires
        for firing in fires:
            ways = [(mask, copy) for at, mask, copy in table.reached(firing.tick, since) if at == label]
            assert [copy for mask, copy in ways if mask >> policy.code & 1] == [firing.copy]


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Asia/Gaza", "Africa/Casablanca"])
@pytest.mark.parametrize("year", [2101, 2399, 2400, 4000, 9990])
def test_ticks_beyond_the_written_out_years(zone: str, year: int) -> None:
    offset = cache(zone_offset(independent_zone(zone)))
    table = ZoneTable.from_tzif(zone, wheel_bundle().zones[zone], until_year=2040)
    first = day_of(year, 1, 1) * MINUTES_PER_DAY
    for tick, before, after in transitions(offset, range(first, first + 366 * MINUTES_PER_DAY, GRID)):
        jump = abs(after - before)
        check(table, offset, tick - jump - MARGIN, tick + jump + MARGIN, jump)
        assert table.next_change(tick - 1) == tick
