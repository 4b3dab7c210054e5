"""What a schedule promises in a window: every occurrence, and every non-fire with its reason.

Computed by the inverse function, from labels to ticks; the index and the segment table have no part in it, so it can
stand as their check. Nothing is stored or read: a pure function of schedules and one tzdata version.

How the bounds read. `starts_on` and `ends_on` delimit the rule's labels by local date: one earlier is
`before_effective`, one later `after_end`. `effective_from` is a tick: a fire that would lie before it is
`before_effective`, and a repeated label's copies after it count as if the earlier ones did not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from streams.domain.bundle import ZoneBundle
from streams.domain.errors import InvalidInput
from streams.domain.keys import label_key
from streams.domain.minutes import MINUTES_PER_DAY, format_label, format_tick
from streams.domain.rules import compile_rule, minutes_of_day
from streams.domain.schedule import Policy, Promise, Schedule
from streams.domain.zones import Firing, Landing, ZoneTable


class Decision(StrEnum):
    """What became of a promised label: `fire`, or the one reason why it did not."""

    FIRE = "fire"
    GAP_SKIPPED = "gap_skipped"
    OVERLAP_SUPPRESSED = "overlap_suppressed"
    DATE_SKIPPED = "date_skipped"
    MONTH_SKIPPED = "month_skipped"
    EXCEPTED = "excepted"
    PAUSED = "paused"
    BEFORE_EFFECTIVE = "before_effective"
    AFTER_END = "after_end"


@dataclass(frozen=True, slots=True)
class Explained:
    """One fire or non-fire of a label. `concerned` is the tick it counts at: the fire's own, the suppressed copy's, a
    skipped gap label's tau, or, for a label that is off for another reason, where it would have fired.
    """

    decision: Decision
    concerned: int
    copy: int = 0


@dataclass(frozen=True, slots=True)
class Preview:
    """One line of a preview. `label` is the nominal one; `instant` and `due` are ticks, None unless it fires."""

    schedule_id: str
    key: str
    label: int
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
            "nominal": format_label(self.label),
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
    found = []
    known: dict[str, dict[int, Landing]] = {}  # schedules of one zone share most of their labels
    for schedule in schedules:
        _refuse_later_kinds(schedule)
        table = bundle.table(schedule.zone)
        landings = known.setdefault(schedule.zone, {})
        for label in _labels(schedule, table, from_tick, to_tick):
            landing = landings.get(label) or landings.setdefault(label, table.label_landing(label))
            for explained in explain(schedule, label, landing):
                if from_tick <= explained.concerned < to_tick:
                    found.append((explained.copy, _line(schedule, label, explained, bundle.version)))
    found.sort(key=lambda each: (each[1].concerned, each[1].schedule_id, each[1].label, each[0]))
    return [line for _, line in found]


def explain(schedule: Schedule, label: int, landing: Landing) -> list[Explained]:
    """Each fire and non-fire of a label that the schedule's rule reaches, ordered by the tick concerned.

    Of several reasons the first of these is given: outside the dates, excepted, skipped or suppressed by policy, before
    `effective_from`, paused. A label outside the dates or excepted is given once per fire it would have had.
    """
    policy = schedule.policy
    nominal_firings = landing.firings(policy)
    off = _off(schedule, label // MINUTES_PER_DAY)
    if landing.tau is not None and not nominal_firings:
        early = schedule.effective_from is not None and landing.tau < schedule.effective_from
        return [Explained(off or (Decision.BEFORE_EFFECTIVE if early else Decision.GAP_SKIPPED), landing.tau)]
    if off is not None:
        return [Explained(off, firing.tick, firing.copy) for firing in nominal_firings]
    return _on(schedule, landing, nominal_firings)


def _on(schedule: Schedule, landing: Landing, nominal_firings: tuple[Firing, ...]) -> list[Explained]:
    """A label that its schedule does promise: what fires, what came too early, and the copies passed over."""
    firings = landing.firings(schedule.policy, schedule.effective_from)
    decision = Decision.PAUSED if schedule.paused else Decision.FIRE
    found = {firing.tick: Explained(decision, firing.tick, firing.copy) for firing in firings}
    for tick, copy in nominal_firings:
        if schedule.effective_from is not None and tick < schedule.effective_from:
            found[tick] = Explained(Decision.BEFORE_EFFECTIVE, tick, copy)
    for tick in landing.copies:
        if tick not in found:
            found[tick] = Explained(Decision.OVERLAP_SUPPRESSED, tick)
    return [found[tick] for tick in sorted(found)]


def _off(schedule: Schedule, day: int) -> Decision | None:
    if schedule.starts_on is not None and day < schedule.starts_on:
        return Decision.BEFORE_EFFECTIVE
    if schedule.ends_on is not None and day > schedule.ends_on:
        return Decision.AFTER_END
    return Decision.EXCEPTED if day in schedule.except_dates else None


def _labels(schedule: Schedule, table: ZoneTable, from_tick: int, to_tick: int) -> Iterator[int]:
    """The rule's labels that can concern a tick of the window: those within the zone's offsets of it."""
    compiled = compile_rule(schedule.rule)
    least, most = table.offset_range
    first, last = from_tick + least, to_tick + most
    for day in range(first // MINUTES_PER_DAY, last // MINUTES_PER_DAY + 1):
        if compiled.predicate.matches(day):
            for minute in minutes_of_day(compiled.minutes):
                label = day * MINUTES_PER_DAY + minute
                if first <= label < last:
                    yield label


def _line(schedule: Schedule, label: int, explained: Explained, tz_version: str) -> Preview:
    fires = explained.decision is Decision.FIRE
    return Preview(
        schedule_id=schedule.id,
        key=label_key(schedule.id, label, explained.copy),
        label=label,
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
