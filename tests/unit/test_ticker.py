"""The ticker's step against a log in memory: nothing missing, nothing future, watermarks that are new enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.domain.tick import Tick
from streams.pipeline.tick import BATCH_MINUTES, AppendTimes, Stamp, Ticker, Watermarks, tick_live

MINUTE = 29_000_000
MS = 60_000


class Log:
    """`ticks` in memory, with a broker's clock."""

    def __init__(self, partitions: int = 2, now_ms: int = MINUTE * MS) -> None:
        self.ticks: dict[int, list[Tick]] = {partition: [] for partition in range(partitions)}
        self.now_ms = now_ms
        self.broker_ahead_ms = 0
        self.ends = 10
        self.fail_after: int | None = None
        self.watermark_reads: list[int] = []

    def clock(self) -> int:
        return self.now_ms

    def last_ticks(self) -> Mapping[int, Tick | None]:
        return {partition: ticks[-1] if ticks else None for partition, ticks in self.ticks.items()}

    def watermarks(self) -> Watermarks:
        self.watermark_reads.append(self.now_ms)
        return Watermarks({partition: self.ends + partition for partition in self.ticks}, 3)

    def append(self, ticks: Sequence[Tick]) -> AppendTimes:
        for number, tick in enumerate(ticks):
            if number == self.fail_after:
                self.fail_after = None
                raise ServiceUnreachable("away")
            self.ticks[tick.partition].append(tick)
        at_ms = self.now_ms + self.broker_ahead_ms
        return AppendTimes(at_ms, at_ms)

    def minutes(self, partition: int = 0) -> list[int]:
        return [tick.minute for tick in self.ticks[partition]]

    def ticker(self, scenario: str | None = None) -> Ticker:
        return Ticker(self, Stamp(scenario, "id", len(self.ticks)), self.clock)


def test_the_first_ticker_begins_with_the_minute_that_has_begun_and_waits_for_the_next() -> None:
    log = Log(now_ms=MINUTE * MS + 1_500)
    ticker = log.ticker()
    assert tick_live(ticker, log.clock) == 0
    assert tick_live(ticker, log.clock) == pytest.approx(58.5)
    assert log.minutes(0) == log.minutes(1) == [MINUTE]
    tick = log.ticks[1][0]
    assert (tick.watermark, tick.tzdata_watermark, tick.partition, tick.partition_count) == (11, 3, 1, 2)
    assert (tick.schedules_topic_id, tick.scenario, tick.produced_at_ms) == ("id", None, log.now_ms)


