"""A schedule document, as a person writes it: read into a Schedule with every default resolved, and written back.

`parse_document(canonical_document(schedule))` is the schedule again.
What a later version will bring is refused by name.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from streams.domain.document_fields import (
    ABSENT,
    Fields,
    format_duration,
    nearest,
    one_of,
    suggestion,
    text_fix,
    type_name,
)
from streams.domain.document_payload import read_payload
from streams.domain.document_rules import read_rule, rule_document, rule_from_json, rule_json
from streams.domain.errors import Problem
from streams.domain.minutes import format_day, format_tick
from streams.domain.rules import all_hours, compile_rule
from streams.domain.schedule import (
    Delivery,
    Every,
    Gap,
    LatePolicy,
    Mode,
    OnDelete,
    Overlap,
    Policy,
    Promise,
    Schedule,
)

__all__ = ["DocumentContext", "canonical_document", "parse_document", "rule_from_json", "rule_json"]

MAX_ID_CHARS: Final = 200
MAX_NAME_CHARS: Final = 200
MAX_TO_CHARS: Final = 2048
MAX_COUNT: Final = 1_000_000

_FIELDS = (
    "id", "tenant", "account", "region", "zone", "rule", "gap", "overlap", "promise", "starts_on", "ends_on",
    "count", "except_dates", "late", "spread", "mode", "paused", "on_delete", "effective_from", "deliver",
)  # fmt: skip
_ID_FIX = f"write 1 to {MAX_ID_CHARS} of A-Z a-z 0-9 . _ : -"
_ID_CHAR = re.compile(r"[A-Za-z0-9._:-]")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DELIVER_FIX = "write {provider: NAME, to: ADDRESS, payload: VALUE}"


@dataclass(frozen=True, slots=True)
class DocumentContext:
    """What a document may name. None for regions or providers: any plain name."""

    zone_names: frozenset[str]
    regions: frozenset[str] | None = None
    providers: frozenset[str] | None = None


def parse_document(raw: object, context: DocumentContext) -> Schedule | list[Problem]:
    """The schedule a document means, or every problem in it, in the document's own order of fields.

    `raw` is what JSON can hold: a dict with text keys, lists, text, numbers, booleans, None.
    """
    if not isinstance(raw, dict):
        fix = "write a mapping with at least id, region, zone, rule and deliver"
        return [Problem((), raw, f"must be a mapping, not {type_name(raw)}", fix)]
    problems: list[Problem] = []
    fields = Fields(raw, (), problems)
    fields.only(_FIELDS, {})
    schedule_id, zone, rule = _read_id(fields), _read_zone(fields, context), read_rule(fields)
    region = _read_name(fields, "region", context.regions)
    deliver = _read_deliver(fields, context)
    starts_on, ends_on = fields.optional_day("starts_on"), fields.optional_day("ends_on")
    if starts_on is not None and ends_on is not None and starts_on > ends_on:
        fields.refuse(
            "ends_on", raw["ends_on"], f"before starts_on, {raw['starts_on']}", "write the same date or later"
        )
    count = _read_count(fields)
    every_hour = rule is not None and not isinstance(rule, Every) and all_hours(compile_rule(rule))
    gap = fields.choice("gap", Gap.SKIP, {gap.value: gap for gap in Gap})
    overlap = fields.choice("overlap", Overlap.BOTH if every_hour else Overlap.FIRST, {o.value: o for o in Overlap})
    late_policy, late_grace_s = _read_late(fields)
    promise, spread_s, effective_from = _read_promise(fields), _read_spread(fields), _read_effective_from(fields)
    tenant = fields.text("tenant", raw.get("tenant", "default"), MAX_NAME_CHARS)
    account = None if raw.get("account") is None else fields.text("account", raw["account"], MAX_NAME_CHARS)
    except_dates = fields.distinct("except_dates", raw.get("except_dates", []), "write [2027-05-01]", fields.day)
    mode = fields.choice("mode", Mode.LIVE, {mode.value: mode for mode in Mode})
    on_delete = fields.choice("on_delete", OnDelete.CANCEL, {choice.value: choice for choice in OnDelete})
    paused = fields.flag("paused", False)
    if (
        problems or schedule_id is None or region is None or zone is None or rule is None
        or deliver is None or tenant is None or except_dates is None
    ):  # fmt: skip
        return _in_order(problems, raw)  # a reader that gives none has noted why
    return Schedule(
        id=schedule_id, tenant=tenant, account=account, region=region, zone=zone, rule=rule,
        policy=Policy(gap, overlap), promise=promise, starts_on=starts_on, ends_on=ends_on,
        except_dates=tuple(sorted(except_dates)), late_policy=late_policy, late_grace_s=late_grace_s, spread_s=spread_s,
        mode=mode, paused=paused, on_delete=on_delete, effective_from=effective_from, deliver=deliver, count=count,
    )  # fmt: skip


def _in_order(problems: list[Problem], raw: dict[str, object]) -> list[Problem]:
    """Problems as the document's fields stand; those of missing fields last."""
    place = {key: number for number, key in enumerate((*raw, *(key for key in _FIELDS if key not in raw)))}
    return sorted(problems, key=lambda problem: place[str(problem.path[0])])


