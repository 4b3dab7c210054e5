"""The rules of a schedule document whose dates are days of a month: monthly, yearly, once."""

from __future__ import annotations

from calendar import month_name
from typing import Final

from streams.domain.document_fields import ABSENT, Fields, Path, one_of
from streams.domain.document_times import WEEKDAYS, read_at
from streams.domain.schedule import MissingDay, MonthlyDays, MonthlyWeekday, MonthlyWorkday, Once, Yearly

WORKDAY: Final = "workday"
_DAYS = (range(1, 32), range(-1, -29, -1))
_NTH_WEEKDAYS = (range(1, 6), range(-1, -6, -1))
_NTH_WORKDAYS = (range(1, 21), range(-1, -21, -1))
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FORMS_FIX = "write days: [31], or nth: 2 and weekday: tue"
_DAYS_FIX = "write a list of days, for instance [15, -1]; -1 is the last"
_WEEKDAY_FIX = f"allowed: {one_of((*WEEKDAYS, WORKDAY))}"


def read_monthly(fields: Fields) -> MonthlyDays | MonthlyWeekday | MonthlyWorkday | None:
    """`{kind: monthly, days: [...], missing_day: WORD, at: [...]}`, or with `nth: N, weekday: WORD` for the days;
    the weekday `workday` is any from Monday to Friday.
    """
    by_weekday = [key for key in ("nth", "weekday") if key in fields.raw]
    if by_weekday and "days" in fields.raw:
        key = by_weekday[0]
        fields.refuse(key, fields.raw[key], "days is there as well", _FORMS_FIX)
        return None
    if by_weekday:
        fields.only(("kind", "nth", "weekday", "at"), {})
        return _read_nth(fields)
    fields.only(("kind", "days", "missing_day", "at"), {})
    days, missing_day, at = _read_days(fields), _read_missing_day(fields), read_at(fields)
    return None if days is None or at is None else MonthlyDays(days, missing_day, at)


def _read_nth(fields: Fields) -> MonthlyWeekday | MonthlyWorkday | None:
    weekday = fields.required("weekday", _WEEKDAY_FIX)
    if weekday is not ABSENT and weekday not in (*WEEKDAYS, WORKDAY):
        short = weekday[:3].lower() if isinstance(weekday, str) else ""
        fields.refuse(
            "weekday", weekday, "not a weekday", f"did you mean {short}?" if short in WEEKDAYS else _WEEKDAY_FIX
        )
        weekday = ABSENT
    allowed = _NTH_WORKDAYS if weekday == WORKDAY else _NTH_WEEKDAYS
    raw = fields.required("nth", "write which: 1 is the first, -1 the last")
    nth = None if raw is ABSENT else fields.whole("nth", raw, *allowed)
    at = read_at(fields)
    if nth is None or at is None or not isinstance(weekday, str):
        return None
    return MonthlyWorkday(nth, at) if weekday == WORKDAY else MonthlyWeekday(nth, WEEKDAYS.index(weekday), at)


def _read_days(fields: Fields) -> tuple[int, ...] | None:
    value = fields.required("days", _FORMS_FIX)
    if value is ABSENT:
        return None
    if value == []:
        fields.refuse("days", value, "is empty", _DAYS_FIX)
        return None

    def read(path: Path, raw: object) -> int | None:
        return fields.whole(path, raw, *_DAYS)

    days = fields.distinct("days", value, _DAYS_FIX, read)
    return None if days is None else tuple(sorted(days, key=lambda day: (day < 0, day)))


def _read_missing_day(fields: Fields) -> MissingDay:
    return fields.choice("missing_day", MissingDay.SKIP, {choice.value: choice for choice in MissingDay})


def read_yearly(fields: Fields) -> Yearly | None:
    """`{kind: yearly, month: N, day: N, missing_day: WORD, at: [...]}`"""
    fields.only(("kind", "month", "day", "missing_day", "at"), {})
    month_raw, day_raw = (
        fields.required("month", "write 1 to 12"),
        fields.required("day", "write 1 to 31, or -1: the last"),
    )
    month = None if month_raw is ABSENT else fields.whole("month", month_raw, range(1, 13))
    day = None if day_raw is ABSENT else fields.whole("day", day_raw, *_DAYS)
    missing_day, at = _read_missing_day(fields), read_at(fields)
    if month is None or day is None:
        return None
    longest = _LONGEST[month - 1]
    if day > longest and missing_day is MissingDay.SKIP:
        fix = f"write 1 to {longest}, or missing_day: clamp or next"
        fields.refuse("day", day, f"{month_name[month]} never has it", fix)
        return None
    return None if at is None else Yearly(month, day, missing_day, at)


def read_once(fields: Fields) -> Once | None:
    """`{kind: once, date: DATE, at: [...]}`"""
    fields.only(("kind", "date", "at"), {})
    raw = fields.required("date", "write YYYY-MM-DD")
    day = None if raw is ABSENT else fields.day("date", raw)
    at = read_at(fields)
    return None if day is None or at is None else Once(day, at)
