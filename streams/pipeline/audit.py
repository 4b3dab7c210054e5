"""The audit: all that is known of one occurrence, or why a label did not fire. Pure but for what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from streams.domain.bundle import ZoneBundle
from streams.domain.explain import Decision, Explained, explain
from streams.domain.minutes import MINUTES_PER_DAY, format_label
from streams.domain.plan import Revision, RevisionState
from streams.domain.rules import compile_rule
from streams.domain.schedule import Every


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt; no outcome while it is in flight."""

    n: int
    at: datetime
    outcome: str | None
    code: int | None


@dataclass(frozen=True, slots=True)
class Audited:
    """One row of the ledger with everything around it."""

    key: str
    schedule_id: str
    incarnation: int
    revision: int
    promise: str
    gap: str
    overlap: str
    nominal: str | None
    zone: str
    instant: datetime
    due: datetime
    tz_version: str
    tick: tuple[int, int, int]  # partition, offset, watermark
    region: str
    provider: str
    state: str
    attempts: int
    in_doubt_since: datetime | None
    source: tuple[str, int, int]  # topic, partition, offset
    tries: tuple[Try, ...]
    duplicates: int
    reason: str | None

    def as_json(self) -> dict[str, object]:
        """The object of contracts.md, its fields in that order."""
        return {
            "key": self.key,
            "schedule_id": self.schedule_id,
            "incarnation": self.incarnation,
            "revision": self.revision,
            "promise": self.promise,
            "policy": {"gap": self.gap, "overlap": self.overlap},
            "nominal": self.nominal,
            "zone": self.zone,
            "instant": whole_second(self.instant),
            "due": whole_second(self.due),
            "tz_version": self.tz_version,
            "tick": dict(zip(("partition", "offset", "watermark"), self.tick, strict=True)),
            "region": self.region,
            "provider": self.provider,
            "provider_idempotency_key": self.key,
            "state": self.state,
            "attempts": self.attempts,
            "in_doubt_since": None if self.in_doubt_since is None else millisecond(self.in_doubt_since),
            "source": dict(zip(("topic", "partition", "offset"), self.source, strict=True)),
            "tries": [
                {"n": each.n, "at": millisecond(each.at), "outcome": each.outcome, "code": each.code}
                for each in self.tries
            ],
            "duplicates_suppressed": self.duplicates,
        }


@dataclass(frozen=True, slots=True)
class KnownRevision:
    """A revision, and the first tick that could count the plan it came with."""

    incarnation: int
    revision: Revision
    counts_from: int


@dataclass(frozen=True, slots=True)
class NotInLedger:
    """A label without a row. `decision` says why it did not fire; `state` is `not_fired`, `never_due` (the rule has no
    such label) or `not_recorded` (it is promised, and the ledger does not have it, or not yet).
    """

    schedule_id: str
    nominal: str
    state: str
    decision: str | None
    revision: int
    zone: str
    tz_version: str

    def as_json(self) -> dict[str, object]:
        """The object of contracts.md; without `decision` where there is none."""
        decision = {} if self.decision is None else {"decision": self.decision}
        return {
            "schedule_id": self.schedule_id,
            "nominal": self.nominal,
            "state": self.state,
            **decision,
            "revision": self.revision,
            "zone": self.zone,
            "tz_version": self.tz_version,
        }


def explain_label(revisions: Sequence[KnownRevision], label: int, bundle: ZoneBundle) -> NotInLedger:
    """Why a label has no row, by the revision in force at the tick it concerns. `revisions` in order, not empty."""
    found: tuple[KnownRevision, Decision] | None = None
    asked = revisions[-1]
    for known in revisions:
        schedule = known.revision.schedule
        landing = bundle.table(schedule.zone).label_landing(label)
        tick = landing.copies[0] if landing.copies else landing.tau
        if tick is not None and in_force(revisions, tick) is known:
            asked = known
        if not _rule_has(known.revision, label):
            continue
        for explained in explain(schedule, label, landing):
            judged = _judge(revisions, known, explained)
            if judged is not None and (found is None or judged is Decision.FIRE):
                found = known, judged
    known, decision = found or (asked, None)
    state = "never_due" if decision is None else "not_recorded" if decision is Decision.FIRE else "not_fired"
    told = None if decision in (None, Decision.FIRE) else decision
    schedule = known.revision.schedule
    return NotInLedger(
        schedule.id,
        format_label(label),
        state,
        None if told is None else told.value,
        known.revision.number,
        schedule.zone,
        bundle.version,
    )


def in_force(revisions: Sequence[KnownRevision], tick: int) -> KnownRevision | None:
    """The last revision that counts at a tick."""
    best = None
    for known in revisions:
        since = known.revision.effective_from
        if known.counts_from <= tick and (since is None or since <= tick):
            best = known
    return best


def _judge(revisions: Sequence[KnownRevision], known: KnownRevision, explained: Explained) -> Decision | None:
    """What `explained` comes to if `known` is in force at the tick concerned; none where another revision is."""
    there = in_force(revisions, explained.concerned)
    if there is None:
        return Decision.BEFORE_EFFECTIVE if known is revisions[0] else None
    if there is not known:
        return None
    if known.revision.state is RevisionState.DELETED:
        return Decision.AFTER_END
    return explained.decision


def _rule_has(revision: Revision, label: int) -> bool:
    rule = revision.schedule.rule
    if isinstance(rule, Every):
        return False  # it has ticks, and no labels
    return compile_rule(rule).reaches(*divmod(label, MINUTES_PER_DAY))


def whole_second(at: datetime) -> str:
    """`2027-03-13T07:30:00Z`"""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def millisecond(at: datetime) -> str:
    """`2027-03-13T07:30:00.125Z`"""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
