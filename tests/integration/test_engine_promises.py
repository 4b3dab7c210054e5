"""Where the engine must not go on, must not be fooled, or must wait: each on a real broker."""

from __future__ import annotations

import time

import pytest

from streams.adapters import codec
from streams.adapters.embedded.broker import EmbeddedBroker
from streams.domain.minutes import MINUTES_PER_DAY, parse_tick
from streams.domain.occurrence import Ended, Fire
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.schedule import Daily
from streams.pipeline.cursors import Cursor
from tests.joining import Installation, Joining
from tests.schedules import schedule
from tests.services import wait_for

START = parse_tick("2027-01-11T00:00Z")
EVERY_MINUTE = Daily(tuple(range(MINUTES_PER_DAY)))


def at_home(here: Installation, partition: int, count: int = 1) -> list[str]:
    return [name for name in (f"s{n}" for n in range(200)) if here.home(name) == partition][:count]


@pytest.fixture
def here(broker: EmbeddedBroker, topic_prefix: str) -> Installation:
    return Installation(broker.bootstrap_servers, topic_prefix)


def test_live_a_plan_counts_from_the_first_minute_that_begins_five_seconds_after_its_append(
    broker: EmbeddedBroker, topic_prefix: str
) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix, scenario=None)
    now = int(time.time()) // 60
    here.tick_all([now - 1])
    names = [at_home(here, partition)[0] for partition in range(2)]
    before_s = time.time()
    here.put(*(schedule(id=name, zone="Etc/UTC", rule=EVERY_MINUTE) for name in names))
    after_s = time.time()
    here.tick_all(range(now, now + 4))
    with Joining(here):
        here.wait_joined(now + 3)
    for name in names:
        first = min(one.instant for one in here.records() if isinstance(one, Fire) and one.schedule_id == name)
        assert int(before_s + 5) // 60 + 1 <= first <= int(after_s + 5.01) // 60 + 1
    live = here.values()
    here.set_cursor({0: 0, 1: 0})
    with Joining(here):
        here.wait_joined(now + 3)
    assert live
    assert sorted(here.values()) == sorted(live * 2)


@pytest.mark.parametrize("wrong", ["misplaced", "garbage", "another id", "no plan"])
def test_a_record_of_schedules_that_no_writer_of_ours_made_stops_its_partition_only(
    here: Installation, wrong: str
) -> None:
    here.put(*(schedule(id=at_home(here, partition)[0], zone="Etc/UTC", rule=EVERY_MINUTE) for partition in range(2)))
    here.tick_all(range(START, START + 5))
    name, other = at_home(here, 0, 2)
    stray = at_home(here, 1)[0]
    plan = Plan(name, 1, 99, (Revision(9, RevisionState.ACTIVE, None, schedule(id=name)),))
    key, value = {
        "misplaced": (stray, codec.encode(Plan(stray, 1, 99, plan.revisions))),
        "garbage": (name, b"garbage"),
        "another id": (other, codec.encode(plan)),
        "no plan": (name, codec.encode(here.tick(START, 0))),
    }[wrong]
    here.producer.produce(here.names.schedules, value, key.encode(), partition=0)
    assert here.producer.flush(30) == 0
    here.tick_all(range(START + 5, START + 10))
    with Joining(here) as engine:
        wait_for(lambda: here.cursors()[1].minute == START + 9, 30, lambda: str(here.cursors()))
        wait_for(lambda: here.cursors()[0].minute == START + 4, 30, lambda: str(here.cursors()))
        problem = engine._round.partitions[0].problem
        assert problem is not None
        assert f"schedules[0], offset {here.end(here.names.schedules, 0) - 1}" in str(problem)
        assert engine._round.partitions[1].problem is None


def test_a_zombies_late_commit_is_mended_and_causes_nothing(here: Installation) -> None:
    here.put(schedule(id=at_home(here, 0)[0], zone="Etc/UTC", rule=EVERY_MINUTE))
    here.tick_all(range(START, START + 20))
    with Joining(here) as engine:
        here.wait_joined(START + 19)
        zombie = Cursor(5, START + 4, 0, "zombie")
        here.set_cursor({0: 5, 1: 5}, zombie.metadata)
        here.tick_all(range(START + 20, START + 22))
        for partition in range(2):
            engine.wake(partition, 22)
        here.wait_joined(START + 21)
    assert [one.instant for one in here.records()] == list(range(START, START + 22))


def test_two_engines_that_both_believe_to_own_a_partition_lose_nothing(here: Installation) -> None:
    """The worst that a group can do to us: nothing is fenced, and still every minute is there, in equal bytes."""
    here.put(schedule(id=at_home(here, 0)[0], zone="Etc/UTC", rule=EVERY_MINUTE))
    with Joining(here) as first, Joining(here) as second:
        for begin in range(START, START + 200, 10):
            here.tick_all(range(begin, begin + 10))
            for engine in (first, second):
                for partition in range(2):
                    engine.wake(partition, begin + 10 - START)
        here.wait_joined(START + 199)
    assert sorted({one.instant for one in here.records()}) == list(range(START, START + 200))
    assert len(set(here.values())) == 200


def test_suspended_nothing_moves_and_what_was_in_memory_goes_on(here: Installation) -> None:
    here.put(schedule(id=at_home(here, 0)[0], zone="Etc/UTC", rule=EVERY_MINUTE))
    here.tick_all(range(START, START + 10))
    with Joining(here) as engine:
        here.wait_joined(START + 9)
        join = engine._round.partitions[0]
        assert engine.suspend(10)
        here.tick_all(range(START + 10, START + 20))
        engine.wake(0, 20)
        time.sleep(0.5)  # long enough for a commit, were there one
        assert here.cursors()[0].minute == START + 9
        assert engine.own([0], 2, 10)
        wait_for(lambda: here.cursors()[0].minute == START + 19, 10)
        assert here.cursors()[0].generation == 2
        assert engine._round.partitions == {0: join}
        assert here.cursors()[1].minute == START + 9
    assert [one.instant for one in here.records()] == list(range(START, START + 20))


def test_a_watermark_that_goes_far_back_is_answered_from_the_beginning(here: Installation) -> None:
    """As two tickers of a scenario could leave it: the plans of then, not those of now."""
    name = at_home(here, 0)[0]
    for number in range(150):
        state = RevisionState.PAUSED if number == 149 else RevisionState.ACTIVE
        here.put(schedule(id=name, zone="Etc/UTC", rule=EVERY_MINUTE), state=state)
    for number in range(150):
        here.send(here.tick(START + number, 0, watermark=number + 1), here.tick(START + number, 1))
    here.tick_all(range(START + 150, START + 153), watermark=0)
    here.send(here.tick(START + 153, 0, watermark=1), here.tick(START + 153, 1))
    assert here.producer.flush(30) == 0
    with Joining(here):
        here.wait_joined(START + 153)
    records = here.records()
    assert [one.instant for one in records if isinstance(one, Fire)] == [*range(START, START + 149), START + 153]
    assert [one.instant for one in records if isinstance(one, Ended)] == [START + 149]
    revisions = [one.revision for one in records if isinstance(one, Fire)]
    assert revisions == [*range(1, 150), 1]
