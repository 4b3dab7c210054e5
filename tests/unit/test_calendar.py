"""What the calendar says of rules people write: dates by name, months without the day, counts, what comes next."""

from __future__ import annotations

from itertools import islice

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.cron import CronError, parse_cron
from streams.domain.document import DocumentContext, parse_document
from streams.domain.document_fields import describe
from streams.domain.keys import nominal_key
from streams.domain.minutes import format_day, format_label, format_tick, parse_day, parse_tick
from streams.domain.preview import Preview, preview
from streams.domain.rules import CompiledRule, EveryDay, OnWeekdays, compile_rule
from streams.domain.schedule import Cron, Every, Overlap, Schedule
from streams.domain.schedule_warnings import warnings_of
from streams.domain.search import next_day
from streams.domain.upcoming import upcoming

CONTEXT = DocumentContext(frozenset(wheel_bundle().names))
AT = ["09:00"]


def schedule(rule: dict[str, object], **fields: object) -> Schedule:
    document = {"id": "s", "region": "eu", "zone": "Europe/Berlin", "rule": rule, **fields}
    found = parse_document({"deliver": {"provider": "log", "to": "x", "payload": None}, **document}, CONTEXT)
    assert isinstance(found, Schedule), found
    return found


def compiled(rule: dict[str, object]) -> CompiledRule:
    made = schedule(rule).rule
    assert not isinstance(made, Every)
    return compile_rule(made)


def dates(rule: dict[str, object], begin: str, count: int) -> list[str]:
    found: list[str] = []
    day = next_day(compiled(rule).predicate, parse_day(begin))
    while day is not None and len(found) < count:
        found.append(format_day(day))
        day = next_day(compiled(rule).predicate, day + 1)
    return found


def lines(one: Schedule, begin: str, end: str) -> list[Preview]:
    return preview([one], wheel_bundle(), parse_tick(begin), parse_tick(end))


def told(one: Schedule, begin: str, end: str) -> list[tuple[str | None, str]]:
    return [(line.nominal, line.decision.value) for line in lines(one, begin, end)]


@pytest.mark.parametrize(
    ("rule", "begin", "expected"),
    [
        ({"days": [31], "missing_day": "skip"}, "2027-01-01", ["2027-01-31", "2027-03-31", "2027-05-31"]),
        ({"days": [31], "missing_day": "clamp"}, "2027-01-31", ["2027-01-31", "2027-02-28", "2027-03-31"]),
        ({"days": [31], "missing_day": "next"}, "2027-01-31", ["2027-01-31", "2027-03-01", "2027-03-31"]),
        ({"days": [1, 30], "missing_day": "next"}, "2027-02-01", ["2027-02-01", "2027-03-01", "2027-03-30"]),
        ({"days": [30, 31], "missing_day": "clamp"}, "2028-02-01", ["2028-02-29", "2028-03-30", "2028-03-31"]),
        ({"days": [-1, 15]}, "2027-02-01", ["2027-02-15", "2027-02-28", "2027-03-15", "2027-03-31"]),
        ({"days": [-28]}, "2027-02-01", ["2027-02-01", "2027-03-04", "2027-04-03"]),
        ({"nth": 2, "weekday": "tue"}, "2027-01-01", ["2027-01-12", "2027-02-09", "2027-03-09"]),
        ({"nth": -1, "weekday": "fri"}, "2027-01-01", ["2027-01-29", "2027-02-26", "2027-03-26"]),
        ({"nth": 5, "weekday": "mon"}, "2027-01-01", ["2027-03-29", "2027-05-31", "2027-08-30"]),
        ({"nth": -1, "weekday": "workday"}, "2027-01-01", ["2027-01-29", "2027-02-26", "2027-03-31"]),
        ({"nth": 1, "weekday": "workday"}, "2027-05-01", ["2027-05-03", "2027-06-01", "2027-07-01"]),
    ],
)
def test_monthly(rule: dict[str, object], begin: str, expected: list[str]) -> None:
    assert dates({"kind": "monthly", "at": AT, **rule}, begin, len(expected)) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"month": 2, "day": 29}, ["2028-02-29", "2032-02-29"]),
        ({"month": 2, "day": 29, "missing_day": "clamp"}, ["2027-02-28", "2028-02-29"]),
        ({"month": 2, "day": 29, "missing_day": "next"}, ["2027-03-01", "2028-02-29"]),
        ({"month": 4, "day": 31, "missing_day": "next"}, ["2027-05-01", "2028-05-01"]),
        ({"month": 2, "day": -1}, ["2027-02-28", "2028-02-29"]),
        ({"month": 12, "day": 31}, ["2027-12-31", "2028-12-31"]),
    ],
)
def test_yearly(rule: dict[str, object], expected: list[str]) -> None:
    assert dates({"kind": "yearly", "at": AT, **rule}, "2027-01-01", 2) == expected


