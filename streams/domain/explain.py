"""What became of a label, or of an elapsed rule's tick: a fire, or the one reason why it did not fire.

How the bounds read. `starts_on` and `ends_on` delimit the rule's labels by local date: one earlier is
`before_effective`, one later, or past the last of a `count`, `after_end`. `effective_from` is a tick: a fire that would
lie before it is `before_effective`, and a repeated label's copies after it count as if the earlier ones did not exist.
An elapsed rule has no labels; the dates of its bounds and exceptions are UTC dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streams.domain.bounds import span_of
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.schedule import Schedule
from streams.domain.zones import Firing, Landing


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


def explain(schedule: Schedule, label: int, landing: Landing) -> list[Explained]:
    """Each fire and non-fire of a label that the schedule's rule reaches, ordered by the tick concerned.

    Of several reasons the first of these is given: outside the dates, excepted, skipped or suppressed by policy, before
    `effective_from`, paused. A label outside the dates or excepted is given once per fire it would have had.
    """
    policy = schedule.policy
    nominal_firings = landing.firings(policy)
    off = _off(schedule, label)
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


def explain_tick(schedule: Schedule, tick: int) -> Explained:
    """What becomes of a tick that the schedule's elapsed rule has. Reasons in the order of `explain`."""
    off = _off(schedule, tick)
    if off is None and schedule.effective_from is not None and tick < schedule.effective_from:
        off = Decision.BEFORE_EFFECTIVE
    return Explained(off or (Decision.PAUSED if schedule.paused else Decision.FIRE), tick)


def _off(schedule: Schedule, label: int) -> Decision | None:
    span = span_of(schedule)
    if label < span.first:
        return Decision.BEFORE_EFFECTIVE
    if label > span.last:
        return Decision.AFTER_END
    return Decision.EXCEPTED if label // MINUTES_PER_DAY in schedule.except_dates else None
