"""Conditions on a date that weekdays decide, or the date itself. Those on months are in `predicates_monthly`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from streams.domain.dates import Month

_THURSDAY = 3  # day 0, 1970-01-01


class DatePredicate(Protocol):
    """A pure condition on a day number. Equal conditions are equal values and hash alike."""

    def matches(self, day: int) -> bool:
        """Whether the rule runs on this Gregorian date."""
        ...

    def days_in(self, month: Month) -> int:
        """The days of a month that match: bit d for day d. Says the same as `matches`, for searches."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class EveryDay:
    """Every date."""

    def matches(self, day: int) -> bool:
        """Always."""
        return True

    def days_in(self, month: Month) -> int:
        """All."""
        return month.whole


@dataclass(frozen=True, slots=True)
class OnWeekdays:
    """Dates whose weekday's bit is set in `mask`; bit 0 is Monday."""

    mask: int

    def matches(self, day: int) -> bool:
        """By the weekday."""
        return bool(self.mask >> (day + _THURSDAY) % 7 & 1)

    def days_in(self, month: Month) -> int:
        """By the weekday of the 1st."""
        return month.weekdays(self.mask)


@dataclass(frozen=True, slots=True)
class EveryWeeks:
    """Weekdays as in `OnWeekdays`, from the date `anchor` on: in its week, Monday to Sunday, and every `weeks` weeks
    after that.
    """

    mask: int
    weeks: int
    anchor: int

    def matches(self, day: int) -> bool:
        """By the weekday and the number of Mondays since the anchor."""
        if day < self.anchor or not self.mask >> (day + _THURSDAY) % 7 & 1:
            return False
        return ((day + _THURSDAY) // 7 - (self.anchor + _THURSDAY) // 7) % self.weeks == 0

    def days_in(self, month: Month) -> int:
        """Day by day."""
        if month.first + month.length <= self.anchor:
            return 0
        return sum(1 << day for day in range(1, month.length + 1) if self.matches(month.first + day - 1))


@dataclass(frozen=True, slots=True)
class OnDate:
    """One date."""

    day: int

    def matches(self, day: int) -> bool:
        """It alone."""
        return day == self.day

    def days_in(self, month: Month) -> int:
        """It, if it lies in the month."""
        day = self.day - month.first + 1
        return 1 << day if 1 <= day <= month.length else 0
