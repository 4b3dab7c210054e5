"""Compiled rules: a set of minutes of the day and a predicate on dates. Zone-free, interned and shared.

A rule reaches a label if the label's minute is in the set and its date satisfies the predicate. Predicates look at the
Gregorian date alone: Apia's 2011-12-30 is a Friday although no clock there ever showed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from streams.domain.cron import CronFields, parse_cron
from streams.domain.dates import EVERY_WEEKDAY
from streams.domain.predicates import DatePredicate, EveryDay, EveryWeeks, OnDate, OnWeekdays
from streams.domain.predicates_monthly import OnCronDays, OnMonthDays, OnNthWeekday, OnNthWorkday
from streams.domain.schedule import (
    CalendarRule,
    Cron,
    Daily,
    MissingDay,
    MonthlyDays,
    MonthlyWeekday,
    MonthlyWorkday,
    Once,
    Weekly,
    Yearly,
)

_HOUR = (1 << 60) - 1
_EVERY_DAY = (2 << 31) - 2
_EVERY_MONTH = (2 << 12) - 2
_MOST_SHARED = 1 << 16


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """`minutes` has bit m set for minute of the day m, 0 to 1439; `predicate` says on which dates."""

    minutes: int
    predicate: DatePredicate

    def reaches(self, day: int, minute: int) -> bool:
        """Whether the rule reaches this label. Bounds and exception dates are the schedule's, not the rule's."""
        return bool(self.minutes >> minute & 1) and self.predicate.matches(day)


@lru_cache(maxsize=_MOST_SHARED)
def compile_rule(rule: CalendarRule) -> CompiledRule:
    """The compiled form; equal rules share one. An elapsed rule has none: see `elapsed`."""
    if isinstance(rule, Cron):
        fields = parse_cron(rule.expression)
        return _shared(fields.minutes_of_day, _cron_dates(fields))
    return _shared(_bits(rule.at), _predicate(rule))


def _predicate(
    rule: Daily | Weekly | MonthlyDays | MonthlyWeekday | MonthlyWorkday | Yearly | Once,
) -> DatePredicate:
    match rule:
        case Daily():
            return EveryDay()
        case Weekly(weekdays, _, every_weeks, anchor):
            mask = _bits(weekdays)
            if anchor is not None:
                return EveryWeeks(mask, every_weeks, anchor)
            return EveryDay() if mask == EVERY_WEEKDAY else OnWeekdays(mask)
        case MonthlyDays(days, missing_day, _):
            return _month_days(days, missing_day, _EVERY_MONTH)
        case MonthlyWeekday(nth, weekday, _):
            return OnNthWeekday(nth, weekday)
        case MonthlyWorkday(nth, _):
            return OnNthWorkday(nth)
        case Yearly(month, day, missing_day, _):
            return _month_days((day,), missing_day, 1 << month)
        case Once(day, _):
            return OnDate(day)


def _month_days(days: tuple[int, ...], missing_day: MissingDay, months: int) -> OnMonthDays:
    forward = _bits(day for day in days if day > 0)
    return OnMonthDays(forward, _bits(-day for day in days if day < 0), missing_day, months)


def _cron_dates(fields: CronFields) -> DatePredicate:
    """The plainest predicate that means the same, so that it is shared with rules of other kinds."""
    any_day, any_weekday = fields.days == _EVERY_DAY, fields.weekdays == EVERY_WEEKDAY
    if fields.months == _EVERY_MONTH:
        if (any_weekday and any_day) or (not fields.both and (any_weekday or any_day)):
            return EveryDay()
        if fields.both and any_day and not fields.nth_weekdays:
            return OnWeekdays(fields.weekdays)
    return OnCronDays(
        fields.days, fields.last_day, fields.last_workday, fields.months, fields.weekdays, fields.nth_weekdays,
        fields.both,
    )  # fmt: skip


def all_hours(compiled: CompiledRule) -> bool:
    """Whether every hour of the day has a minute in the set: then the overlap policy defaults to `both`."""
    return all(compiled.minutes >> 60 * hour & _HOUR for hour in range(24))


@lru_cache(maxsize=_MOST_SHARED)
def minutes_of_day(minutes: int) -> tuple[int, ...]:
    """The minutes of a bit set, ascending."""
    found = []
    while minutes:
        lowest = minutes & -minutes
        found.append(lowest.bit_length() - 1)
        minutes ^= lowest
    return tuple(found)


@lru_cache(maxsize=_MOST_SHARED)
def _shared(minutes: int, predicate: DatePredicate) -> CompiledRule:
    return CompiledRule(minutes, predicate)


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits
