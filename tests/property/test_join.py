"""The joiner against the inverse: what fires at a tick is what label -> ticks says, under edits at any tick."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.asof import InForce, PlanBook
from streams.domain.join import Joiner
from streams.domain.keys import label_key
from streams.domain.minutes import MINUTES_PER_DAY, parse_tick
from streams.domain.occurrence import Ended, Fire, TickSource
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.rules import compile_rule
from streams.domain.schedule import POLICIES, Daily, Schedule, Weekly
from tests.effort import examples
from tests.schedules import schedule

WINDOWS = {
    "Europe/Berlin": ["2026-10-25T00:00Z", "2027-03-28T00:00Z"],
    "America/New_York": ["2026-11-01T04:30Z", "2027-03-14T05:30Z"],
    "Australia/Lord_Howe": ["2027-04-03T14:00Z", "2026-10-03T14:30Z"],
    "America/Nuuk": ["2026-10-24T23:30Z", "2027-03-27T23:30Z"],
}
MINUTES = 150
IDS = ("a", "b", "c", "d")


def random_schedule(random: Random, name: str, zone: str, begin: int) -> Schedule:
    offset = wheel_bundle().table(zone).offset_at(begin)
    minutes = tuple(sorted({(begin + offset + random.randrange(-60, 240)) % MINUTES_PER_DAY for _ in range(40)}))
    rule = Daily(minutes) if random.random() < 0.5 else Weekly(tuple(sorted(random.sample(range(7), 5))), minutes)
    return schedule(id=name, zone=zone, rule=rule, policy=random.choice(POLICIES))


def expected_fires(state: InForce, tick: int) -> list[tuple[str, int, int]]:
    """(id, label, copy) by the inverse function, for every label near enough to reach the tick."""
    one = state.revision.schedule
    table, compiled = wheel_bundle().table(one.zone), compile_rule(one.rule)
    middle = tick + table.offset_at(tick)
    found = []
    for label in range(middle - 130, middle + 131):
        if compiled.reaches(*divmod(label, MINUTES_PER_DAY)):
            for firing in table.label_landing(label).firings(one.policy, state.since):
                if firing.tick == tick:
                    found.append((one.id, label, firing.copy))
    return found


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(sorted(WINDOWS)), st.integers(0, 1), st.integers(0, 1 << 32))
def test_fires_and_ends_are_what_the_inverse_function_says(zone: str, which: int, seed: int) -> None:
    random = Random(seed)
    begin = parse_tick(WINDOWS[zone][which])
    book, joiner = PlanBook(live=False), Joiner(wheel_bundle(), "s")
    states: dict[str, InForce] = {}
    offset = 0
    for tick in range(begin, begin + MINUTES):
        for name in IDS:
            if tick == begin or random.random() < 0.02:
                state = RevisionState.ACTIVE if tick == begin else random.choice(list(RevisionState))
                revision = Revision(offset, state, None, random_schedule(random, name, zone, begin))
                book.add(offset, 0, name, Plan(name, random.choice([1, 1, 2]), offset, (revision,)))
                offset += 1
        changes = book.advance(tick, offset)
        records = joiner.join(tick, changes, TickSource(3, tick, offset))
        ended = []
        for change in changes:
            was_active = change.before is not None and change.before.revision.state is RevisionState.ACTIVE
            after = change.after
            assert after is not None
            goes_on = (
                change.before is not None
                and after.revision.state is RevisionState.ACTIVE
                and after.incarnation == change.before.incarnation
            )
            if was_active and not goes_on:
                ended.append(change.schedule_id)
            states[change.schedule_id] = after
        fires = [
            fire
            for name, state in sorted(states.items())
            if state.revision.state is RevisionState.ACTIVE
            for fire in expected_fires(state, tick)
        ]
        assert [one.schedule_id for one in records if isinstance(one, Ended)] == ended
        made = [one for one in records if isinstance(one, Fire)]
        assert [(one.schedule_id, one.nominal, one.copy) for one in made] == sorted(fires)
        assert all(one.key == label_key(one.schedule_id, one.nominal or 0, one.copy) for one in made)
        assert [one.schedule_id for one in records] == sorted(one.schedule_id for one in records)


@pytest.mark.parametrize("since_first", [True, False])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: f"{p.gap}-{p.overlap}")
def test_a_revision_after_the_first_copy_takes_the_second_as_the_only_one(policy, since_first: bool) -> None:  # type: ignore[no-untyped-def]
    """Berlin's 02:30 of 2026-10-25 exists at 00:30Z and 01:30Z."""
    first, second = parse_tick("2026-10-25T00:30Z"), parse_tick("2026-10-25T01:30Z")
    joiner = Joiner(wheel_bundle(), None)
    one = schedule(id="payroll", policy=policy)
    book = PlanBook(live=False)
    book.add(0, 0, "payroll", Plan("payroll", 1, 1, (Revision(1, RevisionState.ACTIVE, None, one),)))
    fired = []
    for tick in range(first - 1, second + 1):
        watermark = 1 if tick >= (first if since_first else first + 1) else 0
        records = joiner.join(tick, book.advance(tick, watermark), TickSource(0, 0, watermark))
        fired += [(tick, one.copy) for one in records if isinstance(one, Fire)]
    if not since_first:
        assert fired == [(second, 0)]
    else:
        assert (
            fired
            == {"first": [(first, 0)], "second": [(second, 0)], "both": [(first, 0), (second, 1)]}[policy.overlap.value]
        )
