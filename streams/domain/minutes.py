"""The two number lines of the calendar, and their text forms.

A *tick* is a UTC minute: minutes since 1970-01-01T00:00Z. A *label* is a local wall-clock minute: minutes since
1970-01-01T00:00 as a wall clock shows it, with no zone. A *date* is a number of days since 1970-01-01. All are plain
integers; the names `tick`, `label` and `day` say which line a number is on.
"""

from __future__ import annotations

import re
from datetime import date

MINUTES_PER_DAY = 1440
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_UTC = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d))?(?:Z|\+00:00)", re.ASCII)
_LABEL = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)


def day_of(year: int, month: int, day: int) -> int:
    """The day number of a Gregorian date. Raises ValueError for one that does not exist."""
    return date(year, month, day).toordinal() - _EPOCH_ORDINAL


def date_of_day(day: int) -> date:
    """The Gregorian date of a day number."""
    return date.fromordinal(day + _EPOCH_ORDINAL)


def format_day(day: int) -> str:
    """`2027-03-14`"""
    return date_of_day(day).isoformat()


def parse_day(text: str) -> int:
    """The day number of `YYYY-MM-DD`. Raises ValueError for anything else."""
    found = _DATE.fullmatch(text)
    if not found:
        raise ValueError("a date is written YYYY-MM-DD")
    return day_of(int(found[1]), int(found[2]), int(found[3]))


def format_label(label: int) -> str:
    """`2027-03-14T02:30`, the nominal form of a label."""
    day, minute = divmod(label, MINUTES_PER_DAY)
    return f"{format_day(day)}T{minute // 60:02d}:{minute % 60:02d}"


def parse_label(text: str) -> int:
    """The label of `YYYY-MM-DDTHH:MM`. Raises ValueError for anything else."""
    found = _LABEL.fullmatch(text)
    if not found or int(found[4]) > 23 or int(found[5]) > 59:
        raise ValueError("a local minute is written YYYY-MM-DDTHH:MM")
    return day_of(int(found[1]), int(found[2]), int(found[3])) * MINUTES_PER_DAY + int(found[4]) * 60 + int(found[5])


def format_tick(tick: int) -> str:
    """`2027-03-14T07:00:00Z`, the form of every instant."""
    return f"{format_label(tick)}:00Z"


def parse_tick(text: str) -> int:
    """The tick of `YYYY-MM-DDTHH:MMZ` or `YYYY-MM-DDTHH:MM:00Z`. Raises ValueError for anything else."""
    found = _UTC.fullmatch(text)
    if not found or int(found[4]) > 23 or int(found[5]) > 59 or found[6] not in (None, "00"):
        raise ValueError("a UTC minute is written YYYY-MM-DDTHH:MMZ")
    return day_of(int(found[1]), int(found[2]), int(found[3])) * MINUTES_PER_DAY + int(found[4]) * 60 + int(found[5])
