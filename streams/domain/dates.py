"""Months of the Gregorian calendar as sets of days. Zone-free: what a clock showed, or skipped, has no part in it.

A set of days of one month is an integer with bit d set for day d, 1 to 31.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import MAXYEAR, MINYEAR
from functools import lru_cache
from typing import NamedTuple

from streams.domain.minutes import date_of_day, day_of

FIRST_DAY = day_of(MINYEAR, 1, 1)
LAST_DAY = day_of(MAXYEAR, 12, 31)
EVERY_WEEKDAY = 0b111_1111
WORKDAYS = 0b001_1111
_WEEKS = sum(1 << 7 * week for week in range(6))


class Month(NamedTuple):
    """One month. `first` is the day number of its 1st."""

    year: int
    month: int
    first: int
    length: int

    @property
    def whole(self) -> int:
        """All its days."""
        return (2 << self.length) - 2

    def weekdays(self, mask: int) -> int:
        """Its days whose weekday's bit is set in `mask`; bit 0 is Monday."""
        begin = (self.first + 3) % 7  # day 0, 1970-01-01, was a Thursday
        turned = (mask >> begin | mask << 7 - begin) & EVERY_WEEKDAY
        return turned * _WEEKS << 1 & self.whole

    def nth(self, days: int, nth: int) -> int:
        """The `nth` of a set of its days, as a set; counted from the end below 0; empty if there are not so many."""
        for _ in range(abs(nth) - 1):
            days ^= days & -days if nth > 0 else 1 << days.bit_length() - 1 if days else 0
        if not days:
            return 0
        return days & -days if nth > 0 else 1 << days.bit_length() - 1


@lru_cache(maxsize=4096)
def month_of(year: int, month: int) -> Month:
    """The month of a year. Raises ValueError for one that does not exist."""
    return Month(year, month, day_of(year, month, 1), monthrange(year, month)[1])


@lru_cache(maxsize=4096)
def place_of(day: int) -> tuple[Month, int]:
    """A date's month, and its day in it."""
    date = date_of_day(day)
    return month_of(date.year, date.month), date.day


def month_before(month: Month) -> Month | None:
    """The month before, none before the first of year 1."""
    if month.month > 1:
        return month_of(month.year, month.month - 1)
    return month_of(month.year - 1, 12) if month.year > 1 else None


def months_from(day: int) -> Iterator[Month]:
    """The month of a date and every one after it, to the end of year 9999."""
    month, _ = place_of(day)
    year, number = month.year, month.month
    while year <= MAXYEAR:
        yield month_of(year, number)
        year, number = (year, number + 1) if number < 12 else (year + 1, 1)
