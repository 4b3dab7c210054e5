"""A schedule change: what anyone publishes to `schedule-changes`, and why the registrar refuses one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ChangeKind(StrEnum):
    """What is asked for. `PUT` brings a whole document; the others only name the id."""

    PUT = "put"
    DELETE = "delete"
    PAUSE = "pause"
    RESUME = "resume"


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `document` is the schedule document as JSON text (put only), as a person writes it.

    `change_id` names this request for `--wait` and logs. `if_revision`: refuse unless the newest revision has this
    number (0: the id must not exist). `effective_from` is a tick, or none. `on_planned` (`keep` or `replace`) says what
    becomes of revisions already planned.
    """

    change_id: str
    kind: ChangeKind
    schedule_id: str
    document: str | None
    if_revision: int | None
    effective_from: int | None
    on_planned: str | None
    actor: str
