"""Records of `occurrences.<region>`: what the joiner emits. Values: the same tick and plans give the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

from streams.domain.schedule import LatePolicy, Mode, OnDelete, Policy, Promise


@dataclass(frozen=True, slots=True)
class TickSource:
    """Which record of `ticks` decided: its partition, offset and watermark of `schedules`."""

    partition: int
    offset: int
    watermark: int


@dataclass(frozen=True, slots=True)
class Fire:
    """One promised run, whole. `nominal` is a label (none for elapsed rules), `instant` a tick, `due_s` epoch seconds.

    `ledger_day` is the local date of the label, or the UTC date of an elapsed rule: the ledger is partitioned by it.
    `deliver_by_s` is epoch seconds, or none where lateness never expires it.
    """

    key: str
    schedule_id: str
    incarnation: int
    revision: int
    promise: Promise
    policy: Policy
    nominal: int | None
    copy: int
    zone: str
    instant: int
    due_s: int
    deliver_by_s: int | None
    late_policy: LatePolicy
    ledger_day: int
    tz_version: str
    source: TickSource
    region: str
    tenant: str
    account: str | None
    provider: str
    to: str
    payload: str
    mode: Mode
    on_delete: OnDelete
    scenario: str | None


@dataclass(frozen=True, slots=True)
class Obligation:
    """A local business date began for a schedule that owes a run on it: makes a `waiting` row under the fire's key."""

    key: str
    schedule_id: str
    incarnation: int
    revision: int
    zone: str
    instant: int
    ledger_day: int
    tz_version: str
    source: TickSource
    region: str
    tenant: str
    account: str | None
    mode: Mode
    on_delete: OnDelete
    scenario: str | None


@dataclass(frozen=True, slots=True)
class Ended:
    """A delete or pause took effect at `instant`: unsent occurrences of earlier instants end as `on_delete` says."""

    schedule_id: str
    incarnation: int
    revision: int
    reason: str  # deleted | paused
    instant: int
    source: TickSource
    region: str
    tenant: str
    scenario: str | None


OccurrenceRecord = Fire | Obligation | Ended
