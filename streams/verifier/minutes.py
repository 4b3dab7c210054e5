"""Minutes, dates and their text forms, the verifier's own.

A *tick* is a UTC minute since 1970-01-01T00:00Z, a *label* a local wall-clock minute since 1970-01-01T00:00, a *day* a
number of days since 1970-01-01. All are plain integers.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

MINUTES_PER_DAY = 1440
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall clock has no zone
_EPOCH_DATE = date(1970, 1, 1)


def label_text(label: int) -> str:
    """`2027-03-14T02:30`"""
    return (_EPOCH + timedelta(minutes=label)).strftime("%Y-%m-%dT%H:%M")


def instant_text(tick: int) -> str:
    """`2027-03-14T07:00:00Z`"""
    return label_text(tick) + ":00Z"


def label_of(text: str) -> int:
    """The label of `YYYY-MM-DDTHH:MM`. Raises ValueError for anything else."""
    return int((datetime.strptime(text, "%Y-%m-%dT%H:%M") - _EPOCH).total_seconds()) // 60  # noqa: DTZ007


def tick_of(text: str) -> int:
    """The tick of `YYYY-MM-DDTHH:MMZ`, with or without `:00` of seconds. Raises ValueError for anything else."""
    form = "%Y-%m-%dT%H:%M:00Z" if text.count(":") > 1 else "%Y-%m-%dT%H:%MZ"
    return int(datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()) // 60


def day_of(value: date) -> int:
    """The day number of a date."""
    return (value - _EPOCH_DATE).days


def weekday_of(day: int) -> int:
    """0 is Monday. 1970-01-01 was a Thursday; zones play no part in it."""
    return (day + 3) % 7


def minute_of_day(text: str) -> int:
    """The minute of the day of `HH:MM`. Raises ValueError for anything else."""
    return label_of("1970-01-01T" + text)
