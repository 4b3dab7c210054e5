"""The index by itself: how long it takes to build, to ask and to plan with, at sizes that grow tenfold.

Ticks are measured as arrays, which is what the index computes, and (keys with `list`) as the `Due` objects that the
joiner takes. A quiet tick is one at which nothing is due; a light one has something due, but is not the busy one.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks import machine
from benchmarks.calendar_load import BUSY, CalendarLoad, zones_of
from benchmarks.calendar_peers import PEERS, Peer
from benchmarks.figures import Figure, rounded
from streams.domain.csr_columns import row_of
from streams.domain.csr_index import CsrIndex
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.rules import compile_rule
from streams.domain.schedule import Schedule

KEYS: Final = (
    "schedules", "build_s", "put_and_build_s", "bytes_per_schedule", "quiet_tick_us", "light_tick_us", "busy_tick_ms",
    "busy_list_ms", "busy_due", "day_catch_up_s", "day_list_s", "day_due", "scan_ms", "scan_ratio", "histogram_s",
    "merge_s", "merge_longest_slice_ms",
)  # fmt: skip
SIZES: Final = (10_000, 100_000, 1_000_000)
HUGE: Final = 10_000_000
QUICK: Final = (5_000, 10_000)
_HISTOGRAM_DAYS = 30
_CHANGES = 10_000
_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of one size, by key."""

    values: dict[str, float]
    us_per_occurrence: float

    def to_json(self) -> dict[str, float]:
        """Counts whole, times to four digits."""
        return {key: value if isinstance(value, int) else rounded(value) for key, value in self.values.items()}


class CalendarBenchmark:
    """All sizes, smallest first, and the peers over a sample of the same schedules."""

    def __init__(self, sizes: Sequence[int], headline: int, sampled: int, say: Callable[[str], None]) -> None:
        self._sizes = sizes
        self._headline = headline
        self._sampled = sampled
        self._say = say
        self.runs: dict[int, Run] = {}
        self.peers: dict[str, dict[str, object] | None] = {}
        self.machine: dict[str, object] = {}

    def run(self) -> None:
        """Measure everything. Raises AssertionError where two ways of counting disagree."""
        self.machine = machine.host(machine.load_1m())
        for size in self._sizes:
            self._say(f"measuring: {size:,} schedules")
            self.runs[size] = measure(CalendarLoad.of(size))
        ours = self.runs[self._headline].us_per_occurrence
        sample = CalendarLoad.of(self._sampled)
        for peer in PEERS:
            self._say(f"measuring: {peer.name}")
            self.peers[peer.name] = measure_peer(peer, sample, ours)

    @property
    def figures(self) -> list[Figure]:
        """Those of the headline's size, for a table."""
        run = self.runs[self._headline].values
        return [Figure(key, run[key], _unit(key), _WHAT[key]) for key in KEYS]

    def to_json(self) -> dict[str, object]:
        """The headline's keys, then every size, the peers and the machine."""
        return {
            "benchmark": "calendar",
            **self.runs[self._headline].to_json(),
            "growth": {str(size): run.to_json() for size, run in self.runs.items()},
            "peers": self.peers,
            "machine": self.machine,
        }


