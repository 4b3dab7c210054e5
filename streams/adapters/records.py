"""How each domain value maps to its Avro record: one writer and one reader a schema, in the order of the schema."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from streams.domain import change, occurrence, plan, tick
from streams.domain.document import rule_from_json, rule_json
from streams.domain.minutes import date_of_day, day_of
from streams.domain.registry import Rejection
from streams.domain.schedule import Delivery, Gap, LatePolicy, Mode, OnDelete, Overlap, Policy, Promise, Schedule
from streams.domain.tzdata import TzActivation, TzBundle

Value = (
    change.Change
    | plan.Plan
    | Rejection
    | tick.Tick
    | occurrence.Fire
    | occurrence.Obligation
    | occurrence.Ended
    | TzBundle
    | TzActivation
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _time(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _day(value: Any) -> int:
    return day_of(value.year, value.month, value.day)


def _opt_day(value: Any) -> int | None:
    return None if value is None else _day(value)


def _change_out(value: change.Change) -> dict[str, Any]:
    return {
        "change_id": value.change_id,
        "kind": value.kind.value,
        "schedule_id": value.schedule_id,
        "document": value.document,
        "if_revision": value.if_revision,
        "effective_from": value.effective_from,
        "on_planned": value.on_planned,
        "actor": value.actor,
    }


def _change_in(raw: dict[str, Any]) -> change.Change:
    return change.Change(**{**raw, "kind": change.ChangeKind(raw["kind"])})


def _schedule_out(value: Schedule) -> dict[str, Any]:
    return {
        "tenant": value.tenant,
        "account": value.account,
        "region": value.region,
        "zone": value.zone,
        "rule": rule_json(value.rule),
        "gap": value.policy.gap.value,
        "overlap": value.policy.overlap.value,
        "promise": value.promise.value,
        "starts_on": None if value.starts_on is None else date_of_day(value.starts_on),
        "ends_on": None if value.ends_on is None else date_of_day(value.ends_on),
        "count": value.count,
        "except_dates": [date_of_day(day) for day in value.except_dates],
        "late_policy": value.late_policy.value,
        "late_grace_s": value.late_grace_s,
        "spread_s": value.spread_s,
        "mode": value.mode.value,
        "on_delete": value.on_delete.value,
        "provider": value.deliver.provider,
        "to": value.deliver.to,
        "payload": value.deliver.payload,
    }


def _schedule_in(schedule_id: str, state: plan.RevisionState, since: int | None, raw: dict[str, Any]) -> Schedule:
    if raw["count"] is not None and (raw["count"] < 1 or raw["starts_on"] is None):
        raise ValueError(f"count {raw['count']}, which needs to be positive and a starts_on to count from")
    return Schedule(
        id=schedule_id,
        tenant=raw["tenant"],
        account=raw["account"],
        region=raw["region"],
        zone=raw["zone"],
        rule=rule_from_json(raw["rule"]),
        policy=Policy(Gap(raw["gap"]), Overlap(raw["overlap"])),
        promise=Promise(raw["promise"]),
        starts_on=_opt_day(raw["starts_on"]),
        ends_on=_opt_day(raw["ends_on"]),
        except_dates=tuple(_day(day) for day in raw["except_dates"]),
        late_policy=LatePolicy(raw["late_policy"]),
        late_grace_s=raw["late_grace_s"],
        spread_s=raw["spread_s"],
        mode=Mode(raw["mode"]),
        paused=state is plan.RevisionState.PAUSED,
        on_delete=OnDelete(raw["on_delete"]),
        effective_from=since,
        deliver=Delivery(raw["provider"], raw["to"], raw["payload"]),
        count=raw["count"],
    )


def _plan_out(value: plan.Plan) -> dict[str, Any]:
    return {
        "schedule_id": value.schedule_id,
        "incarnation": value.incarnation,
        "sequence": value.sequence,
        "revisions": [
            {
                "number": revision.number,
                "state": revision.state.value,
                "effective_from": revision.effective_from,
                "schedule": _schedule_out(revision.schedule),
            }
            for revision in value.revisions
        ],
    }


def _plan_in(raw: dict[str, Any]) -> plan.Plan:
    revisions = []
    for item in raw["revisions"]:
        state = plan.RevisionState(item["state"])
        since = item["effective_from"]
        schedule = _schedule_in(raw["schedule_id"], state, since, item["schedule"])
        revisions.append(plan.Revision(item["number"], state, since, schedule))
    numbers = [revision.number for revision in revisions]
    if not numbers or numbers != sorted(set(numbers)):
        raise ValueError(f"revisions {numbers} are not ascending")
    return plan.Plan(raw["schedule_id"], raw["incarnation"], raw["sequence"], tuple(revisions))


def _rejection_out(value: Rejection) -> dict[str, Any]:
    return {
        "change_id": value.change_id,
        "schedule_id": value.schedule_id,
        "problems": [{"field": f, "value": v, "problem": p, "fix": x} for f, v, p, x in value.problems],
        "topic": value.topic,
        "partition": value.partition,
        "offset": value.offset,
        "record": value.record,
        "rejected_at": _time(value.rejected_at_ms),
    }


def _rejection_in(raw: dict[str, Any]) -> Rejection:
    problems = tuple((p["field"], p["value"], p["problem"], p["fix"]) for p in raw["problems"])
    at = _ms(raw.pop("rejected_at"))
    return Rejection(**{**raw, "problems": problems, "rejected_at_ms": at})


def _tick_out(value: tick.Tick) -> dict[str, Any]:
    return {
        "minute": value.minute,
        "partition": value.partition,
        "schedules_topic_id": value.schedules_topic_id,
        "partition_count": value.partition_count,
        "watermark": value.watermark,
        "tzdata_watermark": value.tzdata_watermark,
        "produced_at": _time(value.produced_at_ms),
        "scenario": value.scenario,
    }


def _tick_in(raw: dict[str, Any]) -> tick.Tick:
    at = _ms(raw.pop("produced_at"))
    return tick.Tick(**raw, produced_at_ms=at)


def _source_out(value: occurrence.TickSource) -> dict[str, int]:
    return {"partition": value.partition, "offset": value.offset, "watermark": value.watermark}


def _fire_out(value: occurrence.Fire) -> dict[str, Any]:
    return {
        "key": value.key,
        "schedule_id": value.schedule_id,
        "incarnation": value.incarnation,
        "revision": value.revision,
        "promise": value.promise.value,
        "gap": value.policy.gap.value,
        "overlap": value.policy.overlap.value,
        "nominal": value.nominal,
        "copy": value.copy,
        "zone": value.zone,
        "instant": value.instant,
        "due": value.due_s,
        "deliver_by": value.deliver_by_s,
        "late_policy": value.late_policy.value,
        "date": date_of_day(value.ledger_day),
        "tz_version": value.tz_version,
        "source": _source_out(value.source),
        "region": value.region,
        "tenant": value.tenant,
        "account": value.account,
        "provider": value.provider,
        "to": value.to,
        "payload": value.payload,
        "mode": value.mode.value,
        "on_delete": value.on_delete.value,
        "scenario": value.scenario,
    }


def _fire_in(raw: dict[str, Any]) -> occurrence.Fire:
    return occurrence.Fire(
        key=raw["key"],
        schedule_id=raw["schedule_id"],
        incarnation=raw["incarnation"],
        revision=raw["revision"],
        promise=Promise(raw["promise"]),
        policy=Policy(Gap(raw["gap"]), Overlap(raw["overlap"])),
        nominal=raw["nominal"],
        copy=raw["copy"],
        zone=raw["zone"],
        instant=raw["instant"],
        due_s=raw["due"],
        deliver_by_s=raw["deliver_by"],
        late_policy=LatePolicy(raw["late_policy"]),
        ledger_day=_day(raw["date"]),
        tz_version=raw["tz_version"],
        source=occurrence.TickSource(**raw["source"]),
        region=raw["region"],
        tenant=raw["tenant"],
        account=raw["account"],
        provider=raw["provider"],
        to=raw["to"],
        payload=raw["payload"],
        mode=Mode(raw["mode"]),
        on_delete=OnDelete(raw["on_delete"]),
        scenario=raw["scenario"],
    )


def _obligation_out(value: occurrence.Obligation) -> dict[str, Any]:
    return {
        **{name: getattr(value, name) for name in _OBLIGATION_PLAIN},
        "date": date_of_day(value.ledger_day),
        "source": _source_out(value.source),
        "mode": value.mode.value,
        "on_delete": value.on_delete.value,
    }


_OBLIGATION_PLAIN = (
    "key",
    "schedule_id",
    "incarnation",
    "revision",
    "zone",
    "instant",
    "tz_version",
    "region",
    "tenant",
    "account",
    "scenario",
)


def _obligation_in(raw: dict[str, Any]) -> occurrence.Obligation:
    return occurrence.Obligation(
        **{name: raw[name] for name in _OBLIGATION_PLAIN},
        ledger_day=_day(raw["date"]),
        source=occurrence.TickSource(**raw["source"]),
        mode=Mode(raw["mode"]),
        on_delete=OnDelete(raw["on_delete"]),
    )


def _ended_out(value: occurrence.Ended) -> dict[str, Any]:
    return {**{name: getattr(value, name) for name in _ENDED_PLAIN}, "source": _source_out(value.source)}


_ENDED_PLAIN = ("schedule_id", "incarnation", "revision", "reason", "instant", "region", "tenant", "scenario")


def _ended_in(raw: dict[str, Any]) -> occurrence.Ended:
    return occurrence.Ended(**{name: raw[name] for name in _ENDED_PLAIN}, source=occurrence.TickSource(**raw["source"]))


def _bundle_out(value: TzBundle) -> dict[str, Any]:
    return {"version": value.version, "sha256": value.sha256, "zones": value.block}


def _bundle_in(raw: dict[str, Any]) -> TzBundle:
    return TzBundle(raw["version"], raw["sha256"], raw["zones"])


def _activation_out(value: TzActivation) -> dict[str, Any]:
    return {"version": value.version, "since": value.since, "actor": value.actor}


def _activation_in(raw: dict[str, Any]) -> TzActivation:
    return TzActivation(raw["version"], raw["since"], raw["actor"])


_WRITERS: dict[type, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    change.Change: ("ScheduleChange", _change_out),
    plan.Plan: ("Plan", _plan_out),
    Rejection: ("Rejection", _rejection_out),
    tick.Tick: ("Tick", _tick_out),
    occurrence.Fire: ("Fire", _fire_out),
    occurrence.Obligation: ("Obligation", _obligation_out),
    occurrence.Ended: ("Ended", _ended_out),
    TzBundle: ("TzBundle", _bundle_out),
    TzActivation: ("TzActivation", _activation_out),
}
READERS: dict[str, Callable[[dict[str, Any]], Value]] = {
    "ScheduleChange": _change_in,
    "Plan": _plan_in,
    "Rejection": _rejection_in,
    "Tick": _tick_in,
    "Fire": _fire_in,
    "Obligation": _obligation_in,
    "Ended": _ended_in,
    "TzBundle": _bundle_in,
    "TzActivation": _activation_in,
}


def writer_of(value: Value) -> tuple[str, Callable[[Any], dict[str, Any]]]:
    """The schema's name and the writer of this value's kind."""
    return _WRITERS[type(value)]