def test_weeks_are_counted_from_the_week_of_the_anchor_and_nothing_runs_before_it() -> None:
    rule = {"kind": "weekly", "weekdays": ["mon", "sun"], "every_weeks": 2, "anchor": "2027-01-03", "at": AT}
    assert dates(rule, "2026-01-01", 4) == ["2027-01-03", "2027-01-11", "2027-01-17", "2027-01-25"]
    predicate = compiled(rule).predicate
    running = [
        format_day(day) for day in range(parse_day("2026-11-01"), parse_day("2027-01-12")) if predicate.matches(day)
    ]
    assert running == ["2027-01-03", "2027-01-11"]


@pytest.mark.parametrize(
    ("expression", "begin", "expected"),
    [
        ("0 9 13 * 5", "2027-08-01", ["2027-08-06", "2027-08-13", "2027-08-20"]),
        ("0 9 13 * *", "2027-08-01", ["2027-08-13", "2027-09-13"]),
        ("0 0 */2 * 0", "2025-06-01", ["2025-06-01", "2025-06-15", "2025-06-29"]),
        ("0 0 13 * */5", "2027-01-01", ["2027-06-13", "2027-08-13"]),
        ("0 9 L * *", "2027-01-01", ["2027-01-31", "2027-02-28"]),
        ("0 9 LW * *", "2027-01-01", ["2027-01-29", "2027-02-26"]),
        ("0 9 * * fri#2", "2027-01-01", ["2027-01-08", "2027-02-12"]),
        ("0 9 * * FRIL", "2027-01-01", ["2027-01-29", "2027-02-26"]),
        ("0 9 * * 7", "2027-01-01", ["2027-01-03", "2027-01-10"]),
        ("0 9 * * sat-sun", "2027-01-01", ["2027-01-02", "2027-01-03", "2027-01-09"]),
        ("0 9 29 2 *", "2027-01-01", ["2028-02-29", "2032-02-29"]),
        ("0 9 1 jan,JUL *", "2027-01-02", ["2027-07-01", "2028-01-01"]),
        ("0 9 29 2 */6", "2027-01-01", ["2032-02-29", "2048-02-29"]),
    ],
)
def test_cron_dates(expression: str, begin: str, expected: list[str]) -> None:
    assert dates({"kind": "cron", "expression": expression}, begin, len(expected)) == expected


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("*/20 9 * * *", ["09:00", "09:20", "09:40"]),
        ("5/25 0,12 * * *", ["00:05", "00:30", "00:55", "12:05", "12:30", "12:55"]),
        ("0 9-17/4 * * *", ["09:00", "13:00", "17:00"]),
        ("00 07 * * *", ["07:00"]),
    ],
)
def test_cron_times(expression: str, times: list[str]) -> None:
    minutes = compiled({"kind": "cron", "expression": expression}).minutes
    assert [f"{m // 60:02d}:{m % 60:02d}" for m in range(1440) if minutes >> m & 1] == times


