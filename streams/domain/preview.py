"""What a schedule promises in a window: every occurrence, and every non-fire with its reason.

Computed by the inverse function, from labels to ticks; the index and the segment table have no part in it, so it can
stand as their check. Nothing is stored or read: a pure function of schedules and one tzdata version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from streams.domain.bundle import ZoneBundle
from streams.domain.elapsed import ticks_between
from streams.domain.errors import InvalidInput
from streams.domain.explain import Decision, Explained, explain, explain_tick
from streams.domain.keys import elapsed_key, label_key, nominal_key
from streams.domain.minutes import MINUTES_PER_DAY, format_label, format_tick
from streams.domain.missing_days import missing_labels
from streams.domain.rules import compile_rule, minutes_of_day
from streams.domain.schedule import CalendarRule, Every, Policy, Promise, Schedule
from streams.domain.zones import Landing, ZoneTable

__all__ = ["Decision", "Preview", "preview"]


@dataclass(frozen=True, slots=True)
class Preview:
    """One line of a preview. `nominal` is the label's text, None for an elapsed rule; `instant` and `due` are ticks,
    None unless it fires.
    """

    schedule_id: str
    key: str
    nominal: str | None
    zone: str
    concerned: int
    instant: int | None
    due: int | None
    decision: Decision
    policy: Policy
    tz_version: str

    def as_json(self) -> dict[str, object]:
        """The object `townclock preview --json` prints, in the order of its fields."""
        return {
            "schedule_id": self.schedule_id,
            "key": self.key,
            "nominal": self.nominal,
            "zone": self.zone,
            "instant": None if self.instant is None else format_tick(self.instant),
            "due": None if self.due is None else format_tick(self.due),
            "decision": self.decision.value,
            "policy": {"gap": self.policy.gap.value, "overlap": self.policy.overlap.value},
            "tz_version": self.tz_version,
        }


def preview(schedules: Iterable[Schedule], bundle: ZoneBundle, from_tick: int, to_tick: int) -> list[Preview]:
    """Everything that counts at a tick of `from_tick <= tick < to_tick`, ordered by that tick, then schedule id, label
    and copy. Raises InvalidInput for a zone the bundle lacks and for what a preview can't evaluate.
    """
    found: list[_Found] = []
    known: dict[str, dict[int, Landing]] = {}  # schedules of one zone share most of their labels
    for schedule in schedules:
        _refuse_later_kinds(schedule)
        table = bundle.table(schedule.zone)
        landings = known.setdefault(schedule.zone, {})
        for order, key, nominal, explained in _of_one(schedule, table, landings, from_tick, to_tick):
            line = _line(schedule, key, nominal, explained, bundle.version)
            found.append((line.concerned, schedule.id, order, explained.copy, line))
    found.sort(key=lambda each: each[:4])
    return [line for *_, line in found]


_Found = tuple[int, str, int, int, Preview]


def _of_one(
    schedule: Schedule, table: ZoneTable, landings: dict[int, Landing], from_tick: int, to_tick: int
) -> Iterator[tuple[int, str, str | None, Explained]]:
    """Label to sort by, key, nominal text and explanation of all that counts in the window."""
    rule = schedule.rule
    if isinstance(rule, Every):
        for tick in ticks_between(rule, from_tick, to_tick - 1):
            yield 0, elapsed_key(schedule.id, tick), None, explain_tick(schedule, tick)
        return
    for label in _labels(rule, table, from_tick, to_tick):
        landing = landings.get(label) or landings.setdefault(label, table.label_landing(label))
        for explained in explain(schedule, label, landing):
            if from_tick <= explained.concerned < to_tick:
                yield label, label_key(schedule.id, label, explained.copy), format_label(label), explained
    for missing in missing_labels(schedule, table, from_tick, to_tick):
        yield missing.after - 1, nominal_key(schedule.id, missing.nominal), missing.nominal, missing.explained


def _labels(rule: CalendarRule, table: ZoneTable, from_tick: int, to_tick: int) -> Iterator[int]:
    """The rule's labels that can concern a tick of the window: those within the zone's offsets of it."""
    compiled = compile_rule(rule)
    least, most = table.offset_range
    first, last = from_tick + least, to_tick + most
    for day in range(first // MINUTES_PER_DAY, last // MINUTES_PER_DAY + 1):
        if compiled.predicate.matches(day):
            for minute in minutes_of_day(compiled.minutes):
                label = day * MINUTES_PER_DAY + minute
                if first <= label < last:
                    yield label


def _line(schedule: Schedule, key: str, nominal: str | None, explained: Explained, tz_version: str) -> Preview:
    fires = explained.decision is Decision.FIRE
    return Preview(
        schedule_id=schedule.id,
        key=key,
        nominal=nominal,
        zone=schedule.zone,
        concerned=explained.concerned,
        instant=explained.concerned if fires else None,
        due=explained.concerned if fires else None,
        decision=explained.decision,
        policy=schedule.policy,
        tz_version=tz_version,
    )


def _refuse_later_kinds(schedule: Schedule) -> None:
    """What validation refuses is refused here as well, so that a preview never shows a promise it did not evaluate."""
    if schedule.promise is not Promise.LABEL:
        raise InvalidInput(f"schedule {schedule.id}: a preview of promise {schedule.promise} is not possible yet")
    if schedule.spread_s:
        raise InvalidInput(f"schedule {schedule.id}: a preview of a spread is not possible yet; leave it at 0s")
