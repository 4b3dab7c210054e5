"""A plan: the record of `schedules`, and which revision of it counts at a tick.

A plan carries the revision in force and those planned for later, so whatever the log cleaner leaves, a schedule has its
revision in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streams.domain.schedule import Schedule


class RevisionState(StrEnum):
    """What a revision makes of its schedule."""

    ACTIVE = "active"
    PAUSED = "paused"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Revision:
    """One immutable numbered version. `effective_from` is a tick, or none: as soon as the plan counts.

    A deleted revision keeps the last document, for `ended` and the audit.
    """

    number: int
    state: RevisionState
    effective_from: int | None
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Plan:
    """One id's plan. `sequence` rises with every plan of the id, over all its incarnations.

    `revisions` is ascending by number and never empty.
    """

    schedule_id: str
    incarnation: int
    sequence: int
    revisions: tuple[Revision, ...]

    def revision_at(self, tick: int) -> Revision | None:
        """The revision with the greatest `effective_from` at or before `tick`; the higher number wins a tie."""
        best: Revision | None = None
        best_from = -1
        for revision in self.revisions:
            since = revision.effective_from if revision.effective_from is not None else 0
            if since <= tick and (best is None or since >= best_from):
                best, best_from = revision, since
        return best
