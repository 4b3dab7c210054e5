"""Looking ahead: the next date or label of a compiled rule, and the label it ends with after so many.

Every search ends, at the end of year 9999: a month is one step of it, so the longest takes some 96,000 steps.
"""

from __future__ import annotations

from functools import lru_cache

from streams.domain.dates import LAST_DAY, months_from, place_of
from streams.domain.minutes import MINUTES_PER_DAY, day_of
from streams.domain.predicates import DatePredicate
from streams.domain.rules import CompiledRule

_CYCLE_YEARS = 400  # after which weekdays and month lengths come again as they were


def next_day(predicate: DatePredicate, day: int) -> int | None:
    """The first date at or after `day` that matches; none to the end of year 9999."""
    if day > LAST_DAY:
        return None
    _, least = place_of(day)
    for month in months_from(day):
        days = predicate.days_in(month) >> least << least
        if days:
            return month.first + (days & -days).bit_length() - 2
        least = 0
    return None


def next_label(compiled: CompiledRule, label: int) -> int | None:
    """The rule's first label at or after `label`; none to the end of year 9999."""
    day, minute = divmod(label, MINUTES_PER_DAY)
    rest = compiled.minutes >> minute << minute
    if rest and compiled.predicate.matches(day):
        return day * MINUTES_PER_DAY + _lowest(rest)
    following = next_day(compiled.predicate, day + 1)
    return None if following is None else following * MINUTES_PER_DAY + _lowest(compiled.minutes)


@lru_cache(maxsize=65536)
def nth_label(compiled: CompiledRule, day: int, nth: int) -> int | None:
    """The `nth` label (from 1) of the rule, counted from the begin of a date; none if year 9999 ends before it."""
    dates, minutes = divmod(nth - 1, compiled.minutes.bit_count())
    _, least = place_of(day)
    for month in months_from(day):
        days = compiled.predicate.days_in(month) >> least << least
        least = 0
        if days.bit_count() <= dates:
            dates -= days.bit_count()
            continue
        on = month.first - 1 + _lowest(_without_lowest(days, dates))
        return on * MINUTES_PER_DAY + _lowest(_without_lowest(compiled.minutes, minutes))
    return None


def ever_matches(predicate: DatePredicate) -> bool:
    """Whether a condition on month and weekday alone is met by any date: all its answers come again in 400 years."""
    begin = day_of(2000, 1, 1)
    return any(predicate.days_in(month) for month, _ in zip(months_from(begin), range(12 * _CYCLE_YEARS), strict=False))


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _without_lowest(bits: int, count: int) -> int:
    for _ in range(count):
        bits &= bits - 1
    return bits
