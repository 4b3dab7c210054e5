"""The index at scale: a base of numpy arrays, and beside it a small overlay that is merged into it now and then.

What is put is staged until a tick is asked for: then much at once becomes a base, a little goes to the overlay. A merge
is done in slices by `tidy`, called when there is nothing better to do; the overlay it takes in keeps answering until it
is done, and what is put meanwhile goes to another. Everything is one thread's, and pure.
"""

from __future__ import annotations

from collections.abc import KeysView
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.domain.bundle import ZoneBundle
from streams.domain.csr_base import Base, Ints
from streams.domain.csr_columns import Row, has_labels, row_of, unfit
from streams.domain.csr_histogram import count_fires
from streams.domain.csr_merge import Merge
from streams.domain.csr_reach import Found, Reach
from streams.domain.index import DictIndex, Due
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.schedule import POLICIES, Schedule

_FEWEST_MERGED = 256
_MERGED_SHARE = 256  # an overlay of this part of the base is worth a merge
_FEWEST_AT_ONCE = 4_096
_AT_ONCE_SHARE = 32  # so many puts between two ticks cost more in the overlay than a merge at once does


class _Overlay:
    """Schedules in dictionaries, and what a merge needs of them."""

    def __init__(self, bundle: ZoneBundle) -> None:
        self.index = DictIndex(bundle)
        self.rows: dict[int, Row] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def put(self, row: Row) -> None:
        self.index.put(row.number, row.schedule, row.since)
        self.rows[row.number] = row

    def take_out(self, number: int) -> bool:
        self.index.remove(number)
        return self.rows.pop(number, None) is not None


class Columns(NamedTuple):
    """Fires as arrays; `codes` are those of the policies."""

    numbers: Ints
    labels: Ints
    copies: Ints
    codes: Ints

    def dues(self) -> list[Due]:
        """The same as a list."""
        policies = map(POLICIES.__getitem__, self.codes.tolist())
        every = zip(self.numbers.tolist(), self.labels.tolist(), self.copies.tolist(), policies, strict=True)
        return list(map(_new_due, every))


_new_due = partial(tuple.__new__, Due)  # as `Due._make`, which takes thrice as long


@dataclass(slots=True)
class _Merging:
    """A merge under way: what it takes in, and what was taken out since it began."""

    merge: Merge
    overlay: _Overlay
    gone: list[int] = field(default_factory=list)


