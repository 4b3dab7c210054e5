"""Minutes that were missed, in a US and an EU zone over the hour that comes twice: each promise fires once."""

from __future__ import annotations

from collections import Counter

import pytest

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.kafka.tick_log import KafkaTickLog
from streams.domain.keys import label_key
from streams.domain.minutes import parse_label, parse_tick
from streams.domain.occurrence import Fire
from streams.domain.schedule import Daily, Gap, Overlap, Policy, Schedule, Weekly
from streams.pipeline.tick import Stamp, Ticker
from tests.joining import Installation, Joining
from tests.schedules import schedule

# zone, region, first copy of the label, label, weekday
NEW_YORK = ("America/New_York", "us", parse_tick("2026-11-01T05:30Z"), "2026-11-01T01:30")
BERLIN = ("Europe/Berlin", "eu", parse_tick("2026-10-25T00:30Z"), "2026-10-25T02:30")
CASES = pytest.mark.parametrize("case", [NEW_YORK, BERLIN], ids=["US", "EU"])
Case = tuple[str, str, int, str]


def schedules(case: Case) -> list[Schedule]:
    zone, region, _, label = case
    at = (parse_label(label) % 1440,)
    named = {
        "first": (Daily(at), Overlap.FIRST),
        "second": (Daily(at), Overlap.SECOND),
        "both": (Daily(at), Overlap.BOTH),
        "sunday": (Weekly((6,), at), Overlap.FIRST),
        "monday": (Weekly((0,), at), Overlap.FIRST),
    }
    return [
        schedule(id=name, zone=zone, region=region, rule=rule, policy=Policy(Gap.SKIP, overlap))
        for name, (rule, overlap) in named.items()
    ]


def promised(case: Case) -> Counter[tuple[str, int]]:
    """(key, instant) over the four hours around both copies."""
    _, _, first, label = case
    at = parse_label(label)
    return Counter(
        [
            (label_key("first", at), first),
            (label_key("sunday", at), first),
            (label_key("second", at), first + 60),
            (label_key("both", at), first),
            (label_key("both", at, 1), first + 60),
        ]
    )


def fired(here: Installation) -> Counter[tuple[str, int]]:
    return Counter((one.key, one.instant) for one in here.records() if isinstance(one, Fire))


def run_ticker(here: Installation, first: int, through: int) -> None:
    """A ticker that lives as long as this call."""
    log = KafkaTickLog(here.servers, here.names, here.partitions, lambda: False)
    ticker = Ticker(log, Stamp(here.scenario, here.topic_id, here.partitions), lambda: 0)
    while ticker.append_missing(first, through):
        pass


@CASES
@pytest.mark.parametrize("stopped_for", [45, 75])
def test_a_ticker_that_stopped_sweeps_the_overdue_minutes_when_it_returns(
    broker: EmbeddedBroker, topic_prefix: str, case: Case, stopped_for: int
) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix)
    here.put(*schedules(case))
    begin = case[2] - 20
    run_ticker(here, begin, begin + 18)
    with Joining(here) as engine:
        here.wait_joined(begin + 18)
        run_ticker(here, begin, begin + 18 + stopped_for)
        for partition in range(here.partitions):
            engine.wake(partition, here.end(here.names.ticks, partition))
        here.wait_joined(begin + 18 + stopped_for)
        swept = fired(here)
        run_ticker(here, begin, begin + 240)
        here.wait_joined(begin + 240)
    assert swept == Counter({one: 1 for one in promised(case) if one[1] <= begin + 18 + stopped_for})
    assert fired(here) == promised(case)


@CASES
@pytest.mark.parametrize("stop_after", [20, 50])
def test_a_restart_with_minutes_to_replay_fires_each_promise_once(
    broker: EmbeddedBroker, topic_prefix: str, case: Case, stop_after: int
) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix)
    here.put(*schedules(case))
    begin = case[2] - 20
    run_ticker(here, begin, begin + stop_after)
    with Joining(here):
        here.wait_joined(begin + stop_after)
    run_ticker(here, begin, begin + 240)
    with Joining(here):
        here.wait_joined(begin + 240)
    assert fired(here) == promised(case)
