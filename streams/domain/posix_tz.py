"""The rule at the end of a TZif file: a POSIX TZ string, as RFC 9636 extends it (hours from -167 to 167)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from streams.domain.errors import InvalidInput
from streams.domain.minutes import day_of

_NAME = r"(?:[A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_TIME = r"[+-]?\d{1,3}(?::\d{1,2}){0,2}"
_RULE = re.compile(rf"{_NAME}(?P<std>{_TIME})(?:{_NAME}(?P<dst>{_TIME})?,(?P<starts>[^,]+),(?P<ends>[^,]+))?")
_CHANGE = re.compile(
    rf"(?:J(?P<julian>\d{{1,3}})|(?P<zero>\d{{1,3}})|M(?P<month>\d{{1,2}})\.(?P<week>\d)\.(?P<weekday>\d))"
    rf"(?:/(?P<time>{_TIME}))?"
)
_SECONDS_PER_DAY = 86_400
_LAST_WEEK = 5


@dataclass(frozen=True, slots=True)
class YearlyChange:
    """One of the two changes of a year: a date by one of the three POSIX forms, and a local time of day in seconds."""

    form: str
    numbers: tuple[int, ...]
    time_s: int

    def local_s(self, year: int) -> int:
        """Seconds from 1970-01-01T00:00 on the wall clock in force before the change."""
        return self._day(year) * _SECONDS_PER_DAY + self.time_s

    def _day(self, year: int) -> int:
        first = day_of(year, 1, 1)
        if self.form == "zero":
            return first + self.numbers[0]
        if self.form == "julian":  # 1 to 365, 29 February is never counted
            leap = date(year, 12, 31).timetuple().tm_yday > 365
            return first + self.numbers[0] - 1 + (1 if leap and self.numbers[0] >= 60 else 0)
        month, week, weekday = self.numbers
        first = day_of(year, month, 1)
        day = first + (weekday - (first + 4)) % 7 + 7 * (week - 1)  # day 0 was a Thursday; POSIX counts from Sunday
        length = 31 if month == 12 else day_of(year, month + 1, 1) - first
        return day - 7 if week == _LAST_WEEK and day >= first + length else day


@dataclass(frozen=True, slots=True)
class PosixRule:
    """What a zone does after its last listed transition: one offset, or two with a yearly change each way.

    Offsets are in seconds east of UTC.
    """

    standard_s: int
    daylight_s: int | None = None
    starts: YearlyChange | None = None
    ends: YearlyChange | None = None

    @property
    def offsets_s(self) -> tuple[int, ...]:
        """Every offset the rule knows."""
        return (self.standard_s,) if self.daylight_s is None else (self.standard_s, self.daylight_s)

    def changes(self, first_year: int, last_year: int) -> list[tuple[int, int]]:
        """`(UTC second, offset from then on)` for these years, ascending."""
        if self.daylight_s is None or self.starts is None or self.ends is None:
            return []
        found = []
        for year in range(first_year, last_year + 1):
            found.append((self.starts.local_s(year) - self.standard_s, self.daylight_s))
            found.append((self.ends.local_s(year) - self.daylight_s, self.standard_s))
        return sorted(found)


def parse_posix_tz(text: str) -> PosixRule:
    """The rule of a footer. Raises InvalidInput, naming the part that is wrong."""
    found = _RULE.fullmatch(text)
    if not found:
        raise InvalidInput(f"the POSIX TZ string {text!r} is not of the form std offset [dst [offset],start,end]")
    standard_s = -_seconds(found["std"], 24, text)
    if found["starts"] is None:
        return PosixRule(standard_s)
    daylight_s = -_seconds(found["dst"], 24, text) if found["dst"] else standard_s + 3600
    starts, ends = _change(found["starts"], text), _change(found["ends"], text)
    if ends.local_s(2001) - daylight_s >= starts.local_s(2002) - standard_s:
        return PosixRule(
            daylight_s
        )  # daylight time all year is written as a year's end that meets the next one's start
    return PosixRule(standard_s, daylight_s, starts, ends)


def _change(part: str, text: str) -> YearlyChange:
    found = _CHANGE.fullmatch(part)
    if not found:
        raise InvalidInput(f"the POSIX TZ string {text!r} has a change {part!r} that is not Jn, n or Mm.w.d")
    time_s = _seconds(found["time"], 167, text) if found["time"] else 7200
    numbers: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    if found["julian"]:
        form, numbers, ranges = "julian", (int(found["julian"]),), ((1, 365),)
    elif found["zero"]:
        form, numbers, ranges = "zero", (int(found["zero"]),), ((0, 365),)
    else:
        form, numbers = "month", (int(found["month"]), int(found["week"]), int(found["weekday"]))
        ranges = ((1, 12), (1, _LAST_WEEK), (0, 6))
    if not all(low <= number <= high for number, (low, high) in zip(numbers, ranges, strict=True)):
        raise InvalidInput(f"the POSIX TZ string {text!r} has a change {part!r} with a number out of range")
    return YearlyChange(form, numbers, time_s)


def _seconds(text: str, most_hours: int, whole: str) -> int:
    hours, minutes, seconds = ([int(part) for part in text.lstrip("+-").split(":")] + [0, 0])[:3]
    if hours > most_hours or minutes > 59 or seconds > 59:
        raise InvalidInput(f"the POSIX TZ string {whole!r} has a time {text!r} out of range")
    total = hours * 3600 + minutes * 60 + seconds
    return -total if text.startswith("-") else total
