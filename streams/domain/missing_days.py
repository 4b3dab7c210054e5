"""Days that a month lacks, of a rule that skips them: `month_skipped`, or why the bounds would have left them out.

Such a day counts at the first tick of the next month. Its nominal label is written as if the month went on:
`2027-02-31T09:00`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from streams.domain.bounds import span_of
from streams.domain.dates import FIRST_DAY, LAST_DAY, months_from
from streams.domain.explain import Decision, Explained
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.schedule import MissingDay, MonthlyDays, Schedule, Yearly
from streams.domain.zones import ZoneTable

_EVERY_MONTH = (2 << 12) - 2


class MissingLabel(NamedTuple):
    """A label of a day that its month lacks. `after` is the first label of the next month."""

    nominal: str
    after: int
    explained: Explained


def missing_labels(schedule: Schedule, table: ZoneTable, from_tick: int, to_tick: int) -> Iterator[MissingLabel]:
    """The labels that the rule lacks in months which end at a tick of `from_tick <= tick < to_tick`, ascending."""
    match schedule.rule:
        case MonthlyDays(days, MissingDay.SKIP, at):
            months = _EVERY_MONTH
        case Yearly(number, day, MissingDay.SKIP, at):
            days, months = (day,), 1 << number
        case _:
            return
    least, most = table.offset_range
    first, last = (from_tick + least) // MINUTES_PER_DAY - 1, (to_tick + most) // MINUTES_PER_DAY
    for month in months_from(max(first, FIRST_DAY)):
        after_day = month.first + month.length
        if after_day > min(last, LAST_DAY):
            return
        lacking = [day for day in days if day > month.length] if months >> month.month & 1 else []
        if not lacking:
            continue
        tick = _first_tick(table, after_day * MINUTES_PER_DAY)
        if from_tick <= tick < to_tick:
            explained = Explained(_decision(schedule, after_day, tick), tick)
            for day in lacking:
                for minute in at:
                    time = f"{minute // 60:02d}:{minute % 60:02d}"
                    nominal = f"{month.year:04d}-{month.month:02d}-{day:02d}T{time}"
                    yield MissingLabel(nominal, after_day * MINUTES_PER_DAY, explained)


def _first_tick(table: ZoneTable, label: int) -> int:
    landing = table.label_landing(label)
    return landing.copies[0] if landing.tau is None else landing.tau


def _decision(schedule: Schedule, after_day: int, tick: int) -> Decision:
    """Of a day after all dates of its month and before `after_day`, the 1st of the next."""
    span, after = span_of(schedule), after_day * MINUTES_PER_DAY
    if span.first >= after or (schedule.effective_from is not None and tick < schedule.effective_from):
        return Decision.BEFORE_EFFECTIVE
    return Decision.AFTER_END if span.last < after else Decision.MONTH_SKIPPED