def test_cron_shares_its_compiled_form_with_rules_that_mean_the_same() -> None:
    assert compiled({"kind": "cron", "expression": "0 9 * * *"}) is compiled({"kind": "daily", "at": AT})
    weekly = compiled({"kind": "weekly", "weekdays": ["mon", "fri"], "at": AT})
    assert compiled({"kind": "cron", "expression": "0 9 * * mon,5"}) is weekly
    assert compile_rule(Cron("0 9 1-31 * 5")).predicate == EveryDay()
    assert compile_rule(Cron("0 9 */1 * 5")).predicate == OnWeekdays(1 << 4)


@pytest.mark.parametrize(("expression", "overlap"), [("7 * * * 1", Overlap.BOTH), ("* 0-22 * * *", Overlap.FIRST)])
def test_cron_with_all_hours_keeps_both_copies_by_default(expression: str, overlap: Overlap) -> None:
    assert schedule({"kind": "cron", "expression": expression}).policy.overlap is overlap


def test_the_error_of_a_bad_expression_names_every_fault() -> None:
    with pytest.raises(CronError, match="minute: 60 is out of range, allowed: 0 to 59; hour: 24 is out of range"):
        parse_cron("60 24 * * *")


def test_a_month_without_the_day_is_explained_when_it_is_over() -> None:
    one = schedule({"kind": "monthly", "days": [29, 31], "at": ["09:00", "17:00"]}, zone="America/New_York")
    february = told(one, "2027-02-01T05:00Z", "2027-03-02T05:00Z")
    assert february == [
        (f"2027-02-{day}T{time}", "month_skipped") for day in ("29", "31") for time in ("09:00", "17:00")
    ]
    first = lines(one, "2027-02-01T05:00Z", "2027-03-02T05:00Z")[0]
    assert (first.instant, first.due, format_tick(first.concerned)) == (None, None, "2027-03-01T05:00:00Z")
    assert first.key == nominal_key("s", "2027-02-29T09:00")
    assert lines(one, "2027-03-01T05:00Z", "2027-03-01T05:01Z")[0] == first
    assert told(one, "2027-02-01T05:00Z", "2027-03-01T05:00Z") == []


def test_clamp_next_and_days_from_the_end_skip_no_month() -> None:
    for rule in ({"days": [31], "missing_day": "clamp"}, {"days": [31], "missing_day": "next"}, {"days": [-1]}):
        one = schedule({"kind": "monthly", "at": AT, **rule})
        assert {decision for _, decision in told(one, "2027-01-15T00:00Z", "2028-01-15T00:00Z")} == {"fire"}


def test_a_skipped_year_and_what_bounds_make_of_it() -> None:
    leap = {"kind": "yearly", "month": 2, "day": 29, "at": AT}
    window = ("2027-01-01T00:00Z", "2027-12-31T00:00Z")
    assert told(schedule(leap), *window) == [("2027-02-29T09:00", "month_skipped")]
    for bounds, decision in (
        ({"starts_on": "2027-03-01"}, "before_effective"),
        ({"starts_on": "2027-02-28"}, "month_skipped"),
        ({"ends_on": "2027-02-28"}, "after_end"),
        ({"ends_on": "2027-03-01"}, "month_skipped"),
        ({"starts_on": "2024-02-29", "count": 1}, "after_end"),
        ({"starts_on": "2024-02-29", "count": 2}, "month_skipped"),
        ({"paused": True}, "month_skipped"),
    ):
        assert told(schedule(leap, **bounds), *window) == [("2027-02-29T09:00", decision)]


def test_a_count_that_ends_with_the_next_month_s_first_minute_ends_after_the_missing_day() -> None:
    one = schedule({"kind": "monthly", "days": [1, 31], "at": ["00:00"]}, zone="UTC", starts_on="2027-02-01", count=2)
    assert told(one, "2027-02-02T00:00Z", "2027-03-31T00:01Z") == [
        ("2027-02-31T00:00", "month_skipped"),
        ("2027-03-01T00:00", "fire"),
        ("2027-03-31T00:00", "after_end"),
    ]


