"""`townclock processor` as processes on a real broker: killed, stalled, wiped, cut off, and told to stop."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.domain.keys import label_key
from streams.domain.minutes import MINUTES_PER_DAY, parse_tick
from streams.domain.occurrence import Fire
from streams.domain.schedule import Daily, Schedule
from tests.joining import Installation, Process
from tests.schedules import schedule
from tests.services import unique_name, wait_for

START = parse_tick("2027-01-11T00:00Z")
PARTITIONS = 4
SCHEDULES = [
    schedule(
        id=f"s{n}", zone="Etc/UTC", rule=Daily(tuple(range(n % 7, MINUTES_PER_DAY, 7))), region=("eu", "us")[n % 2]
    )
    for n in range(28)
]


def expected(minutes: range) -> Counter[str]:
    return Counter(
        label_key(one.id, minute)
        for one in SCHEDULES
        for minute in minutes
        if minute % MINUTES_PER_DAY in set(_at(one))
    )


def _at(one: Schedule) -> tuple[int, ...]:
    assert isinstance(one.rule, Daily)
    return one.rule.at


def emitted(here: Installation) -> Counter[str]:
    return Counter(one.key for one in here.records() if isinstance(one, Fire))


@pytest.fixture
def here(broker: EmbeddedBroker, topic_prefix: str) -> Installation:
    made = Installation(broker.bootstrap_servers, topic_prefix, partitions=PARTITIONS)
    made.put(*SCHEDULES)
    return made


def test_it_joins_and_stops_within_five_seconds_of_sigterm_and_goes_on_when_started_again(
    here: Installation, tmp_path: Path
) -> None:
    config = here.settings(tmp_path)
    for begin in (START, START + 300):
        here.tick_all(range(begin, begin + 150))
        with Process(tmp_path, config, "processor") as worker:
            here.wait_joined(begin + 149, 60)
            here.tick_all(range(begin + 150, begin + 300))
            here.wait_joined(begin + 299)
            assert worker.terminate(5) == 0, worker.text
    assert emitted(here) == expected(range(START, START + 600))
    assert "partition_stopped" not in worker.text


def test_a_killed_worker_is_replaced_within_fifteen_seconds_and_nothing_is_lost(
    here: Installation, tmp_path: Path
) -> None:
    config = here.settings(tmp_path)
    with Process(tmp_path, config, "processor") as first, Process(tmp_path, config, "processor") as second:
        for worker in (first, second):
            wait_for(lambda log=worker: '"partitions": [' in log.text, 60, lambda log=worker: log.text)
        wait_for(lambda: '"partitions": [0, 1, 2, 3]' not in first.text.splitlines()[-1], 30, lambda: first.text)
        minute = START
        for _ in range(20):
            here.tick_all(range(minute, minute + 20))
            minute += 20
        first.process.kill()
        killed_s = time.monotonic()
        here.tick_all(range(minute, minute + 200))
        here.wait_joined(minute + 199, 25)
        assert time.monotonic() - killed_s < 15
        assert second.terminate(5) == 0, second.text
    found, wanted = emitted(here), expected(range(START, minute + 200))
    assert found.keys() == wanted.keys()
    assert len({seen[4] for seen in here.occurrences()}) == len(wanted)


def test_joiners_go_on_while_fausts_fetcher_stands_still(here: Installation, tmp_path: Path) -> None:
    with Process(tmp_path, here.settings(tmp_path), "stalled", module="tests.hosts") as worker:
        wait_for(lambda: "stalled" in worker.text, 60, lambda: worker.text)
        for begin in range(START, START + 90, 30):
            here.tick_all(range(begin, begin + 30))
            here.wait_joined(begin + 29, 10)
        assert worker.terminate(10) == 0, worker.text
        assert "wakes 0\n" in worker.text
    assert emitted(here) == expected(range(START, START + 90))


def test_a_bug_in_the_joiners_ends_the_process_and_says_so(here: Installation, tmp_path: Path) -> None:
    with Process(tmp_path, here.settings(tmp_path), "failing", module="tests.hosts") as worker:
        assert worker.process.wait(60) == 1, worker.text
        assert "joiners_failed" in worker.text
        assert "a bug" in worker.text


def test_a_signal_that_comes_early_is_heeded(here: Installation, tmp_path: Path) -> None:
    for moment in ("processor_starts", "partitions_owned"):
        with Process(tmp_path, here.settings(tmp_path), "processor") as worker:
            wait_for(lambda w=worker, m=moment: m in w.text, 60, lambda w=worker: w.text, poll_s=0.001)
            assert worker.terminate(8) == 0, worker.text


@pytest.mark.parametrize("wiped", ["deleted", "back at the beginning"])
def test_fausts_own_offsets_mean_nothing(here: Installation, tmp_path: Path, wiped: str) -> None:
    config, group = here.settings(tmp_path), here.names.processor_host_group
    here.tick_all(range(START, START + 60))
    with Process(tmp_path, config, "processor") as worker:
        here.wait_joined(START + 59, 60)
        assert worker.terminate(5) == 0, worker.text
    if wiped == "deleted":
        here.admin.delete_consumer_groups([group])[group].result(30)
    else:
        items = [TopicPartition(here.names.ticks, partition, 0) for partition in range(PARTITIONS)]
        for future in here.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, items)]).values():
            assert all(item.error is None for item in future.result(30).topic_partitions)
    here.tick_all(range(START + 60, START + 120))
    with Process(tmp_path, config, "processor") as worker:
        here.wait_joined(START + 119, 60)
        here.tick_all(range(START + 120, START + 180))
        here.wait_joined(START + 179)
        assert worker.terminate(5) == 0, worker.text
    assert emitted(here) == expected(range(START, START + 180))


def test_a_broker_that_is_away_for_a_while_is_waited_for(services_folder: Path, tmp_path: Path) -> None:
    with EmbeddedBroker(services_folder / unique_name("k")) as own:
        here = Installation(own.bootstrap_servers, "away-", partitions=PARTITIONS)
        here.put(*SCHEDULES)
        with Process(tmp_path, here.settings(tmp_path), "processor") as worker:
            here.tick_all(range(START, START + 60))
            here.wait_joined(START + 59, 60)
            own.kill()
            wait_for(lambda: "broker_trouble" in worker.text, 60, lambda: worker.text)
            own.start()
            here.wait_for_leaders()
            here.tick_all(range(START + 60, START + 120))
            here.wait_joined(START + 119, 90)
            assert worker.process.poll() is None, worker.text
            assert worker.terminate(5) == 0, worker.text
        found, wanted = emitted(here), expected(range(START, START + 120))
        assert found.keys() == wanted.keys()


def test_it_stops_in_time_though_the_broker_does_not_answer(services_folder: Path, tmp_path: Path) -> None:
    with EmbeddedBroker(services_folder / unique_name("k")) as own:
        here = Installation(own.bootstrap_servers, "hung-", partitions=PARTITIONS)
        here.tick_all(range(START, START + 10))
        assert own.pid is not None
        for away in (signal.SIGSTOP, signal.SIGKILL):
            with Process(tmp_path, here.settings(tmp_path), "processor") as worker:
                wait_for(lambda log=worker: "partitions_owned" in log.text, 60, lambda log=worker: log.text)
                here.wait_joined(START + 9)
                os.kill(own.pid, away)
                wait_for(lambda log=worker: "broker_trouble" in log.text, 60, lambda log=worker: log.text)
                assert worker.terminate(5) == 0, worker.text
                assert "Traceback" not in worker.text
            if away is signal.SIGSTOP:
                os.kill(own.pid, signal.SIGCONT)
                here.wait_for_leaders()


def test_a_broken_promise_or_a_missing_cursor_stops_a_partition_alone_and_says_why(
    here: Installation, tmp_path: Path
) -> None:
    here.tick_all(range(START, START + 10))
    stray = here.tick(START + 10, 1, watermark=10_000)
    other = here.tick(START + 10, 2, scenario=None)
    here.admin.delete_consumer_groups([here.names.processor_group])[here.names.processor_group].result(30)
    here.set_cursor({1: 0, 2: 0, 3: 0})
    here.send(stray, other)
    assert here.producer.flush(30) == 0
    with Process(tmp_path, here.settings(tmp_path), "processor") as worker:
        for said in ("has no cursor on", "is beyond the end", "it belongs to a live clock"):
            wait_for(lambda said=said: said in worker.text, 60, lambda: worker.text)
        here.send(here.tick(START + 10, 3))
        assert here.producer.flush(30) == 0
        wait_for(lambda: here.cursors()[3].minute == START + 10, 30, lambda: worker.text)
        assert {p: here.cursors()[p].minute for p in (1, 2)} == {1: START + 9, 2: START + 9}
        assert here.cursors().keys() == {1, 2, 3}
        here.set_cursor({0: 0})
        wait_for(lambda: here.cursors()[0].minute == START + 9, 30, lambda: worker.text)
        assert worker.terminate(5) == 0, worker.text
    assert worker.text.count("partition_stopped") == 3


@pytest.mark.parametrize(
    "command", [["processor"], ["ticker", "--from", "2027-01-11T00:00Z", "--to", "2027-01-12T00:00Z"]]
)
def test_without_a_broker_it_says_so_and_waits(tmp_path: Path, command: list[str]) -> None:
    config = tmp_path / "townclock.toml"
    config.write_text('scenario = "trial"\n[kafka]\nbootstrap_servers = "127.0.0.1:1"\n[regions.eu]\n')
    with Process(tmp_path, config, *command) as worker:
        wait_for(lambda: "no Kafka broker answers at 127.0.0.1:1" in worker.text, 60, lambda: worker.text)
        assert worker.process.poll() is None
        assert worker.terminate(5) == 0, worker.text


def test_it_does_not_start_on_topics_that_break_a_promise(broker: EmbeddedBroker, tmp_path: Path) -> None:
    config = tmp_path / "townclock.toml"
    config.write_text(
        f'[kafka]\nbootstrap_servers = "{broker.bootstrap_servers}"\ntopic_prefix = "nothing-"\n[regions.eu]\n'
    )
    with Process(tmp_path, config, "processor") as worker:
        assert worker.process.wait(60) == 1
        assert "townclock topics create" in worker.text
        assert "Traceback" not in worker.text
