"""The rules of a schedule document without times of day: cron expressions, and elapsed time."""

from __future__ import annotations

from streams.domain.cron import CRON_FIX, MAX_EXPRESSION_CHARS, CronError, parse_cron
from streams.domain.document_fields import ABSENT, Fields
from streams.domain.rules import compile_rule
from streams.domain.schedule import Cron, Every
from streams.domain.search import ever_matches

_MOST_MINUTES = 366 * 24 * 60
_INTERVAL_FIX = "write minutes: 90, or hours: 6"
_ANCHOR_FIX = "write the UTC minute of the first run, for instance 2027-01-01T00:00Z"


def read_cron(fields: Fields) -> Cron | None:
    """`{kind: cron, expression: TEXT}`; the text is kept but for its blanks. One that no date meets is refused."""
    fields.only(("kind", "expression"), {})
    value = fields.required("expression", CRON_FIX)
    if value is ABSENT:
        return None
    if isinstance(value, str) and not value.strip():
        fields.refuse("expression", value, "is empty", CRON_FIX)
        return None
    text = fields.text("expression", " ".join(value.split()) if isinstance(value, str) else value, MAX_EXPRESSION_CHARS)
    if text is None:
        return None
    try:
        parse_cron(text)
    except CronError as error:
        for fault in error.faults:
            fields.refuse("expression", value, fault.problem, fault.fix)
        return None
    rule = Cron(text)
    if not ever_matches(compile_rule(rule).predicate):
        fields.refuse("expression", value, "no date ever satisfies it", "write a day that the months have")
        return None
    return rule


def read_every(fields: Fields) -> Every | None:
    """`{kind: every, minutes: N, anchor: UTC MINUTE}`, or `hours` for `minutes`."""
    finer = [key for key in ("seconds",) if key in fields.raw]
    fields.only(("kind", "minutes", "hours", "anchor", *finer), {})
    minutes = _read_interval(fields)
    raw = fields.required("anchor", _ANCHOR_FIX)
    anchor = None if raw is ABSENT else fields.utc_minute("anchor", raw)
    return None if minutes is None or anchor is None else Every(minutes, anchor)


def _read_interval(fields: Fields) -> int | None:
    if "seconds" in fields.raw:
        fields.refuse("seconds", fields.raw["seconds"], "finer than a minute", _INTERVAL_FIX)
        return None
    if "hours" not in fields.raw:
        raw = fields.required("minutes", _INTERVAL_FIX)
        return None if raw is ABSENT else fields.whole("minutes", raw, range(1, _MOST_MINUTES + 1))
    if "minutes" in fields.raw:
        fields.refuse("hours", fields.raw["hours"], "minutes is there as well", _INTERVAL_FIX)
        return None
    hours = fields.whole("hours", fields.raw["hours"], range(1, _MOST_MINUTES // 60 + 1))
    return None if hours is None else hours * 60
