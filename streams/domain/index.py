"""The index: which schedules a tick reaches, without looking at the others.

Schedules are kept by (zone, minute of day), and under each by date predicate, so that a predicate is asked once per
local minute. Most ticks lie far from any transition: then a zone costs one addition and one look-up. Elapsed rules are
kept apart, by interval and phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from streams.domain.bounds import Span, span_of
from streams.domain.bundle import ZoneBundle
from streams.domain.elapsed import ElapsedBuckets
from streams.domain.errors import InvalidInput
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.predicates import DatePredicate
from streams.domain.rules import CompiledRule, compile_rule, minutes_of_day
from streams.domain.schedule import Every, Policy, Promise, Schedule
from streams.domain.zones import ZoneTable

_NEVER = 1 << 62


class Due(NamedTuple):
    """A schedule that fires at a tick: the caller's number for it, the label kept (none for an elapsed rule), and which
    copy (see `Firing`).
    """

    number: int
    label: int | None
    copy: int
    policy: Policy


class Index(Protocol):
    """What the joiner asks of an index."""

    def put(self, number: int, schedule: Schedule, since: int | None = None) -> None:
        """Add a schedule under a number of the caller's, or replace the one that has it.

        `since` is the tick at which it came into force, if not its `effective_from`: a label's copies before it don't
        exist for the schedule.
        """

    def remove(self, number: int) -> None:
        """Take a schedule out; a number that is not there is no error."""

    def due(self, tick: int) -> Iterable[Due]:
        """Every schedule whose rule reaches the tick under its policy, within its dates and from its `effective_from`
        on, without its exception dates; ordered by schedule id, then label and copy. Pause is the caller's business.
        """

    def tidy(self) -> bool:
        """Do a little of what keeps ticks cheap, for when there is nothing better to do; whether there is more of it.

        No answer depends on it.
        """


class _Entry(NamedTuple):
    number: int
    schedule: Schedule
    span: Span
    code: int
    since: int | None

    def admits(self, tick: int, label: int) -> bool:
        """Bounds and exception dates; the rule itself has matched. Of an elapsed rule, `label` is the tick."""
        schedule = self.schedule
        return (
            self.span.first <= label <= self.span.last
            and (schedule.effective_from is None or tick >= schedule.effective_from)
            and label // MINUTES_PER_DAY not in schedule.except_dates
        )


_Bucket = dict[DatePredicate, dict[int, _Entry]]


class _Zone:
    """The schedules of one zone, by minute of day."""

    __slots__ = ("buckets", "size", "table")

    def __init__(self, table: ZoneTable) -> None:
        self.table = table
        self.buckets: dict[int, _Bucket] = {}
        self.size = 0

    def add(self, entry: _Entry, compiled: CompiledRule) -> None:
        for minute in minutes_of_day(compiled.minutes):
            bucket = self.buckets.setdefault(minute, {})
            bucket.setdefault(compiled.predicate, {})[entry.number] = entry
        self.size += 1

    def discard(self, entry: _Entry, compiled: CompiledRule) -> None:
        for minute in minutes_of_day(compiled.minutes):
            bucket = self.buckets[minute]
            del bucket[compiled.predicate][entry.number]
            if not bucket[compiled.predicate]:
                del bucket[compiled.predicate]
            if not bucket:
                del self.buckets[minute]
        self.size -= 1

    def reached(self, tick: int, label: int) -> Iterator[_Entry]:
        """The entries whose rule reaches the label and that take it at this tick, policy aside."""
        day, minute = divmod(label, MINUTES_PER_DAY)
        for predicate, entries in self.buckets.get(minute, {}).items():
            if predicate.matches(day):
                for entry in entries.values():
                    if entry.admits(tick, label):
                        yield entry

    def near_transition(self, tick: int) -> Iterator[Due]:
        """What is due where labels are not ordinary: policies decide, for each copy at its own tick."""
        by_label: dict[int, list[tuple[int, int]]] = {tick + self.table.offset_at(tick): []}
        for label, mask, copy in self.table.reached(tick):
            by_label.setdefault(label, []).append((mask, copy))
        for label, ways in by_label.items():
            first = min(self.table.ticks_of(label), default=tick)
            for entry in self.reached(tick, label):
                since = entry.since
                mine = ways
                if since is not None and since > first:  # it came into force between two copies of the label
                    mine = [(mask, copy) for at, mask, copy in self.table.reached(tick, since) if at == label]
                for mask, copy in mine:
                    if mask >> entry.code & 1:
                        yield Due(entry.number, label, copy, entry.schedule.policy)


class DictIndex:
    """An index of plain dictionaries, over the zones of one bundle. Ticks may come in any order."""

    def __init__(self, bundle: ZoneBundle) -> None:
        self._bundle = bundle
        self._entries: dict[int, _Entry] = {}
        self._elapsed: ElapsedBuckets[_Entry] = ElapsedBuckets()
        self._zones: dict[str, _Zone] = {}
        self._ordinary: list[tuple[int, dict[int, _Bucket], _Zone]] = []
        self._special: list[_Zone] = []
        self._from, self._until = 0, 0

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, number: int, schedule: Schedule, since: int | None = None) -> None:
        """As `Index.put`. Raises InvalidInput for a zone the bundle lacks and for a promise this index can't keep."""
        if schedule.promise is not Promise.LABEL:
            raise InvalidInput(f"schedule {schedule.id}: promise {schedule.promise} is not evaluated by this index")
        table = self._bundle.table(schedule.zone)
        self.remove(number)
        if since is None:
            since = schedule.effective_from
        entry = _Entry(number, schedule, span_of(schedule), schedule.policy.code, since)
        if isinstance(schedule.rule, Every):
            self._elapsed.add(number, schedule.rule, entry)
        else:
            self._zone(schedule.zone, table).add(entry, compile_rule(schedule.rule))
        self._entries[number] = entry

    def _zone(self, name: str, table: ZoneTable) -> _Zone:
        zone = self._zones.get(name)
        if zone is None:
            zone = self._zones[name] = _Zone(table)
            self._from = self._until = 0
        return zone

    def remove(self, number: int) -> None:
        """As `Index.remove`."""
        entry = self._entries.pop(number, None)
        if entry is None:
            return
        schedule = entry.schedule
        if isinstance(schedule.rule, Every):
            self._elapsed.discard(number, schedule.rule)
            return
        zone = self._zones[schedule.zone]
        zone.discard(entry, compile_rule(schedule.rule))
        if not zone.size:
            del self._zones[schedule.zone]
            self._from = self._until = 0

    def due(self, tick: int) -> list[Due]:
        """As `Index.due`."""
        if not self._from <= tick < self._until:
            self._plan(tick)
        found: list[Due] = []
        for offset, buckets, zone in self._ordinary:
            label = tick + offset
            if label % MINUTES_PER_DAY in buckets:
                found += [Due(e.number, label, 0, e.schedule.policy) for e in zone.reached(tick, label)]
        for zone in self._special:
            found += zone.near_transition(tick)
        for entry in self._elapsed.at(tick):
            if entry.admits(tick, tick):
                found.append(Due(entry.number, None, 0, entry.schedule.policy))
        if len(found) > 1:
            found.sort(key=self._order)
        return found

    def tidy(self) -> bool:
        """Nothing: dictionaries are always tidy."""
        return False

    def _order(self, due: Due) -> tuple[str, int, int, int]:
        return self._entries[due.number].schedule.id, -1 if due.label is None else due.label, due.copy, due.number

    def _plan(self, tick: int) -> None:
        """Sort the zones into those near a transition and the others, up to the next tick at which one changes."""
        ordinary: list[tuple[int, dict[int, _Bucket], _Zone]] = []
        special = []
        until = _NEVER
        for zone in self._zones.values():
            offset = zone.table.ordinary_offset(tick)
            if offset is None:
                special.append(zone)
            else:
                ordinary.append((offset, zone.buckets, zone))
            change = zone.table.next_change(tick)
            until = until if change is None else min(until, change)
        self._ordinary, self._special = ordinary, special
        self._from, self._until = tick, until
