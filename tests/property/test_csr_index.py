"""`CsrIndex` answers as `DictIndex` does, whatever was put, taken out and merged, near every kind of change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain import csr_columns, csr_index, csr_merge, csr_runs
from streams.domain.bundle import ZoneBundle
from streams.domain.csr_index import CsrIndex
from streams.domain.index import DictIndex
from streams.domain.minutes import MINUTES_PER_DAY, day_of, parse_tick
from streams.domain.schedule import (
    POLICIES,
    Cron,
    Daily,
    Every,
    MissingDay,
    MonthlyDays,
    MonthlyWeekday,
    Once,
    Rule,
    Schedule,
    Weekly,
)
from streams.domain.timeline import Timeline
from streams.domain.zones import ZoneTable
from tests.calendar_support import HARD_ZONES, make_schedule
from tests.effort import examples

FIRST_DAY, LAST_DAY = day_of(1993, 1, 1), day_of(2038, 1, 1)
NUMBERS = st.integers(0, 25)
OPERATIONS = ["put", "put", "put many", "remove", "remove many", "tidy", "tidy", "ask", "ask"]


@contextmanager
def small_sizes() -> Iterator[None]:
    """Sizes at which a handful of schedules goes through every slice, and through both ways of merging."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csr_index, "_FEWEST_AT_ONCE", 6)
        patch.setattr(csr_index, "_FEWEST_MERGED", 2)
        patch.setattr(csr_merge, "_ROWS", 2)
        patch.setattr(csr_runs, "_ELEMENTS", 5)
        patch.setattr(csr_columns, "DENSE_MINUTES", 8)
        yield


@st.composite
def schedules(draw: st.DrawFn, tick: int, zones: list[str]) -> Schedule:
    day = tick // MINUTES_PER_DAY
    days = st.integers(day - 1, day + 1)
    at = tuple(sorted(draw(st.sets(st.integers(0, 47).map(lambda n: 30 * n), min_size=1, max_size=30))))
    weekdays = tuple(sorted(draw(st.sets(st.integers(0, 6), min_size=1))))
    rules: list[Rule] = [
        Daily(at),
        Daily(at),
        Weekly(weekdays, at),
        Weekly(weekdays, at, 2, day - 8),
        MonthlyDays((1, 15, -1), MissingDay.CLAMP, at),
        MonthlyWeekday(-1, weekdays[0], at),
        Once(day, at),
        Cron("*/15 0-4 * * *"),
        Cron("30 1,2 * * 0"),
        Every(draw(st.sampled_from([7, 60])), tick - 30),
    ]
    schedule = make_schedule(
        draw(st.sampled_from(rules)),
        schedule_id=f"s{draw(st.integers(0, 30))}",
        zone=draw(st.sampled_from(zones)),
        policy=draw(st.sampled_from(POLICIES)),
        starts_on=draw(st.none() | days),
        ends_on=draw(st.none() | days),
        except_dates=tuple(sorted(draw(st.sets(days, max_size=1)))),
        effective_from=draw(st.none() | st.integers(tick - 120, tick + 120)),
    )
    return schedule if schedule.starts_on is None else replace(schedule, count=draw(st.none() | st.integers(1, 9)))


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_both_indexes_say_the_same_through_any_edits_and_merges(data: st.DataObject) -> None:
    zones = data.draw(st.lists(st.sampled_from(HARD_ZONES), min_size=1, max_size=3))
    somewhere = data.draw(st.integers(FIRST_DAY, LAST_DAY)) * MINUTES_PER_DAY
    change = wheel_bundle().table(zones[0]).next_change(somewhere)
    middle = somewhere if change is None else change
    since = st.none() | st.integers(middle - 120, middle + 120)
    known, csr = DictIndex(wheel_bundle()), CsrIndex(wheel_bundle())
    with small_sizes():
        for operation in data.draw(st.lists(st.sampled_from(OPERATIONS), min_size=4, max_size=30)):
            if operation.startswith("put"):
                for _ in range(1 if operation == "put" else data.draw(st.integers(4, 9))):
                    number, schedule, at = data.draw(NUMBERS), data.draw(schedules(middle, zones)), data.draw(since)
                    known.put(number, schedule, at)
                    csr.put(number, schedule, at)
            elif operation.startswith("remove"):
                for number in data.draw(st.sets(NUMBERS, min_size=1, max_size=1 if operation == "remove" else 12)):
                    known.remove(number)
                    csr.remove(number)
            elif operation == "tidy":
                for _ in range(data.draw(st.integers(1, 60))):
                    csr.tidy()
            else:
                tick = data.draw(st.integers(middle - 180, middle + 180))
                assert csr.due(tick) == known.due(tick)
        assert len(csr) == len(known)
        for tick in range(middle - 180, middle + 180):
            assert csr.due(tick) == known.due(tick)
        while csr.tidy():
            pass
        for tick in range(middle - 180, middle + 180, 5):
            assert csr.due(tick) == known.due(tick)


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_the_histogram_counts_what_is_due(data: st.DataObject) -> None:
    zones = data.draw(st.lists(st.sampled_from(HARD_ZONES), min_size=1, max_size=3))
    somewhere = data.draw(st.integers(FIRST_DAY, LAST_DAY)) * MINUTES_PER_DAY
    change = wheel_bundle().table(zones[0]).next_change(somewhere)
    middle = somewhere if change is None else change
    csr = CsrIndex(wheel_bundle())
    with small_sizes():
        for number in range(data.draw(st.integers(1, 20))):
            csr.put(number, data.draw(schedules(middle, zones)), data.draw(st.none() | st.just(middle)))
            if data.draw(st.booleans()):
                csr.tidy()
        csr.remove(data.draw(NUMBERS))
        day = middle // MINUTES_PER_DAY - data.draw(st.integers(0, 1))
        counted = csr.load_histogram(day, 2)
    due = [len(csr.due(tick)) for tick in range(day * MINUTES_PER_DAY, (day + 2) * MINUTES_PER_DAY)]
    assert counted.dtype == np.int64
    assert counted.tolist() == due


