"""The dictionary index: puts, removals, bounds, order."""

from __future__ import annotations

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.errors import InvalidInput
from streams.domain.index import DictIndex, Due, Index
from streams.domain.minutes import parse_day, parse_label, parse_tick
from streams.domain.schedule import Daily, Gap, Overlap, Policy, Promise, Weekly
from tests.calendar_support import SKIP_FIRST, make_schedule

NINE = parse_tick("2026-10-26T08:00Z")  # 09:00 in Berlin, a Monday
LABEL = parse_label("2026-10-26T09:00")


def index_of(*schedules: object) -> DictIndex:
    index: Index = (made := DictIndex(wheel_bundle()))
    for number, schedule in enumerate(schedules):
        index.put(number, schedule)  # type: ignore[arg-type]
    return made


def test_ordered_by_schedule_id_whatever_the_order_of_puts() -> None:
    daily = Daily((540,))
    weekly = Weekly((0,), (540,))
    index = index_of(
        make_schedule(daily, schedule_id="c"),
        make_schedule(weekly, schedule_id="a"),
        make_schedule(daily, schedule_id="b"),
    )
    assert index.due(NINE) == [Due(number, LABEL, 0, SKIP_FIRST) for number in (1, 2, 0)]
    assert index.due(NINE + 1) == []
    assert [due.number for due in index.due(NINE + 1440)] == [2, 0]


def test_replaced_and_removed_schedules_are_gone() -> None:
    index = index_of(
        make_schedule(Daily((540, 541)), schedule_id="a"), make_schedule(Daily((540,)), schedule_id="b", zone="UTC")
    )
    index.put(0, make_schedule(Daily((541,)), schedule_id="a", zone="Europe/Paris"))
    assert [index.due(NINE + n) for n in range(2)] == [[], [Due(0, LABEL + 1, 0, SKIP_FIRST)]]
    index.remove(0)
    index.remove(0)
    assert index.due(NINE + 1) == []
    assert [due.number for due in index.due(NINE + 60)] == [1]
    assert len(index) == 1


def test_a_zone_that_comes_or_goes_between_two_looks_at_one_tick() -> None:
    index = index_of(make_schedule(Daily((540,)), schedule_id="a"))
    assert len(index.due(NINE)) == 1
    index.put(1, make_schedule(Daily((480,)), schedule_id="b", zone="UTC"))
    assert [due.number for due in index.due(NINE)] == [0, 1]
    index.remove(0)
    assert [due.number for due in index.due(NINE)] == [1]


@pytest.mark.parametrize(
    ("bounds", "fires"),
    [
        ({"starts_on": parse_day("2026-10-26")}, True),
        ({"starts_on": parse_day("2026-10-27")}, False),
        ({"ends_on": parse_day("2026-10-26")}, True),
        ({"ends_on": parse_day("2026-10-25")}, False),
        ({"except_dates": (parse_day("2026-10-26"),)}, False),
        ({"effective_from": NINE}, True),
        ({"effective_from": NINE + 1}, False),
        ({"paused": True}, True),
    ],
)
def test_bounds_and_exceptions_apply_and_pause_is_left_to_the_caller(bounds: dict[str, object], fires: bool) -> None:
    index = index_of(make_schedule(Daily((540,)), **bounds))  # type: ignore[arg-type]
    assert bool(index.due(NINE)) is fires


def test_one_schedule_may_fire_for_two_labels_at_one_tick() -> None:
    policy = Policy(Gap.NEXT_VALID, Overlap.FIRST)
    index = index_of(make_schedule(Daily((120, 150, 180)), zone="America/New_York", policy=policy))
    labels = [parse_label(f"2027-03-14T{time}") for time in ("02:00", "02:30", "03:00")]
    assert index.due(parse_tick("2027-03-14T07:00Z")) == [Due(0, label, 0, policy) for label in labels]


def test_a_revision_in_force_after_the_first_copy_treats_the_second_as_the_only_one() -> None:
    late = parse_tick("2026-11-01T06:00Z")
    for overlap in Overlap:
        policy = Policy(Gap.SKIP, overlap)
        index = index_of(make_schedule(Daily((90,)), zone="America/New_York", policy=policy, effective_from=late))
        assert index.due(parse_tick("2026-11-01T05:30Z")) == []
        assert [(due.number, due.copy) for due in index.due(parse_tick("2026-11-01T06:30Z"))] == [(0, 0)]


def test_ticks_in_any_order() -> None:
    index = index_of(make_schedule(Daily((90,)), zone="America/New_York", policy=Policy(Gap.SKIP, Overlap.BOTH)))
    ticks = [parse_tick(text) for text in ("2027-07-01T05:30Z", "2026-11-01T06:30Z", "2026-11-01T05:30Z")]
    assert [[due.copy for due in index.due(tick)] for tick in ticks * 2] == [[0], [1], [0]] * 2


def test_what_it_cannot_keep_it_refuses() -> None:
    with pytest.raises(InvalidInput, match="did you mean Europe/Berlin"):
        index_of(make_schedule(Daily((540,)), zone="Europe/Berlim"))
    with pytest.raises(InvalidInput, match="promise business_date"):
        index_of(make_schedule(Daily((540,)), promise=Promise.BUSINESS_DATE))


@pytest.mark.parametrize("overlap", list(Overlap))
@pytest.mark.parametrize("since", [-1, 0, 1, 59, 60])
def test_copies_before_the_tick_a_schedule_came_into_force_do_not_exist_for_it(overlap: Overlap, since: int) -> None:
    """02:30 in Berlin exists at 00:30Z and 01:30Z of 2026-10-25; `since` counts from the first of them."""
    first, label = parse_tick("2026-10-25T00:30Z"), parse_label("2026-10-25T02:30")
    index = DictIndex(wheel_bundle())
    index.put(7, make_schedule(Daily((150,)), policy=Policy(Gap.SKIP, overlap)), first + since)
    found = [(tick - first, due.copy) for tick in (first, first + 60) for due in index.due(tick) if due.label == label]
    known = {Overlap.FIRST: [(0, 0)], Overlap.SECOND: [(60, 0)], Overlap.BOTH: [(0, 0), (60, 1)]}
    assert found == (known[overlap] if since <= 0 else [(60, 0)])
