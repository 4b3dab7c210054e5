"""Zone tables in the cases people ask about, by name."""

from __future__ import annotations

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.errors import InvalidInput
from streams.domain.minutes import format_label, format_tick, parse_label, parse_tick
from streams.domain.schedule import Gap, Overlap, Policy
from streams.domain.timeline import Timeline
from streams.domain.zones import Firing, ZoneTable
from tests.unit.test_tzif import second_version


def fires(zone: str, label: str, gap: Gap = Gap.SKIP, overlap: Overlap = Overlap.FIRST) -> list[tuple[str, int]]:
    firings = wheel_bundle().table(zone).resolve(parse_label(label), Policy(gap, overlap))
    return [(format_tick(tick), copy) for tick, copy in firings]


@pytest.mark.parametrize("overlap", Overlap)
def test_spring_gap_at_0230_in_the_us_and_in_europe(overlap: Overlap) -> None:
    for zone, label, tau, shifted in (
        ("America/New_York", "2027-03-14T02:30", "2027-03-14T07:00:00Z", "2027-03-14T07:30:00Z"),
        ("Europe/Berlin", "2027-03-28T02:30", "2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z"),
    ):
        assert fires(zone, label, Gap.SKIP, overlap) == []
        assert fires(zone, label, Gap.NEXT_VALID, overlap) == [(tau, 0)]
        assert fires(zone, label, Gap.SHIFT, overlap) == [(shifted, 0)]


@pytest.mark.parametrize("gap", Gap)
def test_both_instants_of_autumn_0130_in_the_us_and_0230_in_europe(gap: Gap) -> None:
    for zone, label, first, second in (
        ("America/New_York", "2026-11-01T01:30", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"),
        ("Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
    ):
        assert fires(zone, label, gap, Overlap.FIRST) == [(first, 0)]
        assert fires(zone, label, gap, Overlap.SECOND) == [(second, 0)]
        assert fires(zone, label, gap, Overlap.BOTH) == [(first, 0), (second, 1)]


def test_a_whole_day_that_never_was_lands_on_one_tick() -> None:
    table = wheel_bundle().table("Pacific/Apia")
    reached = table.reached(parse_tick("2011-12-30T10:00Z"))
    assert len(reached) == 1440 + 1
    assert format_label(reached[0].label) == "2011-12-30T00:00"
    assert format_label(reached[-1].label) == "2011-12-31T00:00"


def test_a_third_copy_is_suppressed() -> None:
    table = ZoneTable("spliced", Timeline(60, [(1000, 30), (1020, 0)]))
    assert table.ticks_of(1040) == (980, 1010, 1040)
    assert table.resolve(1040, Policy(Gap.SKIP, Overlap.BOTH)) == (Firing(980, 0), Firing(1010, 1))
    assert table.resolve(1040, Policy(Gap.SKIP, Overlap.SECOND)) == (Firing(1010, 0),)
    assert table.reached(1040) == ()


def test_segments_near_a_transition_only() -> None:
    table = wheel_bundle().table("America/New_York")
    assert table.ordinary_offset(parse_tick("2026-11-01T04:59Z")) == -240
    assert table.ordinary_offset(parse_tick("2026-11-01T05:00Z")) is None
    assert table.ordinary_offset(parse_tick("2026-11-01T06:59Z")) is None
    assert table.ordinary_offset(parse_tick("2026-11-01T07:00Z")) == -300
    change = table.next_change(parse_tick("2026-11-01T07:00Z"))
    assert change is not None
    assert format_tick(change) == "2027-03-14T07:00:00Z"


def test_a_zone_at_rest_never_changes_again() -> None:
    assert wheel_bundle().table("Asia/Tokyo").next_change(parse_tick("1990-01-01T00:00Z")) is None
    assert wheel_bundle().table("UTC").next_change(0) is None


def test_half_minutes_floor_the_offset_and_ceil_the_transition() -> None:
    # Monrovia was at -00:44:30 until 1972-01-07T00:44:30Z.
    table = wheel_bundle().table("Africa/Monrovia")
    assert table.offset_at(parse_tick("1972-01-07T00:44Z")) == -45
    assert table.offset_at(parse_tick("1972-01-07T00:45Z")) == 0
    assert fires("Africa/Monrovia", "1972-01-07T00:10", Gap.NEXT_VALID) == [("1972-01-07T00:45:00Z", 0)]
    assert fires("Africa/Monrovia", "1972-01-07T00:10", Gap.SHIFT) == [("1972-01-07T00:55:00Z", 0)]


def test_a_rule_that_begins_without_changing_the_offset() -> None:
    # Troll's station opened in 2005: its file lists a transition from +00 to +00, and the rule counts from there.
    table = wheel_bundle().table("Antarctica/Troll")
    assert table.offset_at(parse_tick("2004-07-01T00:00Z")) == 0
    assert table.offset_at(parse_tick("2005-07-01T00:00Z")) == 120


def test_a_rule_without_transitions_counts_always() -> None:
    table = ZoneTable.from_tzif("x", second_version([], [], [0], b"\nEST5EDT,M3.2.0,M11.1.0\n"))
    assert table.offset_at(parse_tick("1999-01-01T00:00Z")) == -300
    assert table.offset_at(parse_tick("1999-07-01T00:00Z")) == -240


@pytest.mark.parametrize("until_year", [2030, 2100])
def test_daylight_time_all_year_has_no_transitions(until_year: int) -> None:
    data = second_version([0], [0], [-14400], b"\nEST5EDT,0/0,J365/25\n", b"3")
    table = ZoneTable.from_tzif("x", data, until_year)
    for year in range(1971, 2140):
        for moment in ("01-01T04:59Z", "01-01T05:00Z", "12-31T23:59Z"):
            assert table.offset_at(parse_tick(f"{year}-{moment}")) == -240
    assert table.next_change(parse_tick("2000-01-01T00:00Z")) is None


def test_damaged_bytes_name_the_zone() -> None:
    with pytest.raises(InvalidInput, match="zone Europe/Berlin: not a TZif file"):
        ZoneTable.from_tzif("Europe/Berlin", b"garbage")
