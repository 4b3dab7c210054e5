"""Times of day and weekdays in the rule of a schedule document, and the rules that need no more: daily and weekly."""

from __future__ import annotations

import json
import re
from typing import Final

from streams.domain.document_fields import ABSENT, Fields, Path, one_of
from streams.domain.schedule import Daily, Weekly

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MOST_WEEKS = 520
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_SHORT_TIME = re.compile(r"[0-9]:[0-5][0-9]")
_WITH_SECONDS = re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?")
_AT_FIX = 'write a list of "HH:MM" times, for instance ["09:00"]'
_WEEKDAYS_FIX = f"write a list of {one_of(WEEKDAYS)}"
_ANCHOR_FIX = "write a date in a week that it runs in, for instance 2027-01-04"


def read_daily(fields: Fields) -> Daily | None:
    """`{kind: daily, at: [...]}`"""
    fields.only(("kind", "at"), {})
    at = read_at(fields)
    return None if at is None else Daily(at)


def read_weekly(fields: Fields) -> Weekly | None:
    """`{kind: weekly, weekdays: [...], every_weeks: N, anchor: DATE, at: [...]}`"""
    fields.only(("kind", "weekdays", "every_weeks", "anchor", "at"), {})
    weekdays, at = _read_weekdays(fields), read_at(fields)
    every_weeks = fields.whole("every_weeks", fields.raw.get("every_weeks", 1), range(1, _MOST_WEEKS + 1))
    anchor = fields.optional_day("anchor")
    if every_weeks is not None and every_weeks > 1 and fields.raw.get("anchor") is None:
        fields.required("anchor", _ANCHOR_FIX)
        return None
    return None if at is None or weekdays is None or every_weeks is None else Weekly(weekdays, at, every_weeks, anchor)


def read_at(fields: Fields) -> tuple[int, ...] | None:
    value = fields.required("at", _AT_FIX)
    if value is ABSENT:
        return None
    if value == []:
        fields.refuse("at", value, "is empty", _AT_FIX)
        return None

    def read(path: Path, raw: object) -> int | None:
        found = _TIME.fullmatch(raw) if isinstance(raw, str) else None
        if found:
            return int(found[1]) * 60 + int(found[2])
        _refuse_time(fields, path, raw)
        return None

    minutes = fields.distinct("at", value, _AT_FIX, read)
    if minutes is not None and minutes != sorted(minutes):
        ascending = json.dumps([format_minute(minute) for minute in sorted(minutes)])
        fields.refuse("at", value, "not in ascending order", f"write {ascending}")
        return None
    return None if minutes is None else tuple(minutes)


def _refuse_time(fields: Fields, path: Path, raw: object) -> None:
    if isinstance(raw, str) and _WITH_SECONDS.fullmatch(raw):
        fields.refuse(path, raw, "finer than a minute", "rules are kept to the minute: write HH:MM")
    elif isinstance(raw, str) and _SHORT_TIME.fullmatch(raw):
        fields.refuse(path, raw, "not a time of day", f'write "0{raw}"')
    else:
        fields.refuse(path, raw, "not a time of day", 'write "HH:MM", from "00:00" to "23:59"')


def _read_weekdays(fields: Fields) -> tuple[int, ...] | None:
    value = fields.required("weekdays", _WEEKDAYS_FIX)
    if value is ABSENT:
        return None
    if value == []:
        fields.refuse("weekdays", value, "is empty", _WEEKDAYS_FIX)
        return None

    def read(path: Path, raw: object) -> int | None:
        if isinstance(raw, str) and raw in WEEKDAYS:
            return WEEKDAYS.index(raw)
        short = raw[:3].casefold() if isinstance(raw, str) else ""
        fix = f"did you mean {short}?" if short in WEEKDAYS else f"allowed: {one_of(WEEKDAYS)}"
        fields.refuse(path, raw, "not a weekday", fix)
        return None

    weekdays = fields.distinct("weekdays", value, _WEEKDAYS_FIX, read)
    return None if weekdays is None else tuple(sorted(weekdays))


def format_minute(minute: int) -> str:
    """`02:30` of a minute of the day."""
    return f"{minute // 60:02d}:{minute % 60:02d}"
