"""The ticker's step: append to every partition of `ticks` each minute that is missing, and never a future one.

`ticks` itself is the memory: a ticker reads the last tick of each partition and goes on from there. Several tickers, or
one that starts again, write some minutes twice; the first tick of a minute counts and the others are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from streams.domain.asof import SKEW_MS
from streams.domain.errors import BrokenPromise
from streams.domain.minutes import format_tick
from streams.domain.tick import Tick

BATCH_MINUTES: Final = 500
_TICK_S: Final = 60
_TICK_MS: Final = 60_000
CLOCK_LIMIT_MS: Final = SKEW_MS // 2


class Watermarks(NamedTuple):
    """`read_committed` ends of `schedules`, by partition, and of `tzdata`."""

    schedules: Mapping[int, int]
    tzdata: int


class AppendTimes(NamedTuple):
    """The broker's clock at the first and the last append of some ticks."""

    earliest_ms: int
    latest_ms: int


class TickLog(Protocol):
    """`ticks`, and the ends of what a tick bounds. Errors of the broker are retriable TownclockErrors."""

    def last_ticks(self) -> Mapping[int, Tick | None]:
        """The last record of every partition, none where there is none."""
        ...

    def watermarks(self) -> Watermarks:
        """As of this call."""
        ...

    def append(self, ticks: Sequence[Tick]) -> AppendTimes:
        """Write them, each to its partition, and wait until all are acknowledged.

        Raises a retriable error if some were not: then nothing is known of the others.
        """
        ...


@dataclass(frozen=True, slots=True)
class Stamp:
    """What every tick of an installation says."""

    scenario: str | None
    schedules_topic_id: str
    partition_count: int


class Ticker:
    """Appends missing minutes, batch by batch. After a retriable error the same call is made again.

    `now_ms` is the system clock, in milliseconds since the epoch.
    """

    def __init__(self, log: TickLog, stamp: Stamp, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._stamp = stamp
        self._now_ms = now_ms
        self._next: dict[int, int] = {}
        self._has_more = False

    def append_missing(self, first: int, through: int) -> int:
        """Append the missing minutes up to `through`, at most a batch; how many ticks, 0 once none is missing.

        A partition that has no tick yet begins with `first`, or where the others are if that is earlier. Raises
        BrokenPromise if the log belongs to another clock than this ticker's, and, live, if this clock and the broker's
        differ by half the skew, or if the log holds a minute that has not begun.
        """
        if not self._next or self._is_odd(through):
            self._next = {}
            self._next = self._read_log(first)
        low = min(self._next.values())
        high = min(through, low + BATCH_MINUTES - 1)
        self._has_more = high < through
        if high < low:
            return 0
        ends = self._log.watermarks()
        ticks = [
            self._tick(minute, partition, ends)
            for minute in range(low, high + 1)
            for partition, next_minute in self._next.items()
            if next_minute <= minute
        ]
        try:
            self._append(ticks)
        except BaseException:
            self._next = {}  # what arrived is read from the log
            raise
        self._next = {partition: max(minute, high + 1) for partition, minute in self._next.items()}
        return len(ticks)

    def _is_odd(self, through: int) -> bool:
        """Live: whether this clock shows neither the minute ticked last nor the next. Then the machine slept, or
        its clock was set, and that is compared with the broker's before anything new is said.
        """
        if self._stamp.scenario is not None or self._has_more:
            return False
        return not 0 <= min(self._next.values()) - through <= 1

    def _read_log(self, first: int) -> dict[int, int]:
        last = self._log.last_ticks()
        for partition, tick in last.items():
            if tick is not None and tick.scenario != self._stamp.scenario:
                theirs, ours = (
                    f"scenario {name}" if name else "a live clock" for name in (tick.scenario, self._stamp.scenario)
                )
                raise BrokenPromise(
                    f"ticks[{partition}] holds ticks of {theirs}; this ticker writes for {ours}: "
                    "use another topic_prefix"
                )
        self._probe_clock(last)
        minutes = {partition: tick.minute for partition, tick in last.items() if tick is not None}
        self._require_begun(minutes)
        start = min([first, *minutes.values()])
        return {partition: minutes[partition] + 1 if partition in minutes else start for partition in last}

    def _require_begun(self, minutes: Mapping[int, int]) -> None:
        """Live: no minute of the log is later than now, by a clock that was just compared with the broker's."""
        if self._stamp.scenario is not None or not minutes:
            return
        now_ms = self._now_ms()
        partition = max(minutes, key=minutes.__getitem__)
        if minutes[partition] * _TICK_MS > now_ms + SKEW_MS:
            raise BrokenPromise(
                f"ticks[{partition}] already holds minute {format_tick(minutes[partition])}, and it is "
                f"{format_tick(now_ms // _TICK_MS)}: it was written under a clock that was ahead, and each minute is "
                "ticked once. Start the ticker again when that one has come; if that is too long, make a new "
                "installation, with another topic_prefix and another postgres.schema"
            )

    def _probe_clock(self, last: Mapping[int, Tick | None]) -> None:
        """Live: learn the broker's time before anything new is said, by repeating a tick that will be dropped."""
        known = next((tick for tick in last.values() if tick is not None), None)
        if known is not None and self._stamp.scenario is None:
            self._append([known])

    def _append(self, ticks: Sequence[Tick]) -> None:
        before_ms = self._now_ms()
        times = self._log.append(ticks)
        if self._stamp.scenario is not None:
            return
        ahead_ms = before_ms - times.earliest_ms
        behind_ms = times.latest_ms - self._now_ms()
        if max(ahead_ms, behind_ms) >= CLOCK_LIMIT_MS:
            off = f"{ahead_ms} ms ahead of" if ahead_ms > behind_ms else f"{behind_ms} ms behind"
            raise BrokenPromise(
                f"this machine's clock is {off} the broker's append times; the pipeline allows {CLOCK_LIMIT_MS} ms "
                f"(tick {format_tick(ticks[0].minute)}): synchronise both clocks, then start the ticker again"
            )

    def _tick(self, minute: int, partition: int, ends: Watermarks) -> Tick:
        return Tick(
            minute=minute,
            partition=partition,
            schedules_topic_id=self._stamp.schedules_topic_id,
            partition_count=self._stamp.partition_count,
            watermark=ends.schedules[partition],
            tzdata_watermark=ends.tzdata,
            produced_at_ms=self._now_ms(),
            scenario=self._stamp.scenario,
        )


def tick_live(ticker: Ticker, now_ms: Callable[[], int]) -> float:
    """Append what is missing up to the minute that has begun; seconds until the next one begins.

    0 if there is more to append at once.
    """
    minute = now_ms() // _TICK_MS
    if ticker.append_missing(minute, minute):
        return 0.0
    return _TICK_S - now_ms() % _TICK_MS / 1000