def test_count_counts_labels_whether_or_not_they_fire() -> None:
    one = schedule(
        {"kind": "daily", "at": ["02:30", "09:00"]},
        zone="America/New_York", starts_on="2027-03-13", count=5, except_dates=["2027-03-13"],
    )  # fmt: skip
    assert told(one, "2027-03-13T00:00Z", "2027-03-16T05:00Z") == [
        ("2027-03-13T02:30", "excepted"),
        ("2027-03-13T09:00", "excepted"),
        ("2027-03-14T02:30", "gap_skipped"),
        ("2027-03-14T09:00", "fire"),
        ("2027-03-15T02:30", "fire"),
        ("2027-03-15T09:00", "after_end"),
    ]


def test_the_dates_of_an_elapsed_rule_are_utc_dates() -> None:
    rule = {"kind": "every", "hours": 6, "anchor": "2027-01-01T03:00Z"}
    one = schedule(rule, zone="Asia/Tokyo", starts_on="2027-01-02", count=5, except_dates=["2027-01-03"])
    window = ("2026-12-31T00:00Z", "2027-01-04T00:00Z")
    by_date: dict[str, list[str]] = {}
    for line in lines(one, *window):
        by_date.setdefault(format_tick(line.concerned)[:10], []).append(line.decision.value)
    assert by_date == {
        "2027-01-01": ["before_effective"] * 4,
        "2027-01-02": ["fire"] * 4,
        "2027-01-03": ["excepted", *["after_end"] * 3],
    }
    assert {line.nominal for line in lines(one, *window)} == {None}


def test_an_elapsed_rule_knows_no_clock_change() -> None:
    one = schedule({"kind": "every", "minutes": 45, "anchor": "2026-10-24T22:00Z"}, gap="shift", overlap="both")
    instants = [line.instant for line in lines(one, "2026-10-24T22:00Z", "2026-10-25T04:00Z")]
    assert instants == list(range(parse_tick("2026-10-24T22:00Z"), parse_tick("2026-10-25T04:00Z"), 45))


@pytest.mark.parametrize(
    ("rule", "after", "expected"),
    [
        ({"kind": "daily", "at": ["02:30"]}, "2027-03-27T12:00Z", ["2027-03-29T00:30", "2027-03-30T00:30"]),
        ({"kind": "cron", "expression": "0 0 29 2 1"}, "2027-02-28T12:00Z", ["2028-02-06T23:00", "2028-02-13T23:00"]),
        ({"kind": "cron", "expression": "0 0 29 2 *"}, "2096-03-01T00:00Z", ["2104-02-28T23:00", "2108-02-28T23:00"]),
        ({"kind": "every", "minutes": 90, "anchor": "2027-01-01T00:00Z"}, "2026-01-01T00:00Z",
         ["2027-01-01T00:00", "2027-01-01T01:30"]),
        ({"kind": "once", "date": "9999-12-31", "at": AT}, "2026-01-01T00:00Z", ["9999-12-31T08:00"]),
    ],
)  # fmt: skip
def test_what_comes_next(rule: dict[str, object], after: str, expected: list[str]) -> None:
    found = upcoming(schedule(rule), wheel_bundle().table("Europe/Berlin"), parse_tick(after))
    assert [format_label(fire.tick) for fire in islice(found, 2)] == expected


