"""`townclock ticker` as a process on a real broker."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME
from confluent_kafka.admin import NewPartitions

from streams.adapters import codec
from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.kafka import topics
from streams.adapters.kafka.tick_log import KafkaTickLog
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.domain.minutes import format_tick, parse_tick
from streams.domain.tick import Tick
from streams.pipeline.tick import Stamp, Ticker
from tests.joining import Installation, Process, read_topic
from tests.schedules import schedule
from tests.services import unique_name, wait_for

START = parse_tick("2026-10-25T00:00Z")


def ticks(here: Installation, partition: int) -> list[Tick]:
    return [codec.decode(m.value()) for m in read_topic(here.servers, here.names.ticks, [partition])]  # type: ignore[misc]


def test_a_scenario_is_ticked_to_its_end_and_went_on_with(
    broker: EmbeddedBroker, topic_prefix: str, tmp_path: Path
) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix, partitions=3)
    config = here.settings(tmp_path)
    here.put(*(schedule(id=f"s{n}") for n in range(9)))
    for end in (START + 700, START + 1_440):
        with Process(tmp_path, config, "ticker", "--from", format_tick(START), "--to", format_tick(end)) as ticker:
            assert ticker.process.wait(60) == 0, ticker.text
        here.put(schedule(id="s0"))
    for partition in range(3):
        found = ticks(here, partition)
        assert [tick.minute for tick in found] == list(range(START, START + 1_440))
        assert {tick.scenario for tick in found} == {"trial"}
        marks = [tick.watermark for tick in found]
        assert len(set(marks[:700])) == len(set(marks[700:])) == 1
        assert marks[-1] - marks[0] == (1 if partition == here.home("s0") else 0)


def test_live_it_appends_what_is_missing_at_once_and_stops_when_told(
    broker: EmbeddedBroker, topic_prefix: str, tmp_path: Path
) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix, scenario=None)
    before = int(time.time()) // 60 - 90
    here.tick_all([before])
    with Process(tmp_path, here.settings(tmp_path), "ticker") as ticker:
        wait_for(
            lambda: all(ticks(here, p)[-1].minute >= int(time.time()) // 60 for p in range(2)), 30, lambda: ticker.text
        )
        assert ticker.terminate() == 0, ticker.text
    for partition in range(2):
        minutes = [tick.minute for tick in ticks(here, partition)]
        last = minutes[-1]
        assert sorted(set(minutes)) == list(range(before, last + 1))
        assert last <= time.time() // 60
    for message in read_topic(here.servers, here.names.ticks, [0, 1]):
        kind, at_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        tick = codec.decode(message.value())
        assert isinstance(tick, Tick)
        assert at_ms >= tick.minute * 60_000


def test_options_that_do_not_fit_the_installation_are_refused(
    broker: EmbeddedBroker, topic_prefix: str, tmp_path: Path
) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix)
    config = here.settings(tmp_path)
    for arguments, said in [
        ((), "--from UTC --to UTC"),
        (("--from", "2026-10-25T00:00Z"), "--from UTC --to UTC"),
        (("--from", "2026-10-25T00:00Z", "--to", "2026-10-25T00:00Z"), "not after"),
        (("--from", "noon", "--to", "2026-10-25T00:00Z"), "--from 'noon'"),
    ]:
        with Process(tmp_path, config, "ticker", *arguments) as ticker:
            assert ticker.process.wait(60) == 2, ticker.text
            assert said in ticker.text
    here.tick_all([START], scenario=None)
    with Process(tmp_path, config, "ticker", "--from", format_tick(START), "--to", format_tick(START + 9)) as ticker:
        assert ticker.process.wait(60) == 1, ticker.text
        assert "live clock" in ticker.text
    assert all(len(ticks(here, partition)) == 1 for partition in range(2))


def test_a_restart_of_the_broker_is_waited_out(services_folder: Path) -> None:
    with EmbeddedBroker(services_folder / unique_name("k")) as own:
        here = Installation(own.bootstrap_servers, "away-")
        log = KafkaTickLog(here.servers, here.names, 2, lambda: False)
        ticker = Ticker(log, Stamp("trial", here.topic_id, 2), lambda: 0)
        assert ticker.append_missing(START, START + 9) == 20
        own.kill()
        with pytest.raises(ServiceUnreachable):
            ticker.append_missing(START, START + 19)
        own.start()

        def goes_on() -> bool:
            try:
                return ticker.append_missing(START, START + 19) == 0
            except ServiceUnreachable:
                return False

        wait_for(goes_on, 60, "it never went on", poll_s=0.2)
        for partition in range(2):
            minutes = [tick.minute for tick in ticks(here, partition)]
            assert sorted(set(minutes)) == list(range(START, START + 20))


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_log_tells_last_ticks_and_ends(broker: EmbeddedBroker, topic_prefix: str, partitions: int) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix, partitions=partitions)
    log = KafkaTickLog(here.servers, here.names, partitions, lambda: False)
    assert set(log.last_ticks().values()) == {None}
    here.put(*(schedule(id=f"s{n}") for n in range(20)))
    marks = log.watermarks()
    assert sum(marks.schedules.values()) == 20
    assert marks.tzdata == 2
    written = [here.tick(START + n, p) for n in range(3) for p in range(partitions)]
    before_ms = int(time.time() * 1000) - 1_000
    times = log.append(written)
    assert before_ms <= times.earliest_ms <= times.latest_ms <= time.time() * 1000 + 1_000
    assert log.last_ticks() == {p: here.tick(START + 2, p) for p in range(partitions)}


def refusal(log: KafkaTickLog) -> str | None:
    try:
        log.watermarks()
    except BrokenPromise as error:
        return str(error)
    except ServiceUnreachable:
        pass  # the broker is between the two
    return None


def test_no_tick_speaks_of_schedules_that_got_more_partitions_while_it_ran(
    broker: EmbeddedBroker, topic_prefix: str
) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix)
    log = KafkaTickLog(here.servers, here.names, 2, lambda: False)
    assert refusal(log) is None
    here.admin.create_partitions([NewPartitions(here.names.schedules, 3)])[here.names.schedules].result(30)
    assert "now has 3 partitions, not 2" in wait_for(lambda: refusal(log), 30)


def test_no_tick_takes_schedules_made_anew_for_the_old_ones(broker: EmbeddedBroker, topic_prefix: str) -> None:
    here = Installation(broker.bootstrap_servers, topic_prefix)
    log = KafkaTickLog(here.servers, here.names, 2, lambda: False)
    assert refusal(log) is None
    here.admin.delete_topics([here.names.schedules])[here.names.schedules].result(30)
    topics.create(here.names, ("eu", "us"), here.servers, partitions=2, replication=1)
    assert "created again" in wait_for(lambda: refusal(log), 30)