def measure(load: CalendarLoad) -> Run:
    """One size."""
    for zone in zones_of(load.bundle):
        load.bundle.table(zone).next_change(BUSY)
    gc.collect()
    gc.freeze()  # the schedules are the caller's; that the collector looks at them is no cost of the index
    try:
        build_s = _build_s(load)
        index, put_and_build_s = _built(load)
        values: dict[str, float] = {"schedules": len(load.schedules), "build_s": build_s}
        values["put_and_build_s"] = put_and_build_s
        values["bytes_per_schedule"] = index.base_bytes / len(load.schedules)
        values |= _ticks(index)
        values |= _scan(load, index, values["quiet_tick_us"])
        start = perf_counter()
        index.load_histogram(BUSY // MINUTES_PER_DAY, _HISTOGRAM_DAYS)
        values["histogram_s"] = perf_counter() - start
        values |= _merge(load, index)
    finally:
        gc.unfreeze()
    return Run({key: values[key] for key in KEYS}, values["day_list_s"] / values["day_due"] * 1e6)


def _build_s(load: CalendarLoad) -> float:
    rows = [row_of(number, schedule, load.since) for number, schedule in enumerate(load.schedules)]
    return _timed(lambda: CsrIndex.of(load.bundle, rows))


def _built(load: CalendarLoad) -> tuple[CsrIndex, float]:
    start = perf_counter()
    index = CsrIndex(load.bundle)
    for number, schedule in enumerate(load.schedules):
        index.put(number, schedule, load.since)
    index.settle()
    return index, perf_counter() - start


def _ticks(index: CsrIndex) -> dict[str, float]:
    """Every tick of the day of the busy one, as arrays and as lists."""
    first = BUSY - BUSY % MINUTES_PER_DAY
    index.due_columns(first - 1)  # a plan is made where a zone's offset changes, not at every tick
    due, spent = [], []
    for tick in range(first, first + MINUTES_PER_DAY):
        start = perf_counter()
        found = index.due_columns(tick)
        spent.append(perf_counter() - start)
        due.append(0 if found is None else len(found.numbers))
    day_list_s = _timed(lambda: [index.due(tick) for tick in range(first, first + MINUTES_PER_DAY)])
    busy = [_timed(lambda: index.due_columns(BUSY)) for _ in range(_REPEATS)]
    lists = [_timed(lambda: index.due(BUSY)) for _ in range(_REPEATS)]
    quiet = [s for s, n in zip(spent, due, strict=True) if not n]
    light = [s for at, (s, n) in enumerate(zip(spent, due, strict=True)) if n and first + at != BUSY]
    if not quiet or not len(index.due(BUSY)) == due[BUSY - first] == max(due):
        raise AssertionError("the schedules are not those that were meant")
    return {
        "quiet_tick_us": median(quiet) * 1e6,
        "light_tick_us": median(light) * 1e6,
        "busy_tick_ms": median(busy) * 1e3,
        "busy_list_ms": median(lists) * 1e3,
        "busy_due": due[BUSY - first],
        "day_catch_up_s": sum(spent),
        "day_list_s": day_list_s,
        "day_due": sum(due),
    }


def _scan(load: CalendarLoad, index: CsrIndex, quiet_tick_us: float) -> dict[str, float]:
    """A loop over all schedules, each zone's label and each rule's compiled form ready: as cheap as scanning gets."""
    prepared = [(s.zone, compile_rule(s.rule)) for s in load.schedules]
    zones = zones_of(load.bundle)

    def scan() -> int:
        labels = {zone: divmod(BUSY + load.bundle.table(zone).offset_at(BUSY), MINUTES_PER_DAY) for zone in zones}
        found = 0
        for zone, rule in prepared:
            day, minute = labels[zone]
            if rule.minutes >> minute & 1 and rule.predicate.matches(day):
                found += 1
        return found

    start = perf_counter()
    found = scan()
    scan_s = perf_counter() - start
    if found != len(index.due(BUSY)):
        raise AssertionError(f"the scan finds {found}, the index {len(index.due(BUSY))}")
    return {"scan_ms": scan_s * 1e3, "scan_ratio": scan_s * 1e6 / quiet_tick_us}


def _merge(load: CalendarLoad, index: CsrIndex) -> dict[str, float]:
    """Some changes, a few at each tick, and the slices in which they are merged."""
    slices: list[float] = []
    changes = min(_CHANGES, len(load.schedules) // 4)
    for number in range(changes):
        index.put(number * 3, load.schedules[number * 3], load.since + 1)
        if number % 500 == 499:
            index.settle()
    index.settle()
    more = True
    while more:
        start = perf_counter()
        more = index.tidy()
        slices.append(perf_counter() - start)
    return {"merge_s": sum(slices), "merge_longest_slice_ms": max(slices) * 1e3}


def measure_peer(peer: Peer, sample: CalendarLoad, ours_us: float) -> dict[str, object] | None:
    """The occurrences of one day of the sample, one schedule after the other; None for one that is not installed."""
    if peer.version is None:
        return None
    first = BUSY - BUSY % MINUTES_PER_DAY
    index, _ = _built(sample)
    expected = sum(len(index.due(tick)) for tick in range(first, first + MINUTES_PER_DAY))
    occurrences_of = peer.prepare(first, first + MINUTES_PER_DAY)
    prepared: list[Schedule] = sample.schedules
    start = perf_counter()
    found = sum(occurrences_of(schedule) for schedule in prepared)
    spent = perf_counter() - start
    each_us = spent / max(found, 1) * 1e6
    return {
        "version": peer.version,
        "schedules": len(prepared),
        "occurrences": found,
        "occurrences_expected": expected,
        "us_per_occurrence": rounded(each_us),
        "times_ours": rounded(each_us / ours_us),
    }


def _timed(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _unit(key: str) -> str:
    return next((unit for unit in ("s", "us", "ms") if key.endswith(f"_{unit}")), "")


_WHAT: Final = {
    "schedules": "in 400 zones",
    "build_s": "the index of them, from compiled rules",
    "put_and_build_s": "the same put one by one, rules compiled on the way",
    "bytes_per_schedule": "the arrays, references to ids included",
    "quiet_tick_us": "a tick at which nothing is due, median",
    "light_tick_us": "a tick at which something is due, median",
    "busy_tick_ms": "the busiest tick, as arrays in order",
    "busy_list_ms": "the same as a list of objects",
    "busy_due": "due in it",
    "day_catch_up_s": "1,440 ticks, as arrays",
    "day_list_s": "the same as lists of objects",
    "day_due": "due in them",
    "scan_ms": "a loop over all schedules, prepared for one tick",
    "scan_ratio": "the loop's time over a quiet tick's",
    "histogram_s": f"occurrences of every minute of {_HISTOGRAM_DAYS} days",
    "merge_s": f"{_CHANGES:,} changed schedules merged, slices added up",
    "merge_longest_slice_ms": "the longest time between two ticks that the merge takes",
}
