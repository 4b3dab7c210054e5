"""The registrar's decision: numbers, unchanged, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streams.domain.change import Change, ChangeKind
from streams.domain.plan import Plan, RevisionState
from streams.domain.registration import Accepted, Refused, Unchanged, register
from tests.registry_support import CONTEXT, change, document


def accept(current: Plan | None, asked: Change) -> Plan:
    decision = register(current, asked, CONTEXT)
    assert isinstance(decision, Accepted), decision
    return decision.plan


def refuse(current: Plan | None, asked: Change) -> dict[str, str]:
    decision = register(current, asked, CONTEXT)
    assert isinstance(decision, Refused), decision
    return {problem.field: problem.problem for problem in decision.problems}


def put(**fields: Any) -> Change:
    return change(raw=document(**fields))


def numbers(plan: Plan) -> tuple[int, int, int]:
    return plan.incarnation, plan.sequence, plan.revisions[-1].number


def test_numbers_over_a_life_and_the_next() -> None:
    first = accept(None, put())
    assert numbers(first) == (1, 1, 1)
    second = accept(first, put(zone="America/New_York"))
    assert numbers(second) == (1, 2, 2)
    gone = accept(second, change(ChangeKind.DELETE))
    assert numbers(gone) == (1, 3, 3)
    again = accept(gone, put())
    assert numbers(again) == (2, 4, 1)
    assert len(again.revisions) == 1


def test_the_same_again_changes_nothing() -> None:
    plan = accept(None, put(gap="shift"))
    assert register(plan, put(gap="shift"), CONTEXT) == Unchanged(plan)
    # the same schedule, written otherwise
    spelled_out = put(gap="shift", overlap="first", tenant="default", paused=False, late={"policy": "all"})
    assert register(plan, spelled_out, CONTEXT) == Unchanged(plan)
    # even where if_revision has passed meanwhile: a change may be published twice
    assert register(plan, replace(put(gap="shift"), if_revision=0), CONTEXT) == Unchanged(plan)


@pytest.mark.parametrize(
    ("kind", "state"), [(ChangeKind.PAUSE, RevisionState.PAUSED), (ChangeKind.DELETE, RevisionState.DELETED)]
)
def test_pause_and_delete_are_revisions_and_once_is_enough(kind: ChangeKind, state: RevisionState) -> None:
    plan = accept(accept(None, put()), change(kind))
    assert plan.revisions[-1].state is state
    assert plan.revisions[-1].schedule.paused is (state is RevisionState.PAUSED)
    assert register(plan, change(kind), CONTEXT) == Unchanged(plan)


def test_resume_brings_the_document_back() -> None:
    first = accept(None, put())
    back = accept(accept(first, change(ChangeKind.PAUSE)), change(ChangeKind.RESUME))
    assert numbers(back) == (1, 3, 3)
    assert back.revisions[-1].state is RevisionState.ACTIVE
    assert back.revisions[-1].schedule == first.revisions[-1].schedule
    assert register(back, change(ChangeKind.RESUME), CONTEXT) == Unchanged(back)


def test_a_put_speaks_of_everything_pausing_included() -> None:
    paused = accept(None, put(paused=True))
    assert paused.revisions[-1].state is RevisionState.PAUSED
    assert register(paused, change(ChangeKind.PAUSE), CONTEXT) == Unchanged(paused)
    assert accept(paused, put()).revisions[-1].state is RevisionState.ACTIVE


def test_a_deleted_schedule_can_be_paused_no_more() -> None:
    gone = accept(accept(None, put(paused=True)), change(ChangeKind.DELETE))
    assert refuse(gone, change(ChangeKind.RESUME)) == {"schedule_id": "the schedule was deleted"}
    assert refuse(gone, change(ChangeKind.PAUSE)) == {"schedule_id": "the schedule was deleted"}


@pytest.mark.parametrize("kind", [ChangeKind.DELETE, ChangeKind.PAUSE, ChangeKind.RESUME])
def test_what_never_was_can_only_be_put(kind: ChangeKind) -> None:
    assert refuse(None, change(kind)) == {"schedule_id": "there is no such schedule"}


def test_a_region_never_changes_not_even_in_the_next_life() -> None:
    plan = accept(None, put())
    wanted = {"region": "a schedule's region never changes; it is eu"}
    assert refuse(plan, put(region="us")) == wanted
    assert refuse(accept(plan, change(ChangeKind.DELETE)), put(region="us")) == wanted


@pytest.mark.parametrize(("there", "asked", "problem"), [
    (0, 1, "there is no such schedule"),
    (1, 0, "the newest revision is 1"),
    (1, 2, "the newest revision is 1"),
    (2, 1, "the newest revision is 2"),
    (0, 0, None),
    (1, 1, None),
    (2, 2, None),
])  # fmt: skip
def test_if_revision(there: int, asked: int, problem: str | None) -> None:
    plan = None
    for number in range(there):
        plan = accept(plan, put(account=f"A-{number}"))
    wanted = replace(put(account="new"), if_revision=asked)
    if problem is None:
        assert numbers(accept(plan, wanted)) == (1, there + 1, there + 1)
    else:
        assert refuse(plan, wanted) == {"if_revision": problem}


def test_if_revision_0_takes_a_deleted_id() -> None:
    gone = accept(accept(None, put()), change(ChangeKind.DELETE))
    assert numbers(accept(gone, replace(put(), if_revision=0))) == (2, 3, 1)
    assert refuse(gone, replace(put(), if_revision=2)) == {"if_revision": "there is no such schedule"}


@pytest.mark.parametrize("kind", list(ChangeKind))
def test_planned_revisions_are_refused_by_name(kind: ChangeKind) -> None:
    plan = accept(None, put())
    asked = change(kind, effective_from=29_000_000, on_planned="keep")
    later = "not in this version (planned revisions)"
    assert refuse(plan, asked) == {"effective_from": later, "on_planned": later}


def test_a_document_is_read_as_everywhere_else() -> None:
    problems = refuse(None, put(zone="Europe/Berlim", rule={"kind": "daily", "at": ["25:00"]}, color="red"))
    assert set(problems) == {"zone", "rule.at[0]", "color"}
    assert refuse(None, put(effective_from="2027-01-01T00:00Z")).keys() == {"effective_from"}


@pytest.mark.parametrize(("text", "problem"), [
    (None, "a put brings the whole document"),
    ("", "not JSON: "),
    ("{", "not JSON: "),
    ('{"id": "a", "id": "a"}', 'not JSON: the key "id" is there twice'),
    ('{"id": NaN}', "not JSON: NaN is no JSON number"),
    ("[" * 100_000, "not JSON: nested too deep"),
    ("1" * 5_000, "not JSON: "),
])  # fmt: skip
def test_a_document_that_is_no_json(text: str | None, problem: str) -> None:
    assert refuse(None, change(document=text))["document"].startswith(problem)


def test_a_document_of_another_id() -> None:
    text = json.dumps(document("b"))
    assert refuse(None, change(document=text)) == {"id": "the change is for schedule a"}


@pytest.mark.parametrize("raw", ["[]", '"a"', "null", "7"])
def test_a_document_that_is_no_mapping(raw: str) -> None:
    assert "(document)" in refuse(None, change(document=raw))


def test_only_a_put_brings_a_document() -> None:
    plan = accept(None, put())
    asked = change(ChangeKind.DELETE, document="{}")
    assert refuse(plan, asked) == {"document": "a delete brings no document"}


@pytest.mark.parametrize("text", ["", "x" * 201, "nul\0", "line\n", "\ud800"])
def test_names_that_no_table_can_hold(text: str) -> None:
    assert refuse(None, change(change_id=text)) == {"change_id": "not a plain text"}
    assert refuse(None, change(actor=text)) == {"actor": "not a plain text"}


def test_every_reason_at_once() -> None:
    plan = accept(None, put())
    asked = replace(put(region="us", zone="Nowhere"), if_revision=-1, on_planned="keep", actor="")
    assert set(refuse(plan, asked)) == {"actor", "on_planned", "if_revision", "zone"}
    assert set(refuse(plan, replace(put(region="us"), if_revision=5))) == {"region", "if_revision"}