def test_every_minute_that_passed_meanwhile_is_appended_in_order_and_in_batches() -> None:
    log = Log()
    tick_live(log.ticker(), log.clock)
    log.now_ms += 1_200 * MS + 10
    ticker = log.ticker()
    while tick_live(ticker, log.clock) == 0:
        pass
    assert sorted(set(log.minutes())) == list(range(MINUTE, MINUTE + 1_201))
    assert log.minutes(1) == list(range(MINUTE, MINUTE + 1_201))
    assert len(log.watermark_reads) == 1 + -(-1_200 // BATCH_MINUTES)


def test_watermarks_are_read_after_every_minute_of_their_batch_began() -> None:
    log = Log()
    ticker = log.ticker()
    for step in range(0, 5 * MS, 7_000):
        log.now_ms = MINUTE * MS + step
        log.ends += 1
        while tick_live(ticker, log.clock) == 0:
            pass
    for tick in log.ticks[0]:
        ends = {10 + n + 1: MINUTE * MS + step for n, step in enumerate(range(0, 5 * MS, 7_000))}
        assert ends[tick.watermark] >= tick.minute * MS


def test_a_clock_that_goes_back_a_little_appends_nothing_new() -> None:
    log = Log()
    ticker = log.ticker()
    tick_live(ticker, log.clock)
    log.now_ms -= 1_000
    assert tick_live(ticker, log.clock) == pytest.approx(1)
    log.now_ms += 1_500
    assert tick_live(ticker, log.clock) > 0
    assert set(log.minutes()) == {MINUTE}


@pytest.mark.parametrize(
    ("broker_too", "said"), [(True, "already holds minute"), (False, "180000 ms behind the broker")]
)
def test_a_clock_set_back_is_told_and_not_waited_for_in_silence(broker_too: bool, said: str) -> None:
    log = Log()
    ticker = log.ticker()
    tick_live(ticker, log.clock)
    log.now_ms -= 3 * MS
    log.broker_ahead_ms = 0 if broker_too else 3 * MS
    for each in (ticker, log.ticker()):
        with pytest.raises(BrokenPromise, match=said):
            tick_live(each, log.clock)
    assert set(log.minutes()) == {MINUTE}
    log.now_ms += 4 * MS
    log.broker_ahead_ms = 0
    while tick_live(ticker, log.clock) == 0:
        pass
    assert sorted(set(log.minutes())) == [MINUTE, MINUTE + 1]


def test_a_clock_set_forward_while_it_runs_is_found_before_a_future_minute_is_appended() -> None:
    log = Log()
    ticker = log.ticker()
    tick_live(ticker, log.clock)
    log.now_ms += 10 * MS
    log.broker_ahead_ms = -10 * MS
    with pytest.raises(BrokenPromise, match="600000 ms ahead of"):
        tick_live(ticker, log.clock)
    assert set(log.minutes()) == {MINUTE}


def test_a_partition_that_got_no_first_tick_begins_where_the_others_did() -> None:
    """The very first append failed halfway, and was tried again minutes later."""
    log = Log()
    log.fail_after = 1
    with pytest.raises(ServiceUnreachable):
        tick_live(log.ticker(), log.clock)
    assert (log.minutes(0), log.minutes(1)) == ([MINUTE], [])
    log.now_ms += 3 * MS
    ticker = log.ticker()
    while tick_live(ticker, log.clock) == 0:
        pass
    for partition in log.ticks:
        assert sorted(set(log.minutes(partition))) == [MINUTE + n for n in range(4)]


@pytest.mark.parametrize("fail_after", [0, 1, 2, 3])
def test_after_a_failure_the_log_is_read_and_nothing_is_missing(fail_after: int) -> None:
    log = Log()
    ticker = log.ticker()
    tick_live(ticker, log.clock)
    log.now_ms += 2 * MS
    log.fail_after = fail_after
    with pytest.raises(ServiceUnreachable):
        tick_live(ticker, log.clock)
    while tick_live(ticker, log.clock) == 0:
        pass
    for partition in log.ticks:
        assert sorted(set(log.minutes(partition))) == [MINUTE, MINUTE + 1, MINUTE + 2]


@pytest.mark.parametrize("ahead_ms", [2_500, -2_500])
def test_clocks_apart_by_half_the_skew_stop_it(ahead_ms: int) -> None:
    log = Log()
    log.broker_ahead_ms = ahead_ms
    with pytest.raises(BrokenPromise, match=r"2500 ms (behind|ahead of) the broker's append times"):
        tick_live(log.ticker(), log.clock)


def test_a_clock_far_ahead_is_found_before_a_future_minute_is_appended() -> None:
    log = Log()
    tick_live(log.ticker(), log.clock)
    log.now_ms += 10 * MS
    log.broker_ahead_ms = -10 * MS
    with pytest.raises(BrokenPromise, match="600000 ms ahead of"):
        tick_live(log.ticker(), log.clock)
    assert set(log.minutes()) == {MINUTE}


def test_a_scenario_is_written_whatever_the_clocks_say_and_goes_on_after_its_last_tick() -> None:
    log = Log()
    log.broker_ahead_ms = 1 << 40
    ticker = log.ticker("trial")
    while ticker.append_missing(100, 104):
        pass
    log.ends = 20
    again = log.ticker("trial")
    while again.append_missing(100, 107):
        pass
    assert log.minutes() == list(range(100, 108))
    assert [tick.watermark for tick in log.ticks[0]] == [10] * 5 + [20] * 3


@pytest.mark.parametrize(("before", "after"), [(None, "trial"), ("trial", None), ("trial", "other")])
def test_live_and_scenario_ticks_are_never_mixed(before: str | None, after: str | None) -> None:
    log = Log()
    log.ticker(before).append_missing(MINUTE, MINUTE)
    with pytest.raises(BrokenPromise, match="topic_prefix"):
        log.ticker(after).append_missing(MINUTE, MINUTE + 1)
    assert log.minutes() == [MINUTE]
