"""The registrar's decision on one change: accepted as a new plan, unchanged, or refused with every reason.

Pure: equal plans, changes and contexts give equal decisions. Numbers: `number` rises by one with every revision and
begins at 1 in each incarnation; `incarnation` rises when a deleted id is put again; `sequence` rises by one with every
plan of the id, over all its incarnations.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final

from streams.domain.change import Change, ChangeKind
from streams.domain.document import DocumentContext, parse_document
from streams.domain.errors import Problem
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.schedule import Schedule

MAX_CHANGE_ID_CHARS: Final = 200
MAX_ACTOR_CHARS: Final = 200
_LATER = "not in this version (planned revisions)"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The id's next plan."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The change asks for what is so already; `plan` stays."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Refused:
    """Every reason, never empty."""

    problems: tuple[Problem, ...]


Decision = Accepted | Unchanged | Refused


def register(current: Plan | None, change: Change, context: DocumentContext) -> Decision:
    """Decide. `current` is the id's newest plan, none if it never had one; its id is the change's.

    What asks for the state that is so already is `Unchanged` before `if_revision` is looked at, so a change that was
    published twice is harmless.
    """
    problems = _envelope_problems(change)
    wanted = _wanted(current, change, context)
    if isinstance(wanted, Refused):
        return Refused((*problems, *wanted.problems))
    if problems:
        return Refused(tuple(problems))
    state, schedule = wanted
    if current is not None:
        newest = current.revisions[-1]
        if newest.state is state and newest.schedule == schedule:
            return Unchanged(current)
        if schedule.region != newest.schedule.region:
            problems.append(_region_problem(newest.schedule, schedule))
    if conflict := _revision_conflict(current, change):
        problems.append(conflict)
    return Refused(tuple(problems)) if problems else Accepted(_next_plan(current, state, schedule))


def is_alive(plan: Plan | None) -> bool:
    """Whether the id names a schedule that has not been deleted."""
    return plan is not None and plan.revisions[-1].state is not RevisionState.DELETED


def _envelope_problems(change: Change) -> list[Problem]:
    problems = []
    for field, text, most in (
        ("change_id", change.change_id, MAX_CHANGE_ID_CHARS),
        ("actor", change.actor, MAX_ACTOR_CHARS),
    ):
        if not is_plain(text, most):
            problems.append(Problem((field,), text, "not a plain text", f"write 1 to {most} printable characters"))
    if change.effective_from is not None:
        problems.append(Problem(("effective_from",), change.effective_from, _LATER, "leave it out"))
    if change.on_planned is not None:
        problems.append(Problem(("on_planned",), change.on_planned, _LATER, "leave it out"))
    if change.if_revision is not None and change.if_revision < 0:
        problems.append(
            Problem(("if_revision",), change.if_revision, "no revision has such a number", "write a number from 0")
        )
    if change.kind is not ChangeKind.PUT and change.document is not None:
        problems.append(
            Problem(("document",), change.document, f"a {change.kind.value} brings no document", "leave it out")
        )
    return problems


def is_plain(text: str, most_chars: int) -> bool:
    """Whether a text is printable, not empty, and not too long."""
    return 0 < len(text) <= most_chars and text.isprintable()


def _wanted(current: Plan | None, change: Change, context: DocumentContext) -> tuple[RevisionState, Schedule] | Refused:
    """The state and document that the change asks for."""
    if change.kind is ChangeKind.PUT:
        return _document(change, context)
    if current is None:
        return _refused(("schedule_id",), change.schedule_id, "there is no such schedule", "put it first")
    last = current.revisions[-1].schedule
    if change.kind is ChangeKind.DELETE:
        return RevisionState.DELETED, replace(last, paused=False, effective_from=None)
    if not is_alive(current):
        return _refused(
            ("schedule_id",), change.schedule_id, "the schedule was deleted", "put it again; it gets a new life"
        )
    paused = change.kind is ChangeKind.PAUSE
    state = RevisionState.PAUSED if paused else RevisionState.ACTIVE
    return state, replace(last, paused=paused, effective_from=None)


def _document(change: Change, context: DocumentContext) -> tuple[RevisionState, Schedule] | Refused:
    if change.document is None:
        return _refused(("document",), None, "a put brings the whole document", "write it as JSON text")
    try:
        raw: object = json.loads(change.document, object_pairs_hook=_no_key_twice, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else str(error)
        return _refused(("document",), change.document, f"not JSON: {reason}", "write the document as JSON text")
    parsed = parse_document(raw, context)
    if not isinstance(parsed, Schedule):
        return Refused(tuple(parsed))
    if parsed.id != change.schedule_id:
        return _refused(
            ("id",), parsed.id, f"the change is for schedule {change.schedule_id}", "name the same id in both"
        )
    return RevisionState.PAUSED if parsed.paused else RevisionState.ACTIVE, parsed


def _no_key_twice(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {json.dumps(key)} is there twice")
            seen.add(key)
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON number")


def _revision_conflict(current: Plan | None, change: Change) -> Problem | None:
    """Why `if_revision` forbids the change, if it does; 0 says that no such schedule may be there."""
    if change.if_revision is None:
        return None
    there = current.revisions[-1].number if current is not None and is_alive(current) else 0
    if change.if_revision == there:
        return None
    found = f"the newest revision is {there}" if there else "there is no such schedule"
    return Problem(("if_revision",), change.if_revision, found, "read the schedule again, then decide")


def _region_problem(old: Schedule, new: Schedule) -> Problem:
    fix = f"write {old.region}; to move it, delete it and use a new id"
    return Problem(("region",), new.region, f"a schedule's region never changes; it is {old.region}", fix)


def _next_plan(current: Plan | None, state: RevisionState, schedule: Schedule) -> Plan:
    if current is None:
        incarnation, sequence, number = 1, 1, 1
    elif is_alive(current):
        incarnation, sequence, number = current.incarnation, current.sequence + 1, current.revisions[-1].number + 1
    else:
        incarnation, sequence, number = current.incarnation + 1, current.sequence + 1, 1
    return Plan(schedule.id, incarnation, sequence, (Revision(number, state, schedule.effective_from, schedule),))


def _refused(path: tuple[str | int, ...], value: object, problem: str, fix: str) -> Refused:
    return Refused((Problem(path, value, problem, fix),))
