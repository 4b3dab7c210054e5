"""The rule of a schedule document: reading it, and its canonical JSON text."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Final

from streams.domain.document_fields import ABSENT, Fields, Path, one_of, suggestion, type_name
from streams.domain.errors import InvalidInput, Problem
from streams.domain.schedule import Daily, Rule, Weekly

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_KINDS = ("daily", "weekly")
_LATER_KINDS = ("monthly", "yearly", "once", "every", "cron")
_LATER_WEEKLY = {"every_weeks": "weeks between runs", "anchor": "weeks between runs"}
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_SHORT_TIME = re.compile(r"[0-9]:[0-5][0-9]")
_WITH_SECONDS = re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?")
_AT_FIX = 'write a list of "HH:MM" times, for instance ["09:00"]'
_WEEKDAYS_FIX = f"write a list of {one_of(WEEKDAYS)}"


def read_rule(document: Fields) -> Rule | None:
    """The document's `rule`; none after noting every problem in it."""
    value = document.required("rule", 'write for instance {kind: daily, at: ["09:00"]}')
    if value is ABSENT:
        return None
    fields = document.mapping("rule", value, 'write for instance {kind: daily, at: ["09:00"]}')
    if fields is None:
        return None
    kind = fields.required("kind", f"write {one_of(_KINDS)}")
    if kind == "daily":
        fields.only(("kind", "at"), {})
        at = _read_at(fields)
        return None if at is None else Daily(at)
    if kind == "weekly":
        fields.only(("kind", "weekdays", "at"), _LATER_WEEKLY)
        weekdays, at = _read_weekdays(fields), _read_at(fields)
        return None if at is None or weekdays is None else Weekly(weekdays, at)
    _refuse_kind(fields, kind)
    return None


def _refuse_kind(fields: Fields, kind: object) -> None:
    if kind is ABSENT:
        return
    if kind in _LATER_KINDS:
        fields.refuse("kind", kind, f"not in this version (rules of kind {kind})", f"use {one_of(_KINDS)}")
    elif isinstance(kind, str):
        fields.refuse("kind", kind, "there is no such kind of rule", suggestion(kind, _KINDS))
    else:
        fields.refuse("kind", kind, f"must be text, not {type_name(kind)}", f"allowed: {one_of(_KINDS)}")


def _read_at(fields: Fields) -> tuple[int, ...] | None:
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


def rule_document(rule: Rule) -> dict[str, object]:
    """The rule as a document writes it, every field there."""
    at = [format_minute(minute) for minute in rule.at]
    if isinstance(rule, Weekly):
        return {"kind": "weekly", "weekdays": [WEEKDAYS[weekday] for weekday in rule.weekdays], "at": at}
    return {"kind": "daily", "at": at}


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
