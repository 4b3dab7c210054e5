"""Conditions on a date that its place in the month decides."""

from __future__ import annotations

from dataclasses import dataclass

from streams.domain.dates import WORKDAYS, Month, month_before, place_of
from streams.domain.schedule import MissingDay


class _ByMonth:
    """`matches` by the days of the date's month."""

    __slots__ = ()

    def matches(self, day: int) -> bool:
        """Whether the rule runs on this Gregorian date."""
        month, number = place_of(day)
        return bool(self.days_in(month) >> number & 1)

    def days_in(self, month: Month) -> int:
        """The days of a month that match: bit d for day d."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OnMonthDays(_ByMonth):
    """Days of the months whose bit (1 to 12) is set in `months`: bit d of `days` for day d, bit n of `from_end` for the
    n-th from the end. `missing` says what a day of `days` does in a month that is too short for it.
    """

    days: int
    from_end: int
    missing: MissingDay
    months: int

    def days_in(self, month: Month) -> int:
        """Its own days; and under `next` the 1st, if the month before is too short for a day."""
        found = 0
        if self.months >> month.month & 1:
            found = self.days & month.whole
            for n in range(1, self.from_end.bit_length()):
                found |= (self.from_end >> n & 1) << month.length + 1 - n
            if self.missing is MissingDay.CLAMP and self.days >> month.length + 1:
                found |= 1 << month.length
        if self.missing is MissingDay.NEXT:
            before = month_before(month)
            if before is not None and self.months >> before.month & 1 and self.days >> before.length + 1:
                found |= 1 << 1
        return found


@dataclass(frozen=True, slots=True)
class OnNthWeekday(_ByMonth):
    """The `nth` of a weekday (0 is Monday) of every month, counted from the end below 0."""

    nth: int
    weekday: int

    def days_in(self, month: Month) -> int:
        """One day, or none: not every month has five."""
        return month.nth(month.weekdays(1 << self.weekday), self.nth)


@dataclass(frozen=True, slots=True)
class OnNthWorkday(_ByMonth):
    """The `nth` date from Monday to Friday of every month, counted from the end below 0."""

    nth: int

    def days_in(self, month: Month) -> int:
        """One day; every month has twenty at least."""
        return month.nth(month.weekdays(WORKDAYS), self.nth)


@dataclass(frozen=True, slots=True)
class OnCronDays(_ByMonth):
    """The three date fields of a cron expression; `both` says whether a date must satisfy both day fields or one.

    Bits: `days` 1 to 31, `months` 1 to 12, `weekdays` 0 (Monday) to 6. `nth_weekdays` holds (weekday, nth) pairs, nth
    1 to 5, or -1 for the last.
    """

    days: int
    last_day: bool
    last_workday: bool
    months: int
    weekdays: int
    nth_weekdays: tuple[tuple[int, int], ...]
    both: bool

    def days_in(self, month: Month) -> int:
        """What the day fields say, in a month that is meant."""
        if not self.months >> month.month & 1:
            return 0
        days = self.days & month.whole
        if self.last_day:
            days |= 1 << month.length
        if self.last_workday:
            days |= month.nth(month.weekdays(WORKDAYS), -1)
        by_weekday = month.weekdays(self.weekdays)
        for weekday, nth in self.nth_weekdays:
            by_weekday |= month.nth(month.weekdays(1 << weekday), nth)
        return days & by_weekday if self.both else days | by_weekday