def _read_id(fields: Fields) -> str | None:
    value = fields.required("id", _ID_FIX)
    if value is ABSENT:
        return None
    if not isinstance(value, str):
        fields.refuse("id", value, f"must be text, not {type_name(value)}", text_fix(value))
        return None
    before = len(fields.problems)
    if not value:
        fields.refuse("id", value, "is empty", _ID_FIX)
    if len(value) > MAX_ID_CHARS:
        fields.refuse("id", value, f"is {len(value)} characters long", _ID_FIX)
    wrong = sorted({char for char in value if not _ID_CHAR.fullmatch(char)})
    if separators := [char for char in wrong if char in "|#"]:
        reason = f"{' and '.join(separators)} can't stand in an id, as | and # divide the text of an occurrence key"
        fields.refuse("id", value, reason, _ID_FIX)
    elif wrong:
        fields.refuse("id", value, f"{json.dumps(wrong[0], ensure_ascii=False)} can't stand in an id", _ID_FIX)
    return value if len(fields.problems) == before else None


def _read_zone(fields: Fields, context: DocumentContext) -> str | None:
    value = fields.required("zone", "write an IANA zone such as Europe/Berlin")
    if value is ABSENT:
        return None
    if not isinstance(value, str):
        fields.refuse(
            "zone", value, f"must be text, not {type_name(value)}", "write an IANA zone such as Europe/Berlin"
        )
    elif value not in context.zone_names:
        near = nearest_zone(value, context.zone_names)
        fix = f"did you mean {near}?" if near else "write an IANA zone such as Europe/Berlin"
        fields.refuse("zone", value, "there is no such time zone", fix)
    else:
        return value
    return None


def nearest_zone(word: str, zone_names: frozenset[str]) -> str | None:
    """The zone most likely meant: by its whole name, or by its city alone. None for an abbreviation such as PST."""
    folded = word.strip().replace(" ", "_")
    if "/" not in folded:
        cities = sorted(name for name in zone_names if name.rpartition("/")[2].casefold() == folded.casefold())
        if cities:
            return cities[0]
        if len(folded) <= 4:
            return None
    return nearest(folded, zone_names)


def _read_name(fields: Fields, key: str, allowed: frozenset[str] | None) -> str | None:
    """A region or a provider: one that the settings have, or any plain name where they are not at hand."""
    value = fields.required(key, f"allowed: {one_of(sorted(allowed))}" if allowed else f"name a {key}")
    if value is ABSENT:
        return None
    if not isinstance(value, str):
        fields.refuse(key, value, f"must be text, not {type_name(value)}", text_fix(value))
    elif allowed is not None and value not in allowed:
        fix = suggestion(value, sorted(allowed)) if allowed else f"add [{key}s.NAME] to townclock.toml"
        fields.refuse(key, value, f"the settings have no such {key}", fix)
    elif allowed is None and not _PLAIN_NAME.fullmatch(value):
        fields.refuse(key, value, "not a plain name", "write 1 to 100 of A-Z a-z 0-9 . _ -, a letter or digit first")
    else:
        return value
    return None


