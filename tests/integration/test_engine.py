"""The engine of joiners on a real broker: what comes out, once and in order, whatever happens to it."""

from __future__ import annotations

import pytest

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.domain.keys import label_key
from streams.domain.minutes import parse_label, parse_tick
from streams.domain.occurrence import Ended, Fire
from streams.domain.plan import RevisionState
from streams.domain.schedule import Daily, Gap, Overlap, Policy
from tests.joining import Installation, Joining
from tests.schedules import schedule
from tests.services import wait_for

START = parse_tick("2026-10-25T00:00Z")  # Berlin's 02:00 for the first time; again at 01:00Z
BERLIN = [schedule(id=f"berlin-{n}", rule=Daily((120 + n, 150)), region="eu") for n in range(6)]
BOTH = schedule(id="both", policy=Policy(Gap.SKIP, Overlap.BOTH), rule=Daily((150,)), region="us")


@pytest.fixture
def here(broker: EmbeddedBroker, topic_prefix: str) -> Installation:
    return Installation(broker.bootstrap_servers, topic_prefix)


def expected_first_hour() -> set[str]:
    keys = {label_key(one.id, parse_label("2026-10-25T02:30")) for one in [*BERLIN, BOTH]}
    return keys | {label_key(one.id, parse_label(f"2026-10-25T02:{n:02d}")) for n, one in enumerate(BERLIN)}


def test_plans_and_ticks_make_the_expected_keys_once_on_their_schedules_partition(here: Installation) -> None:
    here.put(*BERLIN, BOTH)
    here.tick_all(range(START, START + 60))
    with Joining(here) as engine:
        here.wait_joined(START + 59)
        here.tick_all(range(START + 60, START + 120))
        for partition in range(here.partitions):
            engine.wake(partition, here.end(here.names.ticks, partition))
        here.wait_joined(START + 119)
    second = label_key("both", parse_label("2026-10-25T02:30"), 1)
    records = here.records()
    assert sorted(one.key for one in records if isinstance(one, Fire)) == sorted([*expected_first_hour(), second])
    assert len(records) == len(expected_first_hour()) + 1
    for region, partition, _, key, _, headers in here.occurrences():
        assert partition == here.home(key.decode())
        assert region == ("us" if key == b"both" else "eu")
        named = dict(headers)
        assert named["ce_type"] == b"townclock.occurrence.fire"
        assert named["ce_source"] == b"/schedules/" + key
        assert named["tc_date"] == b"2026-10-25"
        assert named["ce_id"].decode() in expected_first_hour() | {second}
        assert named.keys() >= {"ce_specversion", "ce_time", "traceparent"}


def test_a_restart_in_the_middle_changes_nothing(here: Installation) -> None:
    """Between the two copies of 02:30, after which a joiner without a past would take the second for the only one."""
    here.put(*BERLIN, BOTH)
    for begin in range(START, START + 120, 20):
        here.tick_all(range(begin, begin + 20))
        with Joining(here):
            here.wait_joined(begin + 19)
    keys = [one.key for one in here.records() if isinstance(one, Fire)]
    second = label_key("both", parse_label("2026-10-25T02:30"), 1)
    assert sorted(keys) == sorted([*expected_first_hour(), second])


def test_ends_are_found_across_a_restart(here: Installation) -> None:
    here.put(*BERLIN)
    here.tick_all(range(START, START + 5))
    with Joining(here):
        here.wait_joined(START + 4)
    here.put(BERLIN[5], state=RevisionState.PAUSED)
    here.put(BERLIN[4], state=RevisionState.DELETED)
    here.tick_all(range(START + 5, START + 60))
    with Joining(here):
        here.wait_joined(START + 59)
    ends = sorted((one.schedule_id, one.reason, one.instant) for one in here.records() if isinstance(one, Ended))
    assert ends == [("berlin-4", "deleted", START + 5), ("berlin-5", "paused", START + 5)]
    fired = {one.schedule_id for one in here.records() if isinstance(one, Fire) and one.instant > START + 5}
    assert not fired & {"berlin-4", "berlin-5"}


def test_an_operators_reset_replays_the_same_bytes(here: Installation) -> None:
    here.put(*BERLIN, BOTH)
    here.tick_all(range(START, START + 40))
    here.put(BERLIN[0], state=RevisionState.PAUSED)
    here.tick_all(range(START + 40, START + 120))
    with Joining(here) as engine:
        here.wait_joined(START + 119)
        before = here.occurrences()
        here.set_cursor(dict.fromkeys(range(here.partitions), 20))
        for partition in range(here.partitions):
            engine.wake(partition, 0)
        wait_for(lambda: len(here.occurrences()) > len(before), 20, "nothing was replayed")
        here.wait_joined(START + 119)
    again = here.occurrences()
    replayed = [seen[3:] for seen in again if seen[:3] not in {known[:3] for known in before}]
    expected = [seen[3:] for seen in before if dict(seen[5])["ce_time"] >= b"2026-10-25T00:20"]
    assert replayed == expected
    assert len({seen[4] for seen in again}) == len(before)


def test_duplicate_late_and_missing_ticks_are_evened_out(here: Installation) -> None:
    """Two tickers that overlap, a lost produce, and a reset onto a repeated tick."""
    here.put(*BERLIN, BOTH)
    minutes = [*range(10), *range(5, 12), *range(40, 45), *range(2, 44), *range(45, 60)]
    here.tick_all([START + minute for minute in minutes])
    with Joining(here):
        here.wait_joined(START + 59)
    first = here.values()
    assert {one.key for one in here.records() if isinstance(one, Fire)} == expected_first_hour()
    assert len(first) == len(expected_first_hour())
    repeated = len(range(10)) + 3  # the second tick of minute 8
    here.set_cursor(dict.fromkeys(range(here.partitions), repeated))
    with Joining(here):
        here.wait_joined(START + 59)
    replayed = here.values()
    expected = [value for value, one in zip(first, here.records(), strict=False) if one.instant >= START + 8]
    assert sorted(replayed) == sorted([*first, *expected])
