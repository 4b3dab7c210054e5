"""Compiled rules: minute sets, date predicates, sharing."""

from __future__ import annotations

from streams.domain.minutes import day_of, parse_day
from streams.domain.rules import EveryDay, OnWeekdays, all_hours, compile_rule, minutes_of_day
from streams.domain.schedule import Daily, Weekly

MONDAY = parse_day("2026-10-26")


def test_daily_reaches_its_minutes_every_day() -> None:
    compiled = compile_rule(Daily((0, 150, 1439)))
    assert minutes_of_day(compiled.minutes) == (0, 150, 1439)
    assert [minute for minute in range(1440) if compiled.reaches(MONDAY, minute)] == [0, 150, 1439]
    assert all(compiled.predicate.matches(day) for day in range(-1000, 1000))


def test_weekly_reaches_its_weekdays_only() -> None:
    compiled = compile_rule(Weekly((0, 3), (540,)))
    assert [day - MONDAY for day in range(MONDAY, MONDAY + 14) if compiled.reaches(day, 540)] == [0, 3, 7, 10]
    assert not any(compiled.reaches(day, 541) for day in range(MONDAY, MONDAY + 14))


def test_weekdays_are_gregorian_even_on_a_date_that_never_was() -> None:
    assert OnWeekdays(1 << 4).matches(day_of(2011, 12, 30))  # Apia had no such day; it is a Friday all the same


def test_equal_rules_share_one_compiled_rule_and_predicates_are_values() -> None:
    assert compile_rule(Daily((60,))) is compile_rule(Daily((60,)))
    assert compile_rule(Weekly((0, 1, 2, 3, 4, 5, 6), (60,))) is compile_rule(Daily((60,)))
    assert len({OnWeekdays(3), OnWeekdays(3), EveryDay(), EveryDay()}) == 2


def test_all_hours_takes_every_hour_but_not_every_minute() -> None:
    hourly = tuple(range(7, 1440, 60))
    assert all_hours(compile_rule(Daily(hourly)))
    assert not all_hours(compile_rule(Daily(hourly[:-1])))
    assert not all_hours(compile_rule(Daily(tuple(range(1380)))))
