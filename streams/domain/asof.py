"""The as-of join's memory: which revision of each schedule is in force at a tick, from the records of `schedules[p]`.

An id's plan at tick T is its last record with offset below the tick's watermark and, on a live installation, append
time + 5 s of skew before the start of T; in it, the revision with the greatest `effective_from` at or before T. A
record whose sequence is not above the highest read for its id never counts. Nothing is resolved or stored, so every
reader, live or replaying, agrees. Append times need not ascend with offsets, and a watermark may be lower than the one
before.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappop, heappush
from typing import NamedTuple

from streams.domain.errors import BrokenPromise
from streams.domain.plan import Plan, Revision

SKEW_MS = 5_000
_TICK_MS = 60_000
_PERIOD_TICKS = 60
_MOST_FORGETTABLE = 4_096


class ForgottenWatermark(BrokenPromise):
    """A watermark lower than what this book still answers for; one built with `keep_all` answers for all of them."""

    retriable = True


class InForce(NamedTuple):
    """The revision in force, whose life of the id it belongs to, and the tick at which it began to count.

    `since` is exact from the second tick of a book on; what the first tick found in force has that tick.
    """

    incarnation: int
    revision: Revision
    since: int


class Transition(NamedTuple):
    """At a tick, another revision (or none) came into force for an id."""

    schedule_id: str
    before: InForce | None
    after: InForce | None


class _Record(NamedTuple):
    offset: int
    counts_from: int  # a tick
    plan: Plan | None


class _History:
    """One id's records that may still count, by offset, and what is in force."""

    __slots__ = ("highest", "in_force", "records")

    def __init__(self) -> None:
        self.highest = -1
        self.in_force: InForce | None = None
        self.records: list[_Record] = []

    def plan_at(self, tick: int, watermark: int) -> Plan | None:
        at = self._last(tick, watermark)
        return self.records[at].plan if at >= 0 else None

    def forget(self, tick: int, floor: int) -> None:
        """Drop what can't be the last one for any later tick with a watermark from `floor` on."""
        at = self._last(tick, floor)
        if at > 0:
            del self.records[:at]

    def _last(self, tick: int, watermark: int) -> int:
        for at in range(len(self.records) - 1, -1, -1):
            record = self.records[at]
            if record.offset < watermark and record.counts_from <= tick:
                return at
        return -1


class PlanBook:
    """One partition's plans. Records are added in offset order; then ticks are asked for, ascending.

    A tick may be asked for once every record below its watermark is added; further ones may be there already.
    `live` applies the append-time condition, which a scenario drops.
    """

    def __init__(self, *, live: bool, keep_all: bool = False) -> None:
        self._live = live
        self._keep_all = keep_all
        self._histories: dict[str, _History] = {}
        self._offsets: list[int] = []
        self._ids: list[str] = []
        self._below = 0  # how many of _offsets are below _watermark
        self._waiting: list[tuple[int, str]] = []  # (tick from which a record or revision may count, id), a heap
        self._tick = -(1 << 62)
        self._watermark = 0
        # No watermark below the floor is expected: it is the lowest of a whole period of ticks before this one.
        self._floor = 0
        self._lowest = 0
        self._period_from: int | None = None

    def __len__(self) -> int:
        """How many ids have been read, ended ones included."""
        return len(self._histories)

    def in_force(self, schedule_id: str) -> InForce | None:
        """What was in force at the last tick asked for."""
        history = self._histories.get(schedule_id)
        return None if history is None else history.in_force

    def add(self, offset: int, append_ms: int, schedule_id: str, plan: Plan | None) -> None:
        """The next record; no plan is a null value, after which the id has none."""
        history = self._histories.get(schedule_id)
        if history is None:
            history = self._histories[schedule_id] = _History()
        if plan is not None:
            if plan.sequence <= history.highest:
                return
            history.highest = plan.sequence
        counts_from = (append_ms + SKEW_MS) // _TICK_MS + 1 if self._live else self._tick
        history.records.append(_Record(offset, counts_from, plan))
        self._offsets.append(offset)
        self._ids.append(schedule_id)
        if counts_from > self._tick:
            heappush(self._waiting, (counts_from, schedule_id))
        for revision in plan.revisions if plan is not None else ():
            if revision.effective_from is not None and revision.effective_from > self._tick:
                heappush(self._waiting, (revision.effective_from, schedule_id))

    def advance(self, tick: int, watermark: int) -> list[Transition]:
        """What changed since the tick asked for before, by schedule id.

        Raises ForgottenWatermark if the watermark is far below earlier ones, ValueError if the tick does not ascend.
        """
        if tick <= self._tick:
            raise ValueError(f"tick {tick} after {self._tick}")
        if watermark < self._floor:
            raise ForgottenWatermark(f"watermark {watermark} at tick {tick}: only those from {self._floor} on are kept")
        touched: set[str] = set()
        if watermark != self._watermark:
            self._move_to(watermark, touched)
        waiting = self._waiting
        while waiting and waiting[0][0] <= tick:
            touched.add(heappop(waiting)[1])
        self._tick = tick
        if not self._keep_all:
            self._raise_floor(tick, watermark)
        if not touched:
            return []
        found = (self._decide(schedule_id) for schedule_id in sorted(touched))
        return [transition for transition in found if transition is not None]

    def _move_to(self, watermark: int, touched: set[str]) -> None:
        """Collect the ids of the records that the watermark passed, forwards or backwards."""
        offsets, ids, at = self._offsets, self._ids, self._below
        while at < len(offsets) and offsets[at] < watermark:
            touched.add(ids[at])
            at += 1
        while at > 0 and offsets[at - 1] >= watermark:
            at -= 1
            touched.add(ids[at])
        self._below, self._watermark = at, watermark

    def _raise_floor(self, tick: int, watermark: int) -> None:
        if self._period_from is None:
            self._floor = self._lowest = watermark
            self._period_from = tick
        elif tick - self._period_from >= _PERIOD_TICKS:
            self._floor, self._lowest, self._period_from = max(self._floor, self._lowest), watermark, tick
        else:
            self._lowest = min(self._lowest, watermark)
        offsets = self._offsets
        if len(offsets) > _MOST_FORGETTABLE and offsets[len(offsets) // 2] < self._floor:
            at = bisect_left(offsets, self._floor)
            del offsets[:at], self._ids[:at]
            self._below -= at

    def _decide(self, schedule_id: str) -> Transition | None:
        history = self._histories[schedule_id]
        plan = history.plan_at(self._tick, self._watermark)
        if not self._keep_all:
            history.forget(self._tick, self._floor)
        revision = plan.revision_at(self._tick) if plan is not None else None
        before, after = history.in_force, None
        if plan is not None and revision is not None:
            if before is not None and (before.incarnation, before.revision.number) == (
                plan.incarnation,
                revision.number,
            ):
                return None
            after = InForce(plan.incarnation, revision, self._tick)
        if before is None and after is None:
            return None
        history.in_force = after
        return Transition(schedule_id, before, after)
