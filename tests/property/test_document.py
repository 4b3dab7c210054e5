"""Documents: the round trip, and that whatever JSON can hold is either a schedule or explained."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from streams.adapters.documents_json import json_place, read_json
from streams.adapters.documents_places import Place, RawDocument
from streams.adapters.documents_yaml import read_yaml, yaml_places
from streams.domain.document import DocumentContext, canonical_document, parse_document, rule_from_json, rule_json
from streams.domain.document_fields import describe, format_duration, parse_duration_s
from streams.domain.document_payload import canonical_json
from streams.domain.rules import compile_rule
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
    Rule,
    Schedule,
)
from streams.domain.search import ever_matches
from tests.property.rule_strategies import calendar_rules, cron_rules, every_rules

ZONES = ("Europe/Berlin", "America/New_York", "UTC")
CONTEXT = DocumentContext(frozenset(ZONES))

rules = calendar_rules() | every_rules | cron_rules.filter(lambda rule: ever_matches(compile_rule(rule).predicate))
# the characters of UTF-8, without halves of surrogate pairs
texts = st.text(st.characters(codec="utf-8"), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
printable = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(str.isprintable)
days = st.integers(-719162, 2932896)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    starts_on, ends_on = draw(st.none() | days), draw(st.none() | days)
    if starts_on is not None and ends_on is not None:
        starts_on, ends_on = min(starts_on, ends_on), max(starts_on, ends_on)
    return Schedule(
        id=draw(st.from_regex(r"[A-Za-z0-9._:-]{1,200}", fullmatch=True)),
        tenant=draw(printable),
        account=draw(st.none() | printable),
        region=draw(names),
        zone=draw(st.sampled_from(ZONES)),
        rule=draw(rules),
        policy=Policy(draw(st.sampled_from(Gap)), draw(st.sampled_from(Overlap))),
        promise=Promise.LABEL,
        starts_on=starts_on,
        ends_on=ends_on,
        except_dates=tuple(sorted(draw(st.sets(days, max_size=4)))),
        late_policy=LatePolicy.ALL,
        late_grace_s=None,
        spread_s=0,
        mode=draw(st.sampled_from(Mode)),
        paused=draw(st.booleans()),
        on_delete=draw(st.sampled_from(OnDelete)),
        effective_from=None,
        deliver=Delivery(draw(names), draw(printable), canonical_json(draw(json_values))),
        count=None if starts_on is None else draw(st.none() | st.integers(1, 1_000_000)),
    )


@given(schedules())
def test_a_canonical_document_means_its_schedule(schedule: Schedule) -> None:
    canonical = canonical_document(schedule)
    assert parse_document(canonical, CONTEXT) == schedule
    through_json = read_json(json.dumps(canonical))
    assert isinstance(through_json, RawDocument)
    assert parse_document(through_json.raw, CONTEXT) == schedule


@given(rules)
def test_a_rule_is_its_text(rule: Rule) -> None:
    assert rule_from_json(rule_json(rule)) == rule


@given(st.integers(0, 10**9))
def test_a_duration_is_its_text(duration_s: int) -> None:
    text = format_duration(duration_s)
    if len(text) <= 10:
        assert parse_duration_s(text) == duration_s


FIELDS = (*canonical_document(Schedule(
    "x", "t", None, "eu", "UTC", Daily((0,)), Policy(Gap.SKIP, Overlap.FIRST), Promise.LABEL, None, None, (),
    LatePolicy.ALL, None, 0, Mode.LIVE, False, OnDelete.CANCEL, None, Delivery("log", "x", "null"),
)), "colour")  # fmt: skip
hostile = json_values | st.text(max_size=5) | st.sampled_from(
    ["2027-01-01", "09:00", "daily", "15m", float("nan"), {"kind": "weekly"}, {"kind": "cron", "expression": "* * *"},
     {"kind": "every", "minutes": 1e9}, 10**30,
     {"kind": "monthly", "days": [10**30, True]}, {"policy": "none"}, {"to": "x"}]
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), hostile))
def test_what_is_no_schedule_is_explained_without_an_error_of_ours(raw: dict[str, Any]) -> None:
    outcome = parse_document(raw, CONTEXT)
    assert isinstance(outcome, Schedule) or outcome
    for problem in outcome if isinstance(outcome, list) else ():
        line = describe(problem)
        assert line.isprintable()
        assert problem.problem
        assert problem.fix


# what both readers take as it stands: libyaml refuses or folds some of what JSON allows unescaped
plain = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126) | st.sampled_from("üß漢"), max_size=8)
plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain, inner, max_size=4),
    max_leaves=15,
)


def flat(place: Place, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], int]:
    found = {path: place.line}
    for part, below in place.children.items():
        found |= flat(below, (*path, part))
    return found


@given(plain_values, st.integers(0, 3))
def test_json_text_means_the_same_at_the_same_lines_to_both_readers(value: object, indent: int) -> None:
    text = json.dumps(value, indent=indent or None, ensure_ascii=False)
    by_json, by_yaml = read_json(text), list(read_yaml(text))
    assert by_json == RawDocument(value, ())
    assert by_yaml == [RawDocument(value, ())]
    assert flat(json_place(text)) == flat(yaml_places(text)[0])