@pytest.mark.parametrize(
    ("zone", "times", "begin", "first"),
    [
        ("America/New_York", ["01:30", "01:45"], "2026-11-01T00:00Z", 5),
        ("Europe/Berlin", ["02:30", "02:45"], "2026-10-25T00:00Z", 0),
    ],
)
def test_what_comes_next_is_in_order_of_instants_where_labels_are_not(
    zone: str, times: list[str], begin: str, first: int
) -> None:
    one = schedule({"kind": "daily", "at": times}, zone=zone, overlap="both")
    found = list(islice(upcoming(one, wheel_bundle().table(one.zone), parse_tick(begin)), 4))
    begun = parse_tick(begin) + first * 60
    assert [(f"{5 + (fire.tick - begun) // 60:02d}:{(fire.tick - begun) % 60}", fire.copy) for fire in found] == [
        ("05:30", 0), ("05:45", 0), ("06:30", 1), ("06:45", 1)
    ]  # fmt: skip


def test_nothing_comes_of_what_is_paused_or_over() -> None:
    table = wheel_bundle().table("Europe/Berlin")
    once = {"kind": "once", "date": "2027-03-14", "at": AT}
    assert list(upcoming(schedule(once, paused=True), table, 0)) == []
    assert list(upcoming(schedule(once), table, parse_tick("2027-03-14T08:01Z"))) == []
    every = {"kind": "every", "minutes": 1, "anchor": "2027-01-01T00:00Z"}
    ended = schedule(every, starts_on="2027-01-01", count=3)
    assert len(list(upcoming(ended, table, 0))) == 3
    assert list(upcoming(schedule(every, paused=True), table, 0)) == []


NOT_THERE = (
    "the clock jumps over it, or a bound or exception leaves it out "
    '("2027-03-28"); write another date, or gap: next_valid'
)
NOW = parse_tick("2027-03-14T08:00Z")  # 09:00 in Berlin


@pytest.mark.parametrize(
    ("rule", "fields", "said"),
    [
        ({"kind": "once", "date": "2027-03-14", "at": AT}, {}, None),
        ({"kind": "once", "date": "2027-03-14", "at": ["08:59", "09:00"]}, {}, None),
        ({"kind": "once", "date": "2027-03-14", "at": ["08:59"]}, {},
         'rule.date: is past, so nothing will run ("2027-03-14"); write a later date, or leave the schedule out'),
        ({"kind": "once", "date": "2027-03-13", "at": AT}, {"paused": True},
         'rule.date: is past, so nothing will run ("2027-03-13"); write a later date, or leave the schedule out'),
        ({"kind": "once", "date": "2027-03-28", "at": ["02:30"]}, {},
         f"rule.date: nothing will run: {NOT_THERE}"),
        ({"kind": "once", "date": "2027-03-28", "at": ["02:30"]}, {"gap": "next_valid"}, None),
        ({"kind": "daily", "at": AT}, {}, None),
        ({"kind": "daily", "at": AT}, {"ends_on": "2027-03-14"}, None),
        ({"kind": "daily", "at": AT}, {"ends_on": "2027-03-13"},
         'ends_on: nothing is left to run until then ("2027-03-13"); write a later date, or leave it out'),
        ({"kind": "daily", "at": AT}, {"starts_on": "2027-03-10", "count": 5}, None),
        ({"kind": "daily", "at": AT}, {"starts_on": "2027-03-10", "count": 4},
         "count: its labels are past, so nothing will run (4); write a greater count or a later starts_on"),
        ({"kind": "every", "hours": 1, "anchor": "2027-03-14T00:00Z"}, {"starts_on": "2027-03-14", "count": 8},
         "count: its labels are past, so nothing will run (8); write a greater count or a later starts_on"),
        ({"kind": "every", "hours": 1, "anchor": "2027-03-14T00:00Z"}, {"starts_on": "2027-03-14", "count": 9}, None),
    ],
)  # fmt: skip
def test_what_is_over_warns(rule: dict[str, object], fields: dict[str, object], said: str | None) -> None:
    one = schedule(rule, **fields)
    found = [describe(warning) for warning in warnings_of(one, wheel_bundle().table(one.zone), NOW)]
    assert found == ([] if said is None else [said])
