"""What `ended` says, who gets it, and what the joiner refuses to evaluate."""

from __future__ import annotations

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.asof import PlanBook
from streams.domain.errors import BrokenPromise
from streams.domain.join import Joiner
from streams.domain.keys import elapsed_key
from streams.domain.minutes import parse_day, parse_tick
from streams.domain.occurrence import Ended, Fire, OccurrenceRecord, TickSource
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.schedule import Daily, Every, LatePolicy, Schedule
from tests.schedules import schedule

ACTIVE, PAUSED, DELETED = RevisionState.ACTIVE, RevisionState.PAUSED, RevisionState.DELETED
UTC_DAILY = schedule(zone="Etc/UTC", rule=Daily((3,)))


class Partition:
    """A book and its joiner, one record a minute."""

    def __init__(self) -> None:
        self.book, self.joiner = PlanBook(live=False), Joiner(wheel_bundle(), None)
        self.offset = 0

    def at(self, tick: int, *plans: Plan | tuple[str, None]) -> list[OccurrenceRecord]:
        for plan in plans:
            name, value = plan if isinstance(plan, tuple) else (plan.schedule_id, plan)
            self.book.add(self.offset, 0, name, value)
            self.offset += 1
        return self.joiner.join(tick, self.book.advance(tick, self.offset), TickSource(0, tick, self.offset))


def plan(sequence: int, state: RevisionState, incarnation: int = 1, one: Schedule = UTC_DAILY) -> Plan:
    return Plan(one.id, incarnation, sequence, (Revision(sequence, state, None, one),))


@pytest.mark.parametrize(("state", "reason"), [(PAUSED, "paused"), (DELETED, "deleted")])
def test_a_pause_or_delete_ends_the_schedule_once_before_what_it_would_have_fired(
    state: RevisionState, reason: str
) -> None:
    partition = Partition()
    assert partition.at(2, plan(1, ACTIVE)) == []
    (ended,) = partition.at(3, plan(2, state))
    assert ended == Ended("a", 1, 2, reason, 3, TickSource(0, 3, 2), "eu", "default", None)
    assert partition.at(4, plan(3, DELETED)) == []


def test_resuming_and_pausing_again_ends_it_again() -> None:
    partition = Partition()
    partition.at(1, plan(1, ACTIVE))
    assert len(partition.at(2, plan(2, PAUSED))) == 1
    (fire,) = partition.at(3, plan(3, ACTIVE))
    assert isinstance(fire, Fire)
    assert (fire.revision, fire.instant, fire.due_s, fire.deliver_by_s) == (3, 3, 180, None)
    assert len(partition.at(4, plan(4, PAUSED))) == 1


def test_a_delete_and_a_new_life_within_one_minute_end_the_old_life_and_the_new_one_fires() -> None:
    partition = Partition()
    partition.at(2, plan(1, ACTIVE))
    ended, fire = partition.at(3, plan(2, DELETED), plan(3, ACTIVE, incarnation=2))
    assert ended == Ended("a", 1, 1, "deleted", 3, TickSource(0, 3, 3), "eu", "default", None)
    assert isinstance(fire, Fire)
    assert (fire.incarnation, fire.revision) == (2, 3)


def test_an_edit_and_a_plan_seen_twice_end_nothing() -> None:
    partition = Partition()
    partition.at(1, plan(1, ACTIVE))
    assert partition.at(2, plan(2, ACTIVE), plan(2, ACTIVE), plan(1, PAUSED)) == []


def test_a_null_value_ends_what_was_still_active() -> None:
    partition = Partition()
    partition.at(1, plan(1, ACTIVE))
    (ended,) = partition.at(2, ("a", None))
    assert isinstance(ended, Ended)
    assert ended.reason == "deleted"


def test_records_are_in_order_of_the_schedule_id() -> None:
    partition = Partition()
    names = ["z", "b", "é", "a", "m"]
    partition.at(2, *(plan(1, ACTIVE, one=schedule(id=n, zone="Etc/UTC", rule=Daily((3,)))) for n in names))
    made = partition.at(3, plan(2, PAUSED, one=schedule(id="m", zone="Etc/UTC", rule=Daily((3,)))))
    assert [record.schedule_id for record in made] == sorted(names)


@pytest.mark.parametrize(
    ("one", "named"),
    [
        (schedule(zone="Mars/Olympus"), "Mars/Olympus"),
        (schedule(spread_s=60), "spread"),
        (schedule(late_policy=LatePolicy.LATEST), "latest"),
    ],
)
def test_what_this_release_cannot_evaluate_is_refused_by_name(one: Schedule, named: str) -> None:
    with pytest.raises(BrokenPromise, match=named):
        Partition().at(1, plan(1, ACTIVE, one=one))


def test_an_elapsed_rule_fires_by_its_utc_minute() -> None:
    partition = Partition()
    anchor = parse_tick("2026-10-25T00:00Z")  # the hour from 00:00Z to 01:00Z comes to Berlin's clocks a second time
    pulse = schedule(id="pulse", rule=Every(30, anchor))
    made = [partition.at(anchor - 30, plan(1, ACTIVE, one=pulse))]
    made += [partition.at(tick) for tick in range(anchor - 29, anchor + 121)]
    fires = [one for records in made for one in records if isinstance(one, Fire)]
    assert [one.instant for one in fires] == [anchor + n for n in (0, 30, 60, 90, 120)]
    assert {(one.nominal, one.copy, one.ledger_day) for one in fires} == {(None, 0, parse_day("2026-10-25"))}
    assert [one.key for one in fires] == [elapsed_key("pulse", one.instant) for one in fires]
