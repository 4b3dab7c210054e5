"""What is allowed and still looks like a mistake: told to whoever writes the document, never a reason to refuse it."""

from __future__ import annotations

from dataclasses import replace

from streams.domain.errors import Problem
from streams.domain.minutes import MINUTES_PER_DAY, format_day
from streams.domain.schedule import Once, Schedule
from streams.domain.upcoming import upcoming
from streams.domain.zones import ZoneTable


def warnings_of(schedule: Schedule, table: ZoneTable, now_tick: int) -> list[Problem]:
    """Warnings about a schedule of a zone, in the form of problems. Whether it is paused makes no difference.

    So far one: nothing of it is left to run at `now_tick` or after, be it over, cut off or in a gap.
    """
    rule = schedule.rule
    ends = isinstance(rule, Once) or schedule.ends_on is not None or schedule.count is not None
    if not ends or _has_more(schedule, table, now_tick):
        return []
    if isinstance(rule, Once):
        last = max(rule.at) + rule.day * MINUTES_PER_DAY
        if _tick_near(table, last) < now_tick:
            fix = "write a later date, or leave the schedule out"
            return [Problem(("rule", "date"), format_day(rule.day), "is past, so nothing will run", fix)]
        what = "nothing will run: the clock jumps over it, or a bound or exception leaves it out"
        return [Problem(("rule", "date"), format_day(rule.day), what, "write another date, or gap: next_valid")]
    if schedule.count is not None:
        what = "its labels are past, so nothing will run"
        return [Problem(("count",), schedule.count, what, "write a greater count or a later starts_on")]
    ends_on = "" if schedule.ends_on is None else format_day(schedule.ends_on)
    return [Problem(("ends_on",), ends_on, "nothing is left to run until then", "write a later date, or leave it out")]


def _has_more(schedule: Schedule, table: ZoneTable, now_tick: int) -> bool:
    return next(upcoming(replace(schedule, paused=False), table, now_tick), None) is not None


def _tick_near(table: ZoneTable, label: int) -> int:
    """The last tick that shows a label, or the first past the jump over it."""
    landing = table.label_landing(label)
    return landing.copies[-1] if landing.tau is None else landing.tau
