"""The index: which schedules a tick reaches, without looking at the others.

Schedules are kept by (zone, minute of day), and under each by date predicate, so that a predicate is asked once per
local minute. Most ticks lie far from any transition: then a zone costs one addition and one look-up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from streams.domain.bundle import ZoneBundle
from streams.domain.errors import InvalidInput
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.rules import CompiledRule, DatePredicate, compile_rule, minutes_of_day
from streams.domain.schedule import Policy, Promise, Schedule
from streams.domain.zones import ZoneTable

_NEVER = 1 << 62


class Due(NamedTuple):
    """A schedule that fires at a tick: the caller's number for it, the label kept, and which copy (see `Firing`)."""

    number: int
    label: int
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


class _Entry(NamedTuple):
    number: int
    schedule: Schedule
    compiled: CompiledRule
    code: int
    since: int | None

    def admits(self, tick: int, day: int) -> bool:
        """Bounds and exception dates; the rule itself has matched."""
        schedule = self.schedule
        return (
            (schedule.starts_on is None or day >= schedule.starts_on)
            and (schedule.ends_on is None or day <= schedule.ends_on)
            and (schedule.effective_from is None or tick >= schedule.effective_from)
            and day not in schedule.except_dates
        )


_Bucket = dict[DatePredicate, dict[int, _Entry]]


class _Zone:
    """The schedules of one zone, by minute of day."""

    __slots__ = ("buckets", "size", "table")

    def __init__(self, table: ZoneTable) -> None:
        self.table = table
        self.buckets: dict[int, _Bucket] = {}
        self.size = 0

    def add(self, entry: _Entry) -> None:
        for minute in minutes_of_day(entry.compiled.minutes):
            bucket = self.buckets.setdefault(minute, {})
            bucket.setdefault(entry.compiled.predicate, {})[entry.number] = entry
        self.size += 1

    def discard(self, entry: _Entry) -> None:
        for minute in minutes_of_day(entry.compiled.minutes):
            bucket = self.buckets[minute]
            del bucket[entry.compiled.predicate][entry.number]
            if not bucket[entry.compiled.predicate]:
                del bucket[entry.compiled.predicate]
            if not bucket:
                del self.buckets[minute]
        self.size -= 1

    def reached(self, tick: int, label: int) -> Iterator[_Entry]:
        """The entries whose rule reaches the label and that take it at this tick, policy aside."""
        day, minute = divmod(label, MINUTES_PER_DAY)
        for predicate, entries in self.buckets.get(minute, {}).items():
            if predicate.matches(day):
                for entry in entries.values():
                    if entry.admits(tick, day):
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
        self.remove(number)
        zone = self._zones.get(schedule.zone)
        if zone is None:
            zone = self._zones[schedule.zone] = _Zone(self._bundle.table(schedule.zone))
            self._from = self._until = 0
        if since is None:
            since = schedule.effective_from
        entry = _Entry(number, schedule, compile_rule(schedule.rule), schedule.policy.code, since)
        self._entries[number] = entry
        zone.add(entry)

    def remove(self, number: int) -> None:
        """As `Index.remove`."""
        entry = self._entries.pop(number, None)
        if entry is None:
            return
        zone = self._zones[entry.schedule.zone]
        zone.discard(entry)
        if not zone.size:
            del self._zones[entry.schedule.zone]
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
        if len(found) > 1:
            found.sort(key=self._order)
        return found

    def _order(self, due: Due) -> tuple[str, int, int, int]:
        return self._entries[due.number].schedule.id, due.label, due.copy, due.number

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
