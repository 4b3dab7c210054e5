"""Schedule documents: defaults to the letter, every problem at once, and the canonical form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streams.domain.document import DocumentContext, canonical_document, parse_document, rule_from_json, rule_json
from streams.domain.document_fields import describe, format_duration, parse_duration_s, shown
from streams.domain.errors import InvalidInput, Problem
from streams.domain.minutes import parse_day
from streams.domain.schedule import (
    Daily,
    Delivery,
    Gap,
    LatePolicy,
    Mode,
    OnDelete,
    Overlap,
    Policy,
    Promise,
    Schedule,
    Weekly,
)

CONTEXT = DocumentContext(frozenset(("Europe/Berlin", "America/New_York")))
LEAST = {
    "id": "payroll",
    "region": "eu",
    "zone": "Europe/Berlin",
    "rule": {"kind": "daily", "at": ["09:00"]},
    "deliver": {"provider": "log", "to": "x", "payload": None},
}


def document(**changes: Any) -> dict[str, Any]:
    return {**LEAST, **changes}


def accepted(**changes: Any) -> Schedule:
    outcome = parse_document(document(**changes), CONTEXT)
    assert isinstance(outcome, Schedule), [describe(problem) for problem in outcome]
    return outcome


def refused(**changes: Any) -> list[str]:
    outcome = parse_document(document(**changes), CONTEXT)
    assert isinstance(outcome, list)
    return [describe(problem) for problem in outcome]


def test_the_defaults_are_those_of_the_contract() -> None:
    assert accepted() == Schedule(
        id="payroll",
        tenant="default",
        account=None,
        region="eu",
        zone="Europe/Berlin",
        rule=Daily((540,)),
        policy=Policy(Gap.SKIP, Overlap.FIRST),
        promise=Promise.LABEL,
        starts_on=None,
        ends_on=None,
        except_dates=(),
        late_policy=LatePolicy.ALL,
        late_grace_s=None,
        spread_s=0,
        mode=Mode.LIVE,
        paused=False,
        on_delete=OnDelete.CANCEL,
        effective_from=None,
        deliver=Delivery("log", "x", "null"),
    )


def test_every_field_is_read() -> None:
    schedule = accepted(
        tenant="acme",
        account="A-17",
        rule={"kind": "weekly", "weekdays": ["sun", "mon"], "at": ["02:30", "14:00"]},
        gap="next_valid",
        overlap="second",
        promise="label",
        starts_on="2027-01-01",
        ends_on="2027-01-01",
        except_dates=["2027-05-02", "2027-05-01"],
        late={"policy": "all"},
        spread="0m",
        mode="shadow",
        paused=True,
        on_delete="deliver",
        deliver={"provider": "acme-mail", "to": "https://x", "payload": {"b": [1, 1.5, "ü"], "a": None}},
    )
    assert schedule.rule == Weekly((0, 6), (150, 840))
    assert schedule.policy == Policy(Gap.NEXT_VALID, Overlap.SECOND)
    assert (schedule.tenant, schedule.account, schedule.mode) == ("acme", "A-17", Mode.SHADOW)
    assert schedule.starts_on == schedule.ends_on == parse_day("2027-01-01")
    assert schedule.except_dates == (parse_day("2027-05-01"), parse_day("2027-05-02"))
    assert schedule.paused
    assert schedule.on_delete is OnDelete.DELIVER
    assert schedule.deliver == Delivery("acme-mail", "https://x", '{"a":null,"b":[1,1.5,"ü"]}')


@pytest.mark.parametrize(("hours", "overlap"), [(24, Overlap.BOTH), (23, Overlap.FIRST)])
def test_a_rule_of_all_hours_keeps_both_copies_of_an_overlap_by_default(hours: int, overlap: Overlap) -> None:
    at = [f"{hour:02d}:15" for hour in range(hours)]
    assert accepted(rule={"kind": "daily", "at": at}).policy == Policy(Gap.SKIP, overlap)
    assert accepted(rule={"kind": "weekly", "weekdays": ["sun"], "at": at}).policy == Policy(Gap.SKIP, overlap)
    assert accepted(rule={"kind": "daily", "at": at}, overlap="second").policy.overlap is Overlap.SECOND


def test_null_is_absence_where_there_is_no_default() -> None:
    fields = ("account", "starts_on", "ends_on", "effective_from")
    assert accepted(**dict.fromkeys(fields), late={"policy": "all", "grace": None}) == accepted()


@pytest.mark.parametrize("field", ["tenant", "gap", "except_dates", "late", "spread", "mode", "paused", "on_delete"])
def test_null_is_refused_where_there_is_a_default(field: str) -> None:
    assert len(refused(**{field: None})) == 1


def test_all_problems_are_reported_in_the_order_of_the_document() -> None:
    raw = {"late": {"policy": "latest", "max": 1}, "colour": 1, "zone": "Europe/Berln", "rule": {"kind": "weekly"}}
    outcome = parse_document(raw, CONTEXT)
    assert isinstance(outcome, list)
    assert [problem.field for problem in outcome] == [
        "late.max", "late.policy", "colour", "zone", "rule.weekdays", "rule.at", "id", "region", "deliver",
    ]  # fmt: skip


def test_regions_and_providers_are_those_of_the_context() -> None:
    context = DocumentContext(CONTEXT.zone_names, frozenset(("us",)), frozenset())
    outcome = parse_document(LEAST, context)
    assert isinstance(outcome, list)
    assert [describe(problem) for problem in outcome] == [
        'region: the settings have no such region ("eu"); allowed: us',
        'deliver.provider: the settings have no such provider ("log"); add [providers.NAME] to townclock.toml',
    ]


@pytest.mark.parametrize("region", ["eu west", "", "-eu", "a/b", "x" * 101])
def test_without_settings_a_region_is_a_plain_name(region: str) -> None:
    assert refused(region=region)[0].startswith("region: not a plain name")


@pytest.mark.parametrize("raw", [None, [], "x", 5, True])
def test_a_document_is_a_mapping(raw: object) -> None:
    outcome = parse_document(raw, CONTEXT)
    assert isinstance(outcome, list)
    assert [problem.field for problem in outcome] == ["(document)"]


def test_ids_take_what_the_design_allows() -> None:
    longest = "Aa0._:-" + "x" * 193
    assert accepted(id=longest).id == longest
    assert len(refused(id=longest + "x")) == 1
    assert len(refused(id="x|" * 101)) == 2
    for wrong in ("é", "a\n", " a", "a/b", "a#2"):
        assert len(refused(id=wrong)) == 1


@pytest.mark.parametrize(
    "time", ["24:00", "09:60", "9:00", "0900", "09:00 ", "０9:00", "09:00:00", "09:00Z", 540, None]
)
def test_times_are_whole_minutes_of_a_day(time: object) -> None:
    assert len(refused(rule={"kind": "daily", "at": [time]})) == 1


def test_payload_is_bounded() -> None:
    deep: list[Any] = []
    for _ in range(63):
        deep = [deep]
    assert accepted(deliver={"provider": "log", "to": "x", "payload": deep}).deliver.payload == "[" * 64 + "]" * 64
    assert refused(deliver={"provider": "log", "to": "x", "payload": [deep]}) == [
        "deliver.payload: nested too deep; keep it to 64 levels"
    ]
    too_long = refused(deliver={"provider": "log", "to": "x", "payload": "ü" * 131_072})
    assert too_long[0].startswith("deliver.payload: is 262146 bytes long; keep it to 262144")


def test_the_canonical_document_has_every_field_resolved() -> None:
    assert json.loads(json.dumps(canonical_document(accepted()))) == {
        "id": "payroll", "tenant": "default", "account": None, "region": "eu", "zone": "Europe/Berlin",
        "rule": {"kind": "daily", "at": ["09:00"]}, "gap": "skip", "overlap": "first", "promise": "label",
        "starts_on": None, "ends_on": None, "count": None, "except_dates": [], "late": {"policy": "all", "grace": None},
        "spread": "0s", "mode": "live", "paused": False, "on_delete": "cancel", "effective_from": None,
        "deliver": {"provider": "log", "to": "x", "payload": None},
    }  # fmt: skip


def test_rules_have_one_text() -> None:
    assert rule_json(Daily((540,))) == '{"at":["09:00"],"kind":"daily"}'
    weekly = '{"at":["02:30","14:00"],"kind":"weekly","weekdays":["mon","sun"]}'
    assert rule_json(Weekly((0, 6), (150, 840))) == weekly
    assert rule_from_json(weekly) == Weekly((0, 6), (150, 840))
    assert rule_from_json(weekly) is rule_from_json(weekly)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"kind":"daily","at":["25:00"]}', '{"kind":"daily","at":["09:00"],"x":1}']
)
def test_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a rule this version knows"):
        rule_from_json(text)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("6h", 21600), ("2d", 172800), ("0s", 0)])
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds
    assert format_duration(seconds) == text


@pytest.mark.parametrize("text", ["", "90", "1.5h", "-1s", "1w", "1 h", "1h30m", "٣s"])
def test_text_that_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="a duration is written"):
        parse_duration_s(text)


def test_errors_are_safe_to_print() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert shown(deep) == "a list"
    assert shown("a\x9b\u202e\ud800\n") == '"a\\u009b\\u202e\\ud800\\n"'
    assert describe(Problem(("a\nb",), 1, "wrong", "mend it")) == "a\\u000ab: wrong (1); mend it"
    assert len(shown("x" * 1000)) == 80
