"""The plan book against a naive reading of the design's sentence, over logs with everything that goes wrong in one."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.domain.asof import SKEW_MS, ForgottenWatermark, InForce, PlanBook
from streams.domain.plan import Plan, Revision, RevisionState
from tests.effort import examples
from tests.schedules import schedule

IDS = ("a", "b", "c")


@dataclass(frozen=True)
class Record:
    offset: int
    append_ms: int
    schedule_id: str
    plan: Plan | None


def naive(log: list[Record], tick: int, watermark: int, live: bool) -> dict[str, tuple[int, int]]:
    """(incarnation, revision number) in force for each id that has one, from the whole log at once."""
    highest: dict[str, int] = {}
    last: dict[str, Record] = {}
    for record in log:
        if record.plan is not None:
            if record.plan.sequence <= highest.get(record.schedule_id, -1):
                continue
            highest[record.schedule_id] = record.plan.sequence
        if record.offset < watermark and (not live or record.append_ms + SKEW_MS < tick * 60_000):
            last[record.schedule_id] = record
    found = {}
    for schedule_id, record in last.items():
        if record.plan is None:
            continue
        counting = [
            (-1 if revision.effective_from is None else revision.effective_from, revision.number)
            for revision in record.plan.revisions
            if revision.effective_from is None or revision.effective_from <= tick
        ]
        if counting:
            found[schedule_id] = (record.plan.incarnation, max(counting)[1])
    return found


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Record], list[tuple[int, int]]]:
    """A log and the ticks over it: duplicates, stale sequences, nulls, append times and watermarks that go back."""
    random = Random(draw(st.integers(0, 1 << 32)))
    first = 1_000
    log: list[Record] = []
    plans: list[tuple[str, Plan]] = []
    offset = random.randrange(5)
    for _ in range(draw(st.integers(0, 40))):
        offset += random.choice([1, 1, 1, 2, 5])
        append_ms = (first + random.uniform(-3, 40)) * 60_000 + random.choice([0, 0, -SKEW_MS, -SKEW_MS - 1])
        name, kind = random.choice(IDS), random.random()
        if kind < 0.15 and plans:
            name, plan = random.choice(plans)
            log.append(Record(offset, int(append_ms), name, plan))
        elif kind < 0.2:
            log.append(Record(offset, int(append_ms), name, None))
        else:
            plan = _plan(random, name, len(plans), first)
            plans.append((name, plan))
            log.append(Record(offset, int(append_ms), name, plan))
    ticks, watermark = [], 0
    for minute in range(first, first + 45):
        watermark = min(offset + 1, watermark + random.choice([0, 0, 1, 3, 10]))
        low = max(0, watermark - random.choice([0, 0, 0, 2, 20]))
        ticks.append((minute, low))
    return log, ticks


def _plan(random: Random, name: str, sequence: int, first: int) -> Plan:
    numbers = range(sequence * 3 + 1, sequence * 3 + 1 + random.choice([1, 1, 2, 3]))
    revisions = tuple(
        Revision(
            number,
            random.choice(list(RevisionState)),
            None if random.random() < 0.5 else first + random.randrange(-5, 45),
            schedule(id=name),
        )
        for number in numbers
    )
    return Plan(name, random.choice([1, 2]), sequence, revisions)


def identity(state: InForce | None) -> tuple[int, int] | None:
    return None if state is None else (state.incarnation, state.revision.number)


@settings(max_examples=examples(300), deadline=None)
@given(histories(), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_the_book_agrees_with_the_sentence_at_every_tick(
    history: tuple[list[Record], list[tuple[int, int]]], live: bool, keep_all: bool, random: Random
) -> None:
    """Live readers are a little ahead of the watermark, replaying ones far: nothing may hang on it."""
    log, ticks = history
    if not keep_all:  # the book keeps a period; within it every watermark from the first on is answered
        ticks = [(minute, max(watermark, ticks[0][1])) for minute, watermark in ticks]
    book, added = PlanBook(live=live, keep_all=keep_all), 0
    ahead = random.choice([0, 1, 1000])
    before: dict[str, tuple[int, int]] = {}
    seen: dict[str, InForce] = {}
    for minute, watermark in ticks:
        while added < len(log) and (log[added].offset < watermark or random.randrange(ahead + 1)):
            book.add(log[added].offset, log[added].append_ms, log[added].schedule_id, log[added].plan)
            added += 1
        changes = book.advance(minute, watermark)
        expected = naive(log, minute, watermark, live)
        for name in IDS:
            assert identity(book.in_force(name)) == expected.get(name), (minute, watermark, name)
        assert [change.schedule_id for change in changes] == sorted(
            name for name in IDS if before.get(name) != expected.get(name)
        )
        for change in changes:
            assert change.before == seen.get(change.schedule_id)
            if change.after is None:
                del seen[change.schedule_id]
            else:
                assert change.after.since == minute
                seen[change.schedule_id] = change.after
        before = expected


def test_a_watermark_far_below_is_refused_unless_everything_is_kept() -> None:
    for keep_all in (False, True):
        book = PlanBook(live=False, keep_all=keep_all)
        for number in range(200):
            book.add(number, 0, "a", Plan("a", 1, number, (Revision(number, RevisionState.ACTIVE, None, schedule()),)))
            book.advance(number, number + 1)
        if keep_all:
            (change,) = book.advance(200, 5)
            assert identity(change.after) == (1, 4)
        else:
            with pytest.raises(ForgottenWatermark):
                book.advance(200, 5)


def test_what_is_superseded_is_forgotten() -> None:
    book = PlanBook(live=False)
    for number in range(10_000):
        book.add(number, 0, "a", Plan("a", 1, number, (Revision(number, RevisionState.ACTIVE, None, schedule()),)))
        book.advance(number, number + 1)
    assert len(book._offsets) < 5_000
    assert len(book._histories["a"].records) < 200
