"""Compiled rules: a set of minutes of the day and a predicate on dates. Zone-free, interned and shared.

A rule reaches a label if the label's minute is in the set and its date satisfies the predicate. Predicates look at the
Gregorian date alone: Apia's 2011-12-30 is a Friday although no clock there ever showed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from streams.domain.schedule import Daily, Rule, Weekly

_EVERY_WEEKDAY = 0b111_1111
_HOUR = (1 << 60) - 1
_MOST_SHARED = 1 << 16


class DatePredicate(Protocol):
    """A pure condition on a day number. Equal conditions are equal values and hash alike."""

    def matches(self, day: int) -> bool:
        """Whether the rule runs on this Gregorian date."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class EveryDay:
    """Every date."""

    def matches(self, day: int) -> bool:
        """Always."""
        return True


@dataclass(frozen=True, slots=True)
class OnWeekdays:
    """Dates whose weekday's bit is set in `mask`; bit 0 is Monday."""

    mask: int

    def matches(self, day: int) -> bool:
        """By the weekday; day 0, 1970-01-01, was a Thursday."""
        return bool(self.mask >> (day + 3) % 7 & 1)


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """`minutes` has bit m set for minute of the day m, 0 to 1439; `predicate` says on which dates."""

    minutes: int
    predicate: DatePredicate

    def reaches(self, day: int, minute: int) -> bool:
        """Whether the rule reaches this label. Bounds and exception dates are the schedule's, not the rule's."""
        return bool(self.minutes >> minute & 1) and self.predicate.matches(day)


@lru_cache(maxsize=_MOST_SHARED)
def compile_rule(rule: Rule) -> CompiledRule:
    """The compiled form; equal rules share one."""
    match rule:
        case Daily(at):
            return _shared(_bits(at), EveryDay())
        case Weekly(weekdays, at):
            mask = _bits(weekdays)
            return _shared(_bits(at), EveryDay() if mask == _EVERY_WEEKDAY else OnWeekdays(mask))


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


def _bits(numbers: tuple[int, ...]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits
