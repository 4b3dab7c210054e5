"""What ticks reach in a base: the rows (zone, label) of a tick, and of each row the schedules that take it.

Far from any transition a zone gives one row, at which every policy fires; nothing else is read then. Policies, copies
and the tick since which a schedule is in force are looked at in special rows only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from streams.domain.csr_base import Base, Bools, Ints, expand
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.zones import Reached

_MOST_DAYS = 64
_NEVER = 1 << 62


class Rows(NamedTuple):
    """What some ticks reach. A special tick has a row for each (label, mask, copy), ordered by label and copy.

    `first` is the first tick that shows the label, `lead` marks the first row of a tick's label.
    """

    ticks: Ints
    zones: Ints
    labels: Ints
    masks: Ints
    copies: Ints
    firsts: Ints
    leads: Bools


class Found(NamedTuple):
    """Fires, as columns; `positions` are those of the base."""

    positions: Ints
    labels: Ints
    copies: Ints
    ticks: Ints


class _Plan(NamedTuple):
    """How zones reach labels for ticks `start` to `until` - 1."""

    start: int
    until: int
    zones: Ints
    offsets: Ints
    special: list[int]
    busy: Bools  # by UTC minute of day: whether an ordinary zone has entries there


class Reach:
    """A base, ready to be asked. What it remembers (a plan, dates) never shows in an answer."""

    def __init__(self, base: Base) -> None:
        self.base = base
        self._plan = _Plan(0, 0, np.zeros(0, np.int64), np.zeros(0, np.int64), [], np.zeros(0, np.bool_))
        self._dates: dict[int, tuple[Bools, Bools]] = {}
        self._has_terms = len(base.terms) > 1
        self._excepted: dict[int, list[int]] = {}
        for number, terms in enumerate(base.terms):
            for day in terms.except_dates:
                self._excepted.setdefault(day, []).append(number)
        self._occupied = (np.diff(base.ptr) > 0).reshape(-1, MINUTES_PER_DAY)
        for zone, minutes, _ in base.groups:
            self._occupied[zone] |= base.minute_bits[minutes]

    @property
    def nbytes(self) -> int:
        """What is remembered of the base, dates aside."""
        return self._occupied.nbytes

    def due(self, tick: int) -> Found | None:
        """What fires at a tick, ordered by position, label and copy; None for nothing."""
        if not len(self.base):
            return None
        if not self._plan.start <= tick < self._plan.until:
            self._plan = self._planned(tick)
        plan = self._plan
        if not plan.special:
            if not plan.busy[tick % MINUTES_PER_DAY]:
                return None
            positions, labels = self.ordinary(tick, plan.zones, tick + plan.offsets)
            if len(positions) > 1:
                order = np.argsort(positions)
                positions, labels = positions[order], labels[order]
            nothing = np.zeros(len(positions), np.int32)
            return Found(positions, labels, nothing, nothing + tick)
        found = self.special(self.rows([(zone, tick) for zone in plan.special]))
        if plan.busy[tick % MINUTES_PER_DAY]:
            positions, labels = self.ordinary(tick, plan.zones, tick + plan.offsets)
            nothing = np.zeros(len(positions), np.int32)
            found = _joined([found, Found(positions, labels, nothing, nothing + tick)])
        order = np.lexsort((found.copies, found.labels, found.positions))
        return Found(*(column[order] for column in found))

    def ordinary(self, tick: int, zones: Ints, labels: Ints) -> tuple[Ints, Ints]:
        """Positions and labels of the schedules that take a tick in zones where it reaches one ordinary label."""
        positions, rows = self._reached(zones, labels, np.full(len(zones), tick))
        return positions, labels[rows]

    def special(self, rows: Rows) -> Found:
        """What fires at rows, in no order."""
        base = self.base
        positions, at = self._reached(rows.zones, rows.labels, rows.ticks)
        late = base.since[positions] > rows.firsts[at]
        fires = (rows.masks[at] >> base.codes[positions] & 1).astype(np.bool_) & ~late
        late &= rows.leads[at]
        p, r = positions[fires], at[fires]
        found = Found(p, rows.labels[r], rows.copies[r], rows.ticks[r])
        return _joined([found, self._late(positions[late], at[late], rows)]) if late.any() else found

    def rows(self, places: Iterable[tuple[int, int]]) -> Rows:
        """The rows of (zone, tick) pairs, in their order."""
        made: list[tuple[int, int, int, int, int, int, bool]] = []
        for zone, tick in places:
            table = self.base.tables[zone]
            own = tick + table.offset_at(tick)
            reached = table.reached(tick)
            if all(label != own for label, _, _ in reached):
                # Its label fires here under no policy, but may for a schedule that knows no earlier copy.
                reached = tuple(sorted([*reached, Reached(own, 0, 0)]))
            before = None
            for label, mask, copy in reached:
                first = min(table.ticks_of(label), default=tick)
                made.append((tick, zone, label, mask, copy, first, label != before))
                before = label
        columns = np.array(made, np.int64).reshape(-1, 7)
        ticks, zones, labels, masks, copies, firsts, leads = columns.T
        return Rows(ticks, zones, labels, masks, copies, firsts, leads.astype(np.bool_))

    def dates(self, first: int, last: int) -> tuple[Bools, Bools]:
        """For each date of `first`..`last`, which predicates match it and which terms do not except it."""
        found = [self._date(day) for day in range(first, last + 1)]
        return np.stack([preds for preds, _ in found]), np.stack([terms for _, terms in found])

    def _date(self, day: int) -> tuple[Bools, Bools]:
        date = self._dates.get(day)
        if date is None:
            base = self.base
            preds = np.fromiter((p.matches(day) for p in base.predicates), np.bool_, len(base.predicates))
            terms = np.ones(len(base.terms), np.bool_)
            for term in self._excepted.get(day, ()):
                terms[term] = False
            if len(self._dates) >= _MOST_DAYS:
                del self._dates[next(iter(self._dates))]
            date = self._dates[day] = (preds, terms)
        return date

    def _reached(self, zones: Ints, labels: Ints, ticks: Ints) -> tuple[Ints, Ints]:
        """(position, row) of every schedule whose rule and terms take the row."""
        base = self.base
        days, minutes = np.divmod(labels, MINUTES_PER_DAY)
        first = int(days.min())
        rows, entries = expand(base.ptr, zones * MINUTES_PER_DAY + minutes)
        groups_at, members_of = self._dense(zones, minutes)
        if not len(rows) and not len(groups_at):
            return rows, rows
        preds, terms = self.dates(first, int(days.max()))
        at = days - first
        if len(rows):
            keep = preds[at[rows], base.preds[entries]]
            rows, positions = rows[keep], base.members[entries[keep]]
        else:
            positions = rows
        if len(groups_at):
            keep = preds[at[groups_at], base.group_preds[members_of]]
            groups_at, groups = groups_at[keep], members_of[keep]
            of, members = expand(base.group_ptr, groups)
            positions = np.concatenate((positions, base.group_members[members]))
            rows = np.concatenate((rows, groups_at[of]))
        keep = base.alive[positions]
        if self._has_terms:
            term, label = base.term_of[positions], labels[rows]
            keep = keep & terms[at[rows], term]
            keep &= (base.first_labels[term] <= label) & (label <= base.last_labels[term])
        if base.effective_from is not None:
            keep = keep & (base.effective_from[positions] <= ticks[rows])
        return positions[keep], rows[keep]

    def _dense(self, zones: Ints, minutes: Ints) -> tuple[Ints, Ints]:
        """(row, group) of the dense rules of each row's zone that have its minute."""
        base = self.base
        if not base.groups:
            return _NONE, _NONE
        rows, places = expand(base.zone_groups_ptr, zones)
        groups = base.zone_groups[places]
        keep = base.minute_bits[base.group_minutes[groups], minutes[rows]]
        return rows[keep], groups[keep]

    def _late(self, positions: Ints, at: Ints, rows: Rows) -> Found:
        """Fires of schedules that came into force between two copies of a label."""
        base = self.base
        known: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        made: list[tuple[int, int, int, int]] = []
        for position, row in zip(positions.tolist(), at.tolist(), strict=True):
            zone, tick, label = int(rows.zones[row]), int(rows.ticks[row]), int(rows.labels[row])
            since, code = int(base.since[position]), int(base.codes[position])
            ways = known.get((since, row, zone))
            if ways is None:
                reached = base.tables[zone].reached(tick, since)
                ways = known[since, row, zone] = [(mask, copy) for to, mask, copy in reached if to == label]
            made += [(position, label, copy, tick) for mask, copy in ways if mask >> code & 1]
        return Found(*np.array(made, np.int64).reshape(-1, 4).T)

    def _planned(self, tick: int) -> _Plan:
        """Sort the zones into those near a transition and the others, up to the next tick at which one changes."""
        zones, offsets, special = [], [], []
        until = _NEVER
        busy = np.zeros(MINUTES_PER_DAY, np.bool_)
        for zone, table in enumerate(self.base.tables):
            offset = table.ordinary_offset(tick)
            if offset is None:
                special.append(zone)
            else:
                zones.append(zone)
                offsets.append(offset)
                busy |= np.roll(self._occupied[zone], -offset)
            change = table.next_change(tick)
            until = until if change is None else min(until, change)
        return _Plan(tick, until, np.array(zones, np.int64), np.array(offsets, np.int64), special, busy)


_NONE = np.zeros(0, np.int64)


def _joined(parts: Iterable[Found]) -> Found:
    return Found(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
