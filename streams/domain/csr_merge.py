"""The merge: a base and some added schedules become the next base, in slices between which ticks can be answered.

The old base stays as it is and answers meanwhile. What is taken out of either after the merge began is the caller's to
take out of the new base once that is there.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from operator import attrgetter

import numpy as np

from streams.domain.bundle import ZoneBundle
from streams.domain.csr_base import Base, Bools, Group, Ints, short
from streams.domain.csr_columns import Catalog, Columns, Row, effective_or_never
from streams.domain.csr_runs import (
    Runs,
    combined,
    count_runs,
    cut,
    kept,
    numbers_kept,
    run_of,
    slices_of,
    starts_of,
)
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.rules import minutes_of_day

_ROWS = 4_096  # Python objects looked at in a slice

_ID = attrgetter("schedule.id")
Slices = Generator[None, None, None]


class Merge:
    """One merge. `step` does a slice, a few milliseconds; `base` is there when it returns True.

    `at_once` is for one whose slices no one waits for: they are fewer, and cost less in all.
    """

    def __init__(self, bundle: ZoneBundle, old: Base, rows: list[Row], *, at_once: bool = False) -> None:
        self._most_rows = max(len(rows), 1) if at_once else _ROWS
        self.base: Base | None = None
        self._bundle = bundle
        self._old = old
        self._alive = old.alive.copy()
        self._rows = rows
        self._slices = self._run()

    def step(self) -> bool:
        """Do the next slice; whether that was the last one."""
        return next(self._slices, self) is self

    def finish(self) -> Base:
        """Do what is left, at once."""
        while not self.step():
            pass
        if self.base is None:
            raise AssertionError("a merge ended without a base")
        return self.base

    def _run(self) -> Slices:
        old = self._old
        self._pred_to, self._term_to = numbers_kept(old.used_preds), numbers_kept(old.used_terms)
        self._catalog = Catalog(
            self._bundle,
            old.zones,
            kept(old.predicates, old.used_preds),
            kept(old.terms, old.used_terms),
            old.minute_sets,
            [Group(zone, minutes, int(self._pred_to[pred])) for zone, minutes, pred in old.groups],
        )
        yield
        yield from self._sort_rows()
        yield from self._take_columns()
        yield from self._place()
        yield from self._move_columns()
        yield from self._merge_numbers()
        yield from self._merge_entries()
        yield from self._merge_groups()
        yield from self._look_for_repeated_ids()
        self._compose()

    def _sort_rows(self) -> Slices:
        """By id, in runs that the last sort finds in order."""
        runs: list[Row] = []
        for first in range(0, len(self._rows), self._most_rows):
            runs += sorted(self._rows[first : first + self._most_rows], key=_ID)
            yield
        runs.sort(key=_ID)
        self._rows = runs

    def _take_columns(self) -> Slices:
        parts = []
        for first in range(0, len(self._rows), self._most_rows):
            parts.append((first, self._catalog.columns(self._rows[first : first + self._most_rows])))
            yield
        self._new = Columns.join(parts or [(0, self._catalog.columns([]))])
        del self._rows

    def _place(self) -> Slices:
        """The new position of every row and of every old position; one taken out gets that of its successor."""
        old, ids = self._old, self._new.ids
        before = np.zeros(len(ids), np.int64)  # old positions before each row
        if len(old):
            for first in range(0, len(ids), _ROWS):
                before[first : first + _ROWS] = np.searchsorted(old.ids, ids[first : first + _ROWS])
                yield
        self._old_to = np.zeros(len(old) + 1, np.int32)
        alive_before = 0
        for part in slices_of(len(old)):
            alive = self._alive[part]
            rank = np.cumsum(alive) - alive + alive_before
            added = np.searchsorted(before, np.arange(part.start, part.stop), side="right")
            self._old_to[part] = rank + added
            alive_before += int(alive.sum())
            yield
        self._count = alive_before + len(ids)
        self._old_to[-1] = self._count
        # Between the row and its old successor stand only rows, placed in their order.
        follow = np.searchsorted(before, before, side="right")
        self._row_to = (self._old_to[before] - (follow - np.arange(len(ids)))).astype(np.int32)

    def _move_columns(self) -> Slices:
        old, new, catalog = self._old, self._new, self._catalog
        some_effective = old.effective_from is not None or new.effective_from is not None
        self._ids = np.empty(self._count, object)
        self._used_terms = np.zeros(len(catalog.terms), np.bool_)
        self._used_terms[0] = True
        moves: list[tuple[Ints, Ints]] = []

        def column(source: Ints, added: Ints) -> Ints:
            made = np.empty(self._count, source.dtype)
            made[self._row_to] = added
            moves.append((made, source))
            return made

        self._numbers = column(old.numbers, new.numbers)
        self._codes = column(old.codes, new.codes)
        self._since = column(old.since, new.since)
        self._effective = column(effective_or_never(old), effective_or_never(new)) if some_effective else None
        self._ids[self._row_to] = new.ids
        self._term_of = np.empty(self._count, short(len(catalog.terms)))
        self._term_of[self._row_to] = new.term_of
        self._used_terms[new.term_of] = True
        yield
        for part in slices_of(len(old)):
            alive = self._alive[part]
            to = self._old_to[part][alive]
            for made, source in moves:
                made[to] = source[part][alive]
            self._ids[to] = old.ids[part][alive]
            terms = self._term_to[old.term_of[part][alive]]
            self._term_of[to] = terms
            self._used_terms[terms] = True
            yield

    def _merge_numbers(self) -> Slices:
        old, new = self._old, self._new
        order = np.argsort(new.numbers)
        runs = Runs(
            count=len(old),
            keys=lambda part: old.numbers[old.by_number[part]].astype(np.int64),
            members=lambda part: old.by_number[part],
            added_keys=new.numbers[order].astype(np.int64),
            added=(self._row_to[order],),
        )
        outs: list[Ints] = [np.empty(self._count, np.int32)]
        yield from self._interleave(runs, outs)
        self._by_number = outs[0]

    def _merge_entries(self) -> Slices:
        old, new, catalog = self._old, self._new, self._catalog
        positions = self._row_to[new.entry_rows]
        keys = combined(new.entry_keys, positions)
        order = np.argsort(keys)
        self._used_preds = np.zeros(len(catalog.predicates), np.bool_)
        self._used_preds[new.entry_preds] = True
        runs = Runs(
            count=len(old.members),
            keys=lambda part: combined(run_of(old.ptr, part), self._old_to[old.members[part]]),
            members=lambda part: old.members[part],
            added_keys=keys[order],
            added=(positions[order], new.entry_preds[order]),
            preds=old.preds,
        )
        most = len(old.members) + len(order)
        outs: list[Ints] = [np.empty(most, np.int32), np.empty(most, short(len(catalog.predicates)))]
        lengths = np.zeros(len(catalog.zones) * MINUTES_PER_DAY, np.int32)
        yield from self._interleave(runs, outs, lengths)
        self._members, self._preds = outs
        self._ptr = starts_of(lengths)

    def _merge_groups(self) -> Slices:
        old, new = self._old, self._new
        positions = self._row_to[new.group_rows]
        keys = combined(new.group_numbers, positions)
        order = np.argsort(keys)
        runs = Runs(
            count=len(old.group_members),
            keys=lambda part: combined(run_of(old.group_ptr, part), self._old_to[old.group_members[part]]),
            members=lambda part: old.group_members[part],
            added_keys=keys[order],
            added=(positions[order],),
        )
        outs: list[Ints] = [np.empty(len(old.group_members) + len(order), np.int32)]
        lengths = np.zeros(len(self._catalog.groups), np.int32)
        yield from self._interleave(runs, outs, lengths)
        self._group_members = outs[0]
        self._group_ptr = starts_of(lengths)
        for group in self._catalog.groups:
            self._used_preds[group.pred] = True

    def _interleave(self, runs: Runs, outs: list[Ints], lengths: Ints | None = None) -> Slices:
        """Write what is left of the old elements and the added ones, by key, and cut `outs` to it.

        `lengths` counts the elements written by the upper half of their keys.
        """
        done, taken = 0, 0
        for part in slices_of(runs.count):
            members = runs.members(part)
            left = self._alive[members]
            keys = runs.keys(part)[left]
            upto = len(runs.added_keys)
            if part.stop < runs.count:  # what is added before the next slice's first element
                following = runs.keys(slice(part.stop, part.stop + 1))
                upto = int(np.searchsorted(runs.added_keys, following[0]))
            added = runs.added_keys[taken:upto]
            at = np.searchsorted(keys, added) + np.arange(len(added))
            is_old = np.ones(len(keys) + len(added), np.bool_)
            is_old[at] = False
            columns: list[Ints] = [self._old_to[members[left]]]
            if runs.preds is not None:
                columns.append(self._pred_to[runs.preds[part][left]])
                self._used_preds[columns[1]] = True
            for out, column, more in zip(outs, columns, runs.added, strict=True):
                target = out[done : done + len(is_old)]
                target[is_old] = column
                target[at] = more[taken:upto]
            if lengths is not None:
                count_runs(lengths, keys)
            done, taken = done + len(is_old), upto
            yield
        for n, more in enumerate(runs.added):
            outs[n][done : done + len(more) - taken] = more[taken:]
            outs[n] = cut(outs[n], done + len(more) - taken)
        if lengths is not None:
            count_runs(lengths, runs.added_keys)
        yield

    def _look_for_repeated_ids(self) -> Slices:
        self._repeated = False
        for part in slices_of(self._count - 1):
            following = self._ids[part.start + 1 : part.stop + 1]
            self._repeated = self._repeated or bool((self._ids[part] == following).any())
            yield

    def _compose(self) -> None:
        catalog = self._catalog
        zones = list(catalog.zones)
        self.base = Base(
            zones=zones,
            tables=[self._bundle.table(zone) for zone in zones],
            predicates=list(catalog.predicates),
            terms=list(catalog.terms),
            ids=self._ids,
            numbers=self._numbers,
            codes=self._codes,
            since=self._since,
            effective_from=self._effective,
            term_of=self._term_of,
            alive=np.ones(self._count, np.bool_),
            by_number=self._by_number,
            ptr=self._ptr,
            members=self._members,
            preds=self._preds,
            minute_sets=list(catalog.minute_sets),
            minute_bits=_bits(list(catalog.minute_sets)),
            groups=list(catalog.groups),
            group_ptr=self._group_ptr,
            group_members=self._group_members,
            repeated_ids=self._repeated,
            used_preds=self._used_preds,
            used_terms=self._used_terms,
        )


def _bits(minute_sets: Sequence[int]) -> Bools:
    bits = np.zeros((len(minute_sets), MINUTES_PER_DAY), np.bool_)
    for row, minutes in zip(bits, minute_sets, strict=True):
        row[list(minutes_of_day(minutes))] = True
    return bits
