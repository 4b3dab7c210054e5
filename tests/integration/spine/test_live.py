"""A live installation: what a scenario writes is refused there, and overdue minutes are swept up to now."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streams.adapters.codec import decode, encode
from streams.adapters.embedded.broker import EmbeddedBroker
from streams.domain.minutes import format_tick
from streams.domain.tick import Tick
from tests.joining import Installation, Process, read_topic
from tests.services import wait_for

PARTITIONS = range(2)


@pytest.fixture
def live(broker: EmbeddedBroker, topic_prefix: str) -> Installation:
    return Installation(broker.bootstrap_servers, topic_prefix, partitions=len(PARTITIONS), scenario=None)


def minute_now() -> int:
    return int(time.time() // 60)


def last_minutes(here: Installation) -> list[int]:
    messages = read_topic(here.servers, here.names.ticks, PARTITIONS)
    ticks = [decode(message.value()) for message in messages]
    return [max(t.minute for t in ticks if isinstance(t, Tick) and t.partition == p) for p in PARTITIONS]


def townclock(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streams", "--config", str(config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_live_installation_refuses_scenario_ticks(live: Installation, tmp_path: Path) -> None:
    """The partition that has them stops alone and says why; the ticker will not add to them."""
    config, start = live.settings(tmp_path), minute_now() - 10
    for minute in range(start, start + 5):
        live.send(live.tick(minute, 0), live.tick(minute, 1))
    live.send(live.tick(start + 5, 0, scenario="autumn"), live.tick(start + 5, 1))
    assert live.producer.flush(30) == 0
    with Process(tmp_path, config, "processor") as processor:
        wait_for(lambda: "partition_stopped" in processor.text, 60, lambda: processor.text)
        live.send(*(live.tick(minute, partition) for partition in PARTITIONS for minute in range(start + 6, start + 9)))
        assert live.producer.flush(30) == 0
        wait_for(lambda: live.cursors()[1].minute == start + 8, 30, lambda: f"{live.cursors()} {processor.text}")
        assert live.cursors()[0].minute == start + 4
        assert processor.terminate(8) == 0
    (stopped,) = [json.loads(line) for line in processor.text.splitlines() if "partition_stopped" in line]
    assert stopped["partition"] == 0
    assert "scenario autumn" in stopped["problem"]
    assert format_tick(start + 5) in stopped["problem"]

    ends = [live.end(live.names.ticks, partition) for partition in PARTITIONS]
    live.producer.produce(live.names.ticks, encode(live.tick(start + 9, 1, scenario="autumn")), partition=1)
    assert live.producer.flush(30) == 0
    refused = townclock(config, "ticker")
    assert refused.returncode == 1
    assert "holds ticks of scenario autumn; this ticker writes for a live clock" in refused.stderr
    assert "Traceback" not in refused.stderr
    asked = townclock(config, "ticker", "--from", format_tick(start), "--to", format_tick(start + 5))
    assert asked.returncode == 2
    assert "--from and --to are for a scenario" in asked.stderr
    assert [live.end(live.names.ticks, partition) for partition in PARTITIONS] == [ends[0], ends[1] + 1]


def test_a_scenario_refuses_live_ticks(live: Installation, tmp_path: Path) -> None:
    start = minute_now() - 10
    live.tick_all(range(start, start + 3))
    live.scenario = "autumn"
    config = live.settings(tmp_path)
    with Process(tmp_path, config, "processor") as processor:
        wait_for(lambda: processor.text.count("partition_stopped") == 2, 60, lambda: processor.text)
        assert processor.terminate(8) == 0
    assert "live" in processor.text
    refused = townclock(config, "ticker", "--from", format_tick(start + 3), "--to", format_tick(start + 5))
    assert refused.returncode == 1
    assert "holds ticks of a live clock; this ticker writes for scenario autumn" in refused.stderr
    assert last_minutes(live) == [start + 2] * 2


def test_a_live_ticker_sweeps_overdue_minutes_up_to_now(live: Installation, tmp_path: Path) -> None:
    """It was away for three quarters of an hour on one partition, and for an hour on the other."""
    config, now = live.settings(tmp_path), minute_now()
    starts = [now - 45, now - 60]
    live.send(*(live.tick(starts[partition], partition) for partition in PARTITIONS))
    assert live.producer.flush(30) == 0
    with Process(tmp_path, config, "processor") as processor, Process(tmp_path, config, "ticker") as ticker:
        wait_for(lambda: min(last_minutes(live)) >= now, 60, lambda: ticker.text)
        wait_for(
            lambda: min(cursor.minute or 0 for cursor in live.cursors().values()) >= now,
            60,
            lambda: f"{live.cursors()} {processor.text}",
        )
        assert ticker.terminate(8) == 0
        assert processor.terminate(8) == 0
    ticks = [decode(message.value()) for message in read_topic(live.servers, live.names.ticks, PARTITIONS)]
    for partition in PARTITIONS:
        minutes = [t.minute for t in ticks if isinstance(t, Tick) and t.partition == partition]
        # the last tick that was there may be repeated: that is how the broker's clock is learnt
        assert sorted(set(minutes)) == list(range(starts[partition], max(minutes) + 1))
        assert len(minutes) - len(set(minutes)) <= 1
        assert max(minutes) <= minute_now()
