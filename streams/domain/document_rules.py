"""The rule of a schedule document: reading it, and its canonical JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache

from streams.domain.document_cron import read_cron, read_every
from streams.domain.document_fields import ABSENT, Fields, one_of, suggestion, type_name
from streams.domain.document_months import WORKDAY, read_monthly, read_once, read_yearly
from streams.domain.document_times import WEEKDAYS, format_minute, read_daily, read_weekly
from streams.domain.errors import InvalidInput, Problem
from streams.domain.minutes import format_day, format_label
from streams.domain.schedule import (
    Cron,
    Daily,
    Every,
    MonthlyDays,
    MonthlyWeekday,
    MonthlyWorkday,
    Once,
    Rule,
    Weekly,
    Yearly,
)

_RULE_FIX = 'write for instance {kind: daily, at: ["09:00"]}'
_READERS: dict[str, Callable[[Fields], Rule | None]] = {
    "daily": read_daily,
    "weekly": read_weekly,
    "monthly": read_monthly,
    "yearly": read_yearly,
    "once": read_once,
    "every": read_every,
    "cron": read_cron,
}


def read_rule(document: Fields) -> Rule | None:
    """The document's `rule`; none after noting every problem in it."""
    value = document.required("rule", _RULE_FIX)
    if value is ABSENT:
        return None
    fields = document.mapping("rule", value, _RULE_FIX)
    if fields is None:
        return None
    kind = fields.required("kind", f"write {one_of(_READERS)}")
    if isinstance(kind, str) and kind in _READERS:
        return _READERS[kind](fields)
    if isinstance(kind, str):
        fields.refuse("kind", kind, "there is no such kind of rule", suggestion(kind, _READERS))
    elif kind is not ABSENT:
        fields.refuse("kind", kind, f"must be text, not {type_name(kind)}", f"allowed: {one_of(_READERS)}")
    return None


def rule_document(rule: Rule) -> dict[str, object]:
    """The rule as a document writes it, every field there but an absent anchor."""
    if isinstance(rule, Cron):
        return {"kind": "cron", "expression": rule.expression}
    if isinstance(rule, Every):
        return {"kind": "every", "minutes": rule.minutes, "anchor": f"{format_label(rule.anchor)}Z"}
    return {**_dates_document(rule), "at": [format_minute(minute) for minute in rule.at]}


def _dates_document(
    rule: Daily | Weekly | MonthlyDays | MonthlyWeekday | MonthlyWorkday | Yearly | Once,
) -> dict[str, object]:
    match rule:
        case Daily():
            return {"kind": "daily"}
        case Weekly(weekdays, _, every_weeks, anchor):
            weekly: dict[str, object] = {"kind": "weekly", "weekdays": [WEEKDAYS[weekday] for weekday in weekdays]}
            return weekly if anchor is None else {**weekly, "every_weeks": every_weeks, "anchor": format_day(anchor)}
        case MonthlyDays(days, missing_day, _):
            return {"kind": "monthly", "days": list(days), "missing_day": missing_day.value}
        case MonthlyWeekday(nth, weekday, _):
            return {"kind": "monthly", "nth": nth, "weekday": WEEKDAYS[weekday]}
        case MonthlyWorkday(nth, _):
            return {"kind": "monthly", "nth": nth, "weekday": WORKDAY}
        case Yearly(month, day, missing_day, _):
            return {"kind": "yearly", "month": month, "day": day, "missing_day": missing_day.value}
        case Once(day, _):
            return {"kind": "once", "date": format_day(day)}


@lru_cache(maxsize=65536)
def rule_json(rule: Rule) -> str:
    """The rule's one text form: compact JSON, keys sorted; equal rules give equal text."""
    return json.dumps(rule_document(rule), sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=65536)
def rule_from_json(text: str) -> Rule:
    """The rule of `rule_json`'s text; equal texts give the same object. Raises InvalidInput for what it can't be."""
    try:
        raw: object = json.loads(text)
    except ValueError:
        raw = None
    problems: list[Problem] = []
    rule = read_rule(Fields({"rule": raw}, (), problems))
    if rule is None or problems:
        raise InvalidInput(f"not a rule this version knows: {text}")
    return rule
