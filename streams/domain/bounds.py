"""The stretch in which a schedule's rule counts: from `starts_on`, to `ends_on` or the last label of its `count`."""

from __future__ import annotations

from typing import NamedTuple

from streams.domain.elapsed import next_tick
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.rules import compile_rule
from streams.domain.schedule import Every, Schedule
from streams.domain.search import nth_label

_FOREVER = 1 << 62


class Span(NamedTuple):
    """First and last label that counts, both included; of an elapsed rule, ticks, its dates being UTC dates, and none
    before its anchor.
    """

    first: int
    last: int


def span_of(schedule: Schedule) -> Span:
    """The span. `count` counts the labels that the rule has, whether or not they fire: gaps and exceptions too."""
    first = -_FOREVER if schedule.starts_on is None else schedule.starts_on * MINUTES_PER_DAY
    if isinstance(schedule.rule, Every):
        first = max(first, schedule.rule.anchor)
    last = _FOREVER if schedule.ends_on is None else (schedule.ends_on + 1) * MINUTES_PER_DAY - 1
    if schedule.count is not None and schedule.starts_on is not None:
        counted = _last_counted(schedule, schedule.starts_on, schedule.count)
        last = last if counted is None else min(last, counted)
    return Span(first, last)


def _last_counted(schedule: Schedule, starts_on: int, count: int) -> int | None:
    rule = schedule.rule
    if isinstance(rule, Every):
        return next_tick(rule, starts_on * MINUTES_PER_DAY) + (count - 1) * rule.minutes
    return nth_label(compile_rule(rule), starts_on, count)
