"""The fires of one schedule from a tick on, in order, without looking at every minute between.

By the inverse function, as the preview. A search ends with the rule's last label, or with the end of year 9999.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from streams.domain.bounds import Span, span_of
from streams.domain.dates import FIRST_DAY, LAST_DAY
from streams.domain.elapsed import ticks_between
from streams.domain.explain import Decision, explain, explain_tick
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.rules import compile_rule
from streams.domain.schedule import CalendarRule, Every, Schedule
from streams.domain.search import next_label
from streams.domain.zones import ZoneTable

_LAST_MINUTE = LAST_DAY * MINUTES_PER_DAY + MINUTES_PER_DAY - 1


class Fires(NamedTuple):
    """One fire: its tick, its label (none for an elapsed rule), and which copy of the label (see `Firing`)."""

    tick: int
    label: int | None
    copy: int


def upcoming(schedule: Schedule, table: ZoneTable, tick: int) -> Iterator[Fires]:
    """The schedule's fires at `tick` and after it, ascending by tick, then label and copy; none while it is paused.

    Take as many as needed: a rule without an end has thousands of years of them.
    """
    if schedule.paused:
        return
    rule, span = schedule.rule, span_of(schedule)
    if schedule.effective_from is not None:
        tick = max(tick, schedule.effective_from)
    if isinstance(rule, Every):
        for at in ticks_between(rule, max(tick, span.first), min(span.last, _LAST_MINUTE)):
            if explain_tick(schedule, at).decision is Decision.FIRE:
                yield Fires(at, None, 0)
        return
    least, most = table.offset_range
    waiting: list[Fires] = []
    for label in _labels(rule, span, tick + least):
        while waiting and waiting[0].tick < label - most:  # no label from here on fires that early
            yield heappop(waiting)
        for found in explain(schedule, label, table.label_landing(label)):
            if found.decision is Decision.FIRE and found.concerned >= tick:
                heappush(waiting, Fires(found.concerned, label, found.copy))
    while waiting:
        yield heappop(waiting)


def _labels(rule: CalendarRule, span: Span, label: int) -> Iterator[int]:
    compiled = compile_rule(rule)
    following = next_label(compiled, max(label, span.first, FIRST_DAY * MINUTES_PER_DAY))
    while following is not None and following <= span.last:
        yield following
        following = next_label(compiled, following + 1) if following < _LAST_MINUTE else None