class CsrIndex:
    """As `DictIndex` in every answer, for a million schedules. Ticks may come in any order."""

    def __init__(self, bundle: ZoneBundle) -> None:
        self._bundle = bundle
        self._reach = Reach(Base.empty())
        self._staged: dict[int, Row] = {}
        self._fresh = _Overlay(bundle)
        self._kept = DictIndex(bundle)  # what no base can hold
        self._ids_kept: dict[int, str] = {}
        self._merging: _Merging | None = None

    @classmethod
    def of(cls, bundle: ZoneBundle, rows: list[Row]) -> CsrIndex:
        """An index of rows, each number once, all of which a base can hold (see `unfit`)."""
        index = cls(bundle)
        index._fold(rows)
        return index

    def __len__(self) -> int:
        self.settle()
        merging = 0 if self._merging is None else len(self._merging.overlay)
        base = self._reach.base
        return len(base) - base.dead + len(self._fresh) + len(self._ids_kept) + merging

    @property
    def base_bytes(self) -> int:
        """What the arrays of the base take, and those that answering needs."""
        return self._reach.base.nbytes + self._reach.nbytes

    def put(self, number: int, schedule: Schedule, since: int | None = None) -> None:
        """As `DictIndex.put`, errors included."""
        if since is None:
            since = schedule.effective_from
        if has_labels(schedule):
            self._bundle.table(schedule.zone)
            self._staged[number] = row_of(number, schedule, since)
            return
        self._keep(number, schedule, since)

    def remove(self, number: int) -> None:
        """As `Index.remove`."""
        self._staged.pop(number, None)
        if not self._fresh.take_out(number) and not self._take_out_kept(number):
            self._take_out_old(number)

    def due(self, tick: int) -> list[Due]:
        """As `Index.due`."""
        self.settle()
        base = self._reach.base
        found = self._reach.due(tick)
        mine = [] if found is None else _columns(base, found).dues()
        more: list[tuple[str, Due]] = []
        for overlay in self._overlays():
            more += [(overlay.rows[due.number].schedule.id, due) for due in overlay.index.due(tick)]
        if self._ids_kept:
            more += [(self._ids_kept[due.number], due) for due in self._kept.due(tick)]
        if not more and not base.repeated_ids:
            return mine
        if found is not None:
            more += zip(base.ids[found.positions].tolist(), mine, strict=True)
        more.sort(key=_order)
        return [due for _, due in more]

    def due_columns(self, tick: int) -> Columns | None:
        """What `due` finds in the base alone, as arrays in its order; None for nothing."""
        self.settle()
        found = self._reach.due(tick)
        return None if found is None else _columns(self._reach.base, found)

    def load_histogram(self, from_day: int, days: int) -> npt.NDArray[np.int64]:
        """The occurrences of every UTC minute from the first of a date on, if nothing is changed until then. Exact."""
        self.settle()
        start, end = from_day * MINUTES_PER_DAY, (from_day + days) * MINUTES_PER_DAY
        counts = count_fires(self._reach, start, end).astype(np.int64)
        for overlay in self._overlays():
            small = Merge(self._bundle, Base.empty(), list(overlay.rows.values()), at_once=True).finish()
            counts += count_fires(Reach(small), start, end)
        if self._ids_kept:
            counts += np.fromiter((len(self._kept.due(tick)) for tick in range(start, end)), np.int64, end - start)
        return counts

    def tidy(self) -> bool:
        """Do a slice of what keeps ticks cheap, a few milliseconds; whether there is more to do."""
        self.settle()
        base = self._reach.base
        if self._merging is None:
            least = max(_FEWEST_MERGED, len(base) // _MERGED_SHARE)
            if len(self._fresh) + base.dead < least:
                return False
            self._merging = _Merging(Merge(self._bundle, base, list(self._fresh.rows.values())), self._fresh)
            self._fresh = _Overlay(self._bundle)
        if self._merging.merge.step():
            self._adopt()
            return False
        return True

    def settle(self) -> None:
        """Give what was put its place now, rather than when the next tick is asked for."""
        staged = self._staged
        if not staged:
            return
        self._staged = {}
        for row in unfit(staged.values()):
            del staged[row.number]
            self._keep(row.number, row.schedule, row.since)
        rows = list(staged.values())
        base = self._reach.base
        at_once = len(staged) >= max(_FEWEST_AT_ONCE, (len(base) - base.dead) // _AT_ONCE_SHARE)
        if at_once:
            while self._merging is not None:
                self.tidy()
        self._take_out_all(staged.keys())
        if not at_once:
            for row in rows:
                self._fresh.put(row)
            return
        rows += self._fresh.rows.values()
        self._fresh = _Overlay(self._bundle)
        self._fold(rows)

    def _fold(self, rows: list[Row]) -> None:
        self._reach = Reach(Merge(self._bundle, self._reach.base, rows, at_once=True).finish())

    def _keep(self, number: int, schedule: Schedule, since: int | None) -> None:
        """Put a schedule where no merge takes it."""
        self._kept.put(number, schedule, since)
        self._ids_kept[number] = schedule.id
        self._staged.pop(number, None)
        if not self._fresh.take_out(number):
            self._take_out_old(number)

    def _take_out_old(self, number: int) -> None:
        gone = self._reach.base.take_out(number)
        merging = self._merging
        if merging is not None and (merging.overlay.take_out(number) or gone):
            merging.gone.append(number)

    def _take_out_all(self, numbers: KeysView[int]) -> None:
        """What has these numbers, wherever it is."""
        for number in numbers & self._ids_kept.keys():
            self._take_out_kept(number)
        self._reach.base.take_out_all(list(numbers))
        overlays = [self._fresh]
        if self._merging is not None:
            overlays.append(self._merging.overlay)
            self._merging.gone += numbers
        for overlay in overlays:
            for number in numbers & overlay.rows.keys():
                overlay.take_out(number)

    def _take_out_kept(self, number: int) -> bool:
        self._kept.remove(number)
        return self._ids_kept.pop(number, None) is not None

    def _adopt(self) -> None:
        """The merge is done: what it made takes the place of the base and of the overlay it took in."""
        merging, self._merging = self._merging, None
        if merging is None or merging.merge.base is None:
            raise AssertionError("no merge to adopt")
        base = merging.merge.base
        base.take_out_all(merging.gone)
        self._reach = Reach(base)

    def _overlays(self) -> list[_Overlay]:
        overlays = [self._fresh]
        if self._merging is not None:
            overlays.append(self._merging.overlay)
        return [overlay for overlay in overlays if len(overlay)]


def _order(one: tuple[str, Due]) -> tuple[str, int, int, int]:
    schedule_id, due = one
    return schedule_id, -1 if due.label is None else due.label, due.copy, due.number


def _columns(base: Base, found: Found) -> Columns:
    at = found.positions
    return Columns(base.numbers[at], found.labels, found.copies, base.codes[at])