class ThriceBundle(ZoneBundle):
    """One zone, whose clock goes back twice within an hour: labels exist three times."""

    def table(self, zone: str) -> ZoneTable:
        return ZoneTable(zone, Timeline(0, [(100_000, -30), (100_020, -60)]))


@pytest.mark.parametrize(
    ("bundle", "zone", "middle"),
    [
        (wheel_bundle(), "Europe/Berlin", parse_tick("2026-10-25T01:00Z")),
        (wheel_bundle(), "Australia/Lord_Howe", parse_tick("2027-04-03T15:00Z")),
        (wheel_bundle(), "Europe/Berlin", parse_tick("2027-03-28T01:00Z")),
        (ThriceBundle("test", {}), "Test/Thrice", 100_020),
    ],
)
def test_in_force_since_any_minute_around_a_change_under_every_policy(
    bundle: ZoneBundle, zone: str, middle: int
) -> None:
    known, csr = DictIndex(bundle), CsrIndex(bundle)
    every_five = Daily(tuple(range(0, MINUTES_PER_DAY, 5)))
    sparse = Daily((0, 60, 90, 120, 150, 180))
    with small_sizes():
        for number, (since, policy, rule) in enumerate(
            product((None, *range(-75, 76, 5)), POLICIES, (every_five, sparse))
        ):
            schedule = make_schedule(rule, schedule_id=f"s{number:03d}", zone=zone, policy=policy)
            for index in (known, csr):
                index.put(number, schedule, None if since is None else middle + since)
        found = 0
        for tick in range(middle - 90, middle + 90):
            due = csr.due(tick)
            assert due == known.due(tick)
            found += len(due)
        assert csr.due_columns(middle - 90 + (-middle) % 5) is not None
    assert found > 5_000