def _read_deliver(fields: Fields, context: DocumentContext) -> Delivery | None:
    value = fields.required("deliver", _DELIVER_FIX)
    deliver = None if value is ABSENT else fields.mapping("deliver", value, _DELIVER_FIX)
    if deliver is None:
        return None
    deliver.only(("provider", "to", "payload"), {})
    provider = _read_name(deliver, "provider", context.providers)
    to_raw = deliver.required("to", "write the address the provider sends to")
    to = None if to_raw is ABSENT else deliver.text("to", to_raw, MAX_TO_CHARS)
    payload = read_payload(deliver)
    return None if provider is None or to is None or payload is None else Delivery(provider, to, payload)


def _read_count(fields: Fields) -> int | None:
    value = fields.raw.get("count")
    count = None if value is None else fields.whole("count", value, range(1, MAX_COUNT + 1))
    if count is not None and fields.raw.get("starts_on") is None:
        fields.refuse("count", value, "counts from starts_on, which is missing", "write starts_on: YYYY-MM-DD")
    return count


def _read_late(fields: Fields) -> tuple[LatePolicy, int | None]:
    value = fields.raw.get("late", {})
    late = fields.mapping("late", value, "write {policy: all}")
    if late is None:
        return LatePolicy.ALL, None
    late.only(("policy", "grace"), {})
    policy = late.choice("policy", LatePolicy.ALL, {policy.value: policy for policy in LatePolicy})
    if policy is not LatePolicy.ALL:
        late.refuse("policy", policy.value, "not in this version (lateness other than all)", "use all, or leave it out")
    grace_s = late.duration_s("grace", None)
    if grace_s is not None:
        late.refuse(
            "grace", late.raw["grace"], "not in this version (a grace after which a run expires)", "leave it out"
        )
    return LatePolicy.ALL, None


def _read_promise(fields: Fields) -> Promise:
    promise = fields.choice("promise", Promise.LABEL, {promise.value: promise for promise in Promise})
    if promise is Promise.BUSINESS_DATE:
        fix = "use label, or leave it out"
        fields.refuse("promise", promise.value, "not in this version (one run per business date)", fix)
    return Promise.LABEL


def _read_spread(fields: Fields) -> int:
    if fields.duration_s("spread", 0):
        fields.refuse(
            "spread", fields.raw["spread"], "not in this version (a window of due times)", "use 0s, or leave it out"
        )
    return 0


def _read_effective_from(fields: Fields) -> int | None:
    value = fields.raw.get("effective_from")
    if value is None:
        return None
    if fields.utc_minute("effective_from", value) is not None:
        fields.refuse("effective_from", value, "not in this version (planned revisions)", "leave it out")
    return None


def canonical_document(schedule: Schedule) -> dict[str, object]:
    """The resolved document, every field there, ready for JSON; equal schedules give equal documents."""
    grace_s = schedule.late_grace_s
    return {
        "id": schedule.id,
        "tenant": schedule.tenant,
        "account": schedule.account,
        "region": schedule.region,
        "zone": schedule.zone,
        "rule": rule_document(schedule.rule),
        "gap": schedule.policy.gap.value,
        "overlap": schedule.policy.overlap.value,
        "promise": schedule.promise.value,
        "starts_on": None if schedule.starts_on is None else format_day(schedule.starts_on),
        "ends_on": None if schedule.ends_on is None else format_day(schedule.ends_on),
        "count": schedule.count,
        "except_dates": [format_day(day) for day in schedule.except_dates],
        "late": {"policy": schedule.late_policy.value, "grace": None if grace_s is None else format_duration(grace_s)},
        "spread": format_duration(schedule.spread_s),
        "mode": schedule.mode.value,
        "paused": schedule.paused,
        "on_delete": schedule.on_delete.value,
        "effective_from": None if schedule.effective_from is None else format_tick(schedule.effective_from),
        "deliver": {
            "provider": schedule.deliver.provider,
            "to": schedule.deliver.to,
            "payload": json.loads(schedule.deliver.payload),
        },
    }
