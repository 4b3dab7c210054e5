"""The index of arrays: what the property test does not reach."""

from __future__ import annotations

import numpy as np
import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.csr_base import MOST
from streams.domain.csr_index import CsrIndex
from streams.domain.errors import InvalidInput
from streams.domain.index import DictIndex
from streams.domain.minutes import MINUTES_PER_DAY, parse_tick
from streams.domain.schedule import Daily, Promise
from tests.calendar_support import make_schedule

NINE = parse_tick("2026-10-26T08:00Z")  # 09:00 in Berlin, a Monday
COUNT = 5_000  # more than what goes to the overlay


def filled(index: CsrIndex | DictIndex) -> None:
    for number in range(COUNT):
        at = Daily((540, 541 + number % 7)) if number % 3 else Daily(tuple(range(number % 5, MINUTES_PER_DAY, 30)))
        zone = ("Europe/Berlin", "Asia/Tokyo", "America/New_York")[number % 3]
        index.put(number, make_schedule(at, schedule_id=f"s-{number * 7 % COUNT:04d}", zone=zone), NINE - number)


def test_a_large_index_answers_as_the_plain_one_before_while_and_after_a_merge() -> None:
    csr, known = CsrIndex(wheel_bundle()), DictIndex(wheel_bundle())
    filled(csr)
    filled(known)
    assert len(csr) == len(known) == COUNT
    slices = 0
    for number in range(0, COUNT, 9):
        edited = make_schedule(Daily((540, 600)), schedule_id=f"e-{number}", zone="Asia/Tokyo")
        csr.put(number, edited)
        known.put(number, edited)
    more = True
    while more:
        more = csr.tidy()
        slices += 1
        gone, put = slices * 11, COUNT + slices
        for index in (csr, known):
            index.remove(gone)
            index.put(put, make_schedule(Daily((540,)), schedule_id=f"n-{put}"))
        assert csr.due(NINE) == known.due(NINE)
    assert slices > 3
    for tick in range(NINE - 100, NINE + 700, 10):
        assert csr.due(tick) == known.due(tick)
    assert len(csr) == len(known)


def test_a_merge_forgets_what_no_schedule_uses_any_more() -> None:
    csr, known = CsrIndex(wheel_bundle()), DictIndex(wheel_bundle())
    filled(csr)
    filled(known)
    csr.due(NINE)
    before = csr.base_bytes
    for number in range(COUNT - 10):
        csr.remove(number)
        known.remove(number)
    while csr.tidy():
        pass
    assert len(csr) == 10
    assert csr.base_bytes < before / 2
    for tick in range(NINE, NINE + MINUTES_PER_DAY):
        assert csr.due(tick) == known.due(tick)


def test_an_unknown_zone_and_another_promise_are_refused_as_by_the_plain_index() -> None:
    csr = CsrIndex(wheel_bundle())
    with pytest.raises(InvalidInput, match="did you mean Europe/Berlin"):
        csr.put(0, make_schedule(Daily((540,)), zone="Europe/Berlim"))
    with pytest.raises(InvalidInput, match="promise business_date"):
        csr.put(0, make_schedule(Daily((540,)), promise=Promise.BUSINESS_DATE))
    assert len(csr) == 0
    assert csr.due(NINE) == []
    assert not csr.load_histogram(NINE // MINUTES_PER_DAY, 2).any()


def test_what_the_arrays_cannot_hold_stays_beside_them() -> None:
    csr, known = CsrIndex(wheel_bundle()), DictIndex(wheel_bundle())
    filled(csr)
    filled(known)
    for index in (csr, known):
        index.put(MOST + 1, make_schedule(Daily((540,)), schedule_id="s-0001-large-number"))
        index.put(3, make_schedule(Daily((540,)), schedule_id="far", effective_from=MOST + 1))
        index.put(5, make_schedule(Daily((540,)), schedule_id="early"), -MOST - 2)
    assert csr.due(NINE) == known.due(NINE)
    day = NINE // MINUTES_PER_DAY
    counted = csr.load_histogram(day, 1)
    for minute in range(0, MINUTES_PER_DAY, 60):
        assert counted[minute] == len(known.due(day * MINUTES_PER_DAY + minute))
    for index in (csr, known):
        index.remove(MOST + 1)
        index.put(3, make_schedule(Daily((540,)), schedule_id="near"))
    assert csr.due(NINE) == known.due(NINE)


def test_the_histogram_spans_more_than_one_window_and_a_clock_change() -> None:
    csr = CsrIndex(wheel_bundle())
    filled(csr)
    day = NINE // MINUTES_PER_DAY - 20
    counted = csr.load_histogram(day, 40)
    assert len(counted) == 40 * MINUTES_PER_DAY
    ticks = np.concatenate(
        (np.arange(0, 40 * MINUTES_PER_DAY, 977), np.arange(19 * MINUTES_PER_DAY - 30, 19 * 1440 + 60))
    )
    for at in ticks.tolist():
        assert counted[at] == len(csr.due(day * MINUTES_PER_DAY + at))
