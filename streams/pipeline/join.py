"""One partition's join: ticks and plans go in as they are read, occurrence records and a cursor come out.

What comes out depends on the records alone, never on when the process started or how far ahead it has read. So that
this holds for `ended` and for revisions that come into force between two copies of a label, a partition warms up: it is
given ticks from WARM_UP_TICKS minutes before its cursor (or from the log's start) and handles those before the cursor
for state only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from streams.domain.asof import ForgottenWatermark, PlanBook
from streams.domain.bundle import ZoneBundle
from streams.domain.errors import BrokenPromise
from streams.domain.join import Joiner
from streams.domain.minutes import format_tick
from streams.domain.occurrence import OccurrenceRecord, TickSource
from streams.domain.plan import Plan
from streams.domain.tick import Tick
from streams.domain.tz_asof import TzBook
from streams.pipeline.cursors import Cursor

WARM_UP_TICKS = 1_560  # two copies of a label are at most 26 hours apart


@dataclass(frozen=True, slots=True)
class Terms:
    """What every tick has to agree with, or its partition stops."""

    scenario: str | None
    schedules_topic_id: str
    partition_count: int
    regions: Collection[str]


@dataclass(slots=True)
class Done:
    """What a run came to. `next_offset` and `minute` are what to commit once `records` are acknowledged, if any."""

    records: list[OccurrenceRecord] = field(default_factory=list)
    next_offset: int | None = None
    minute: int | None = None
    minutes: int = 0


class PartitionJoin:
    """The state of one partition since its cursor was read. It never goes back: to begin again, make another.

    `reset_minute` is for a cursor that was set by hand: the minute of the tick it points to. Minutes from there on are
    emitted although their first tick may lie before the cursor. `keep_all` trades memory for answers at any watermark.
    """

    def __init__(
        self,
        partition: int,
        terms: Terms,
        tz: TzBook,
        cursor: Cursor | None,
        *,
        reset_minute: int | None = None,
        keep_all: bool = False,
    ) -> None:
        self.partition = partition
        self.problem: BrokenPromise | None = None
        self.must_restart = False
        self.plans_position = 0
        self._terms = terms
        self._tz = tz
        self._cursor = Cursor(0) if cursor is None else cursor
        self._reset_minute = reset_minute
        self._book = PlanBook(live=terms.scenario is None, keep_all=keep_all)
        self._joiner: tuple[ZoneBundle, Joiner] | None = None
        self._invalid_plan: tuple[int, str] | None = None
        self._ticks: deque[tuple[int, Tick | BrokenPromise]] = deque()
        self._minute: int | None = None

    @property
    def queued(self) -> int:
        """Ticks read and not yet handled."""
        return len(self._ticks)

    @property
    def warming(self) -> bool:
        """Whether the ticks handled so far are all before the cursor."""
        return self._minute is None or (bool(self._ticks) and not self._is_emitted(*self._ticks[0]))

    def add_plan(self, offset: int, append_ms: int, schedule_id: str, plan: Plan | None) -> None:
        """The next record of `schedules`; records of one partition come in offset order."""
        self._book.add(offset, append_ms, schedule_id, plan)
        self.plans_position = offset + 1

    def add_invalid_plan(self, offset: int, problem: str) -> None:
        """A record of `schedules` that is no plan, or not this partition's. The first tick that counts it stops."""
        if self._invalid_plan is None:
            self._invalid_plan = (offset, problem)
        self.plans_position = offset + 1

    def add_tick(self, offset: int, tick: Tick | BrokenPromise) -> None:
        """The next record of `ticks`; an error stands for one that can't be read.

        One that breaks a promise before the cursor stopped the partition once, and a person set the cursor behind it:
        it does not stop those who warm up over it.
        """
        if offset < self._cursor.offset and (isinstance(tick, BrokenPromise) or self._misfit(tick) is not None):
            return
        self._ticks.append((offset, tick))

    def starving_for(self) -> tuple[str, int] | None:
        """The topic and offset that must be read to before the next tick can be handled; none if it can be now."""
        if not self._ticks or self.problem is not None:
            return None
        tick = self._ticks[0][1]
        if isinstance(tick, BrokenPromise):
            return None
        if self.plans_position < tick.watermark:
            return "schedules", tick.watermark
        if self._tz.position < tick.tzdata_watermark:
            return "tzdata", tick.tzdata_watermark
        return None

    def stop(self, problem: BrokenPromise) -> None:
        """Handle nothing more."""
        self.problem = problem
        self._ticks.clear()

    def run(self, most_minutes: int, most_records: int, interrupted: Callable[[], bool]) -> Done:
        """Handle queued ticks, first to last, until one is not ready or a limit is reached.

        Minutes are handled one by one; a tick's records stay together. A tick that breaks a promise sets `problem`
        (what came before it is still done), one with a watermark no longer kept sets `must_restart`.
        """
        done = Done()
        while self._ticks and done.minutes < most_minutes and len(done.records) < most_records:
            if self.problem is not None or self.must_restart or self.starving_for() is not None or interrupted():
                break
            offset, tick = self._ticks[0]
            try:
                if isinstance(tick, BrokenPromise):
                    raise tick
                self._take(offset, tick, done)
            except ForgottenWatermark:
                self.must_restart = True
            except BrokenPromise as error:
                self.stop(BrokenPromise(f"ticks[{self.partition}] at offset {offset}: {error}"))
        return done

    def tidy(self) -> bool:
        """Work on the index for a few milliseconds, which changes no record; whether there is more to do."""
        return self._joiner is not None and self._joiner[1].tidy()

    def _take(self, offset: int, tick: Tick, done: Done) -> None:
        """One minute of a tick: its own, or one missing before it. A minute that was handled already is dropped."""
        if (misfit := self._misfit(tick)) is not None:
            raise BrokenPromise(f"tick {format_tick(tick.minute)}: {misfit}")
        emitted = self._is_emitted(offset, tick)
        if self._minute is None and emitted and self._cursor.minute is not None:
            self._minute = self._cursor.minute  # the ticks before the cursor are gone from the log
        if self._minute is None or tick.minute > self._minute:
            minute = tick.minute if self._minute is None else self._minute + 1
            records = self._join(minute, TickSource(self.partition, offset, tick.watermark), tick, emitted)
            self._minute = minute
            done.minutes += 1
            done.records += records
        if self._minute is not None and self._minute >= tick.minute:
            self._ticks.popleft()
            if emitted:
                done.next_offset, done.minute = offset + 1, self._minute

    def _is_emitted(self, offset: int, tick: Tick | BrokenPromise) -> bool:
        if offset >= self._cursor.offset or isinstance(tick, BrokenPromise):
            return True
        return self._reset_minute is not None and tick.minute >= self._reset_minute

    def _join(self, minute: int, source: TickSource, tick: Tick, emitted: bool) -> list[OccurrenceRecord]:
        if self._invalid_plan is not None and self._invalid_plan[0] < tick.watermark:
            raise BrokenPromise(f"schedules[{self.partition}], offset {self._invalid_plan[0]}: {self._invalid_plan[1]}")
        joiner = self._joiner_for(self._tz.in_force(tick.tzdata_watermark))
        transitions = self._book.advance(minute, tick.watermark)
        if not emitted:
            joiner.follow(minute, transitions)
            return []
        records = joiner.join(minute, transitions, source)
        for record in records:
            if record.region not in self._terms.regions:
                raise BrokenPromise(
                    f"schedule {record.schedule_id} is in region {record.region}, which the settings don't list; "
                    f"add [regions.{record.region}] and create its topic"
                )
        return records

    def _joiner_for(self, bundle: ZoneBundle) -> Joiner:
        if self._joiner is None:
            self._joiner = (bundle, Joiner(bundle, self._terms.scenario))
        elif self._joiner[0] is not bundle:
            raise BrokenPromise(f"tzdata {bundle.version} follows {self._joiner[0].version}: not in this release")
        return self._joiner[1]

    def _misfit(self, tick: Tick) -> str | None:
        """Why a tick is not joined: it speaks of another installation, clock or topic than ours."""
        terms = self._terms
        if tick.scenario != terms.scenario:
            theirs, ours = (f"scenario {name}" if name else "a live clock" for name in (tick.scenario, terms.scenario))
            return f"it belongs to {theirs}, this installation to {ours}; use a topic_prefix for each"
        if tick.schedules_topic_id != terms.schedules_topic_id:
            return (
                f"it speaks of topic {tick.schedules_topic_id}, but schedules is {terms.schedules_topic_id}: the topic "
                "was deleted and created again, so these ticks mean nothing to it; begin anew under another "
                "topic_prefix and apply the schedules there"
            )
        if tick.partition_count != terms.partition_count:
            return (
                f"it counts {tick.partition_count} partitions, but schedules has {terms.partition_count}: keys would "
                "be misplaced; begin anew under another topic_prefix and apply the schedules there"
            )
        if tick.partition != self.partition:
            return f"it was meant for partition {tick.partition}; only townclock ticker may write ticks"
        return None
