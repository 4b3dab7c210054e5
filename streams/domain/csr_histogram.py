"""How many occurrences each minute will have, counted whole days at a time rather than tick by tick. Exact."""

from __future__ import annotations

import numpy as np

from streams.domain.csr_base import Base, Bools, Ints
from streams.domain.csr_columns import effective_or_never
from streams.domain.csr_reach import Reach
from streams.domain.minutes import MINUTES_PER_DAY

_WINDOW_DAYS = 31  # counts of this many dates are held at once, for every zone
_SPECIAL_TICKS = 2_048
_APART_ENTRIES = 32_768

_Stretch = tuple[int, int, int, int]  # zone, first tick, end, offset


def count_fires(reach: Reach, from_tick: int, to_tick: int) -> Ints:
    """The fires of each tick of `from_tick <= tick < to_tick`."""
    counts = np.zeros(to_tick - from_tick, np.int64)
    step = _WINDOW_DAYS * MINUTES_PER_DAY
    for start in range(from_tick, to_tick, step) if len(reach.base) else ():
        end = min(start + step, to_tick)
        counts[start - from_tick : end - from_tick] += _window(reach, start, end)
    return counts


def _window(reach: Reach, start: int, end: int) -> Ints:
    counts = np.zeros(end - start, np.int64)
    stretches, special = _stretches(reach.base, start, end)
    _count_ordinary(reach, stretches, counts, start)
    for first in range(0, len(special), _SPECIAL_TICKS):
        found = reach.special(reach.rows(special[first : first + _SPECIAL_TICKS]))
        counts += np.bincount(found.ticks - start, minlength=len(counts))
    return counts


def _stretches(base: Base, start: int, end: int) -> tuple[list[_Stretch], list[tuple[int, int]]]:
    """Ordinary stretches, and (zone, tick) of every other tick, ordered by tick."""
    ordinary: list[_Stretch] = []
    special: list[tuple[int, int]] = []
    for zone, table in enumerate(base.tables):
        tick = start
        while tick < end:
            change = table.next_change(tick)
            until = end if change is None else min(change, end)
            offset = table.ordinary_offset(tick)
            if offset is None:
                special += [(zone, each) for each in range(tick, until)]
            else:
                ordinary.append((zone, tick, until, offset))
            tick = until
    special.sort(key=lambda place: place[1])
    return ordinary, special


def _count_ordinary(reach: Reach, stretches: list[_Stretch], counts: Ints, start: int) -> None:
    if not stretches:
        return
    base = reach.base
    first = min(tick + offset for _, tick, _, offset in stretches) // MINUTES_PER_DAY
    last = max(until - 1 + offset for _, _, until, offset in stretches) // MINUTES_PER_DAY
    begins_within = (base.first_labels > first * MINUTES_PER_DAY) & (base.first_labels % MINUTES_PER_DAY != 0)
    ends_within = (base.last_labels < (last + 1) * MINUTES_PER_DAY) & ((base.last_labels + 1) % MINUTES_PER_DAY != 0)
    apart = (begins_within | ends_within)[base.term_of]
    if base.effective_from is not None:
        apart |= base.effective_from > start
    labels = _labels(reach, first, last, base.alive & ~apart)
    for zone, tick, until, offset in stretches:
        shown = slice(tick + offset - first * MINUTES_PER_DAY, until + offset - first * MINUTES_PER_DAY)
        counts[tick - start : until - start] += labels[zone, shown]
    apart &= base.alive
    if apart.any():
        _count_apart(reach, stretches, counts, start, apart)


def _count_apart(reach: Reach, stretches: list[_Stretch], counts: Ints, start: int, apart: Bools) -> None:
    """Those that begin or end within a date: each by the tick and label of each date."""
    base = reach.base
    effective = effective_or_never(base)
    zones, minutes, preds, positions = _entries_of(base, apart)
    bounds = np.searchsorted(zones, np.arange(len(base.zones) + 1))
    for zone, tick, until, offset in stretches:
        first, last = (tick + offset) // MINUTES_PER_DAY, (until - 1 + offset) // MINUTES_PER_DAY
        match, admit = reach.dates(first, last)
        days = (np.arange(first, last + 1) * MINUTES_PER_DAY)[:, None]
        for at in range(int(bounds[zone]), int(bounds[zone + 1]), _APART_ENTRIES):
            part = slice(at, min(at + _APART_ENTRIES, int(bounds[zone + 1])))
            terms = base.term_of[positions[part]]
            labels = days + minutes[part]
            ticks = labels - offset
            takes = match[:, preds[part]] & admit[:, terms] & (ticks < until)
            takes &= ticks >= np.maximum(effective[positions[part]], tick)
            takes &= (labels >= base.first_labels[terms]) & (labels <= base.last_labels[terms])
            counts += np.bincount(ticks[takes] - start, minlength=len(counts))


def _entries_of(base: Base, wanted: Bools) -> tuple[Ints, Ints, Ints, Ints]:
    """Zone, minute, predicate and position of every minute of some schedules, by zone; dense rules written out."""
    keys = np.repeat(np.arange(len(base.ptr) - 1), np.diff(base.ptr))
    own = wanted[base.members]
    keys, preds, positions = keys[own], base.preds[own], base.members[own]
    group_of = np.repeat(np.arange(len(base.groups)), np.diff(base.group_ptr))
    own = wanted[base.group_members]
    group_of, members = group_of[own], base.group_members[own]
    if not len(members):
        return keys // MINUTES_PER_DAY, keys % MINUTES_PER_DAY, preds, positions
    rows, minutes = np.nonzero(base.minute_bits[base.group_minutes[group_of]])
    group_of = group_of[rows]
    group_zones = np.array([group.zone for group in base.groups])
    zones = np.concatenate((keys // MINUTES_PER_DAY, group_zones[group_of]))
    order = np.argsort(zones, kind="stable")
    return (
        zones[order],
        np.concatenate((keys % MINUTES_PER_DAY, minutes))[order],
        np.concatenate((preds, base.group_preds[group_of]))[order],
        np.concatenate((positions, members[rows]))[order],
    )


def _labels(reach: Reach, first: int, last: int, wanted: Bools) -> Ints:
    """For each zone, how many of the wanted schedules take each label of the dates `first`..`last`, one after the
    other; they have all labels of a date or none.
    """
    base = reach.base
    zones = len(base.zones)
    keys = np.repeat(np.arange(len(base.ptr) - 1), np.diff(base.ptr))
    terms_of, own = base.term_of[base.members], wanted[base.members]
    group_of = np.repeat(np.arange(len(base.groups)), np.diff(base.group_ptr))
    group_terms, group_own = base.term_of[base.group_members], wanted[base.group_members]
    preds, admit = reach.dates(first, last)
    labels = np.empty((zones, last - first + 1, MINUTES_PER_DAY), np.int32)
    for at, day in enumerate(range(first, last + 1)):
        within = (base.first_labels <= day * MINUTES_PER_DAY) & (base.last_labels >= day * MINUTES_PER_DAY)
        terms = within & admit[at]
        takes = own & preds[at][base.preds] & terms[terms_of]
        labels[:, at] = np.bincount(keys[takes], minlength=zones * MINUTES_PER_DAY).reshape(zones, MINUTES_PER_DAY)
        if base.groups:
            members = np.bincount(group_of[group_own & terms[group_terms]], minlength=len(base.groups))
            for group, count in zip(base.groups, (members * preds[at][base.group_preds]).tolist(), strict=True):
                labels[group.zone, at] += count * base.minute_bits[group.minutes]
    return labels.reshape(zones, -1)
