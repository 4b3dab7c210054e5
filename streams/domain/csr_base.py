"""The index's base: schedules as numpy arrays, immutable but for a bit that takes one out.

A schedule's *position* is its rank by id, so positions sort as the index's answers do. Entries are kept in
CSR form: those of (zone, minute of day) are `members[ptr[key]:ptr[key + 1]]`, ascending, with `preds` beside them.

Rules with many minutes would multiply entries, so those of a *dense* rule are kept by group, one for each zone and
rule, and its minutes once for all zones: a group's members are `group_members[group_ptr[g]:group_ptr[g + 1]]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streams.domain.predicates import DatePredicate
from streams.domain.zones import ZoneTable

Ints = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]

NEVER_SINCE = -(1 << 31)  # of a schedule that has been in force for ever
LEAST, MOST = NEVER_SINCE + 1, (1 << 31) - 1  # what the arrays can hold
_MOST_SHORT = 1 << 16


class Terms(NamedTuple):
    """Which labels of its rule a schedule has: those from the first to the last, but for some dates."""

    first: int
    last: int
    except_dates: tuple[int, ...]


_FAR = 1 << 62
ALWAYS = Terms(-_FAR, _FAR, ())


class Group(NamedTuple):
    """A dense rule in a zone: numbers of the zone, of its set of minutes, and of its predicate."""

    zone: int
    minutes: int
    pred: int


@dataclass(slots=True)
class Base:
    """All arrays of one state of the index. Only `alive` ever changes, and only from True to False."""

    zones: list[str]
    tables: list[ZoneTable]
    predicates: list[DatePredicate]
    terms: list[Terms]
    # by position
    ids: Objects
    numbers: Ints
    codes: Ints
    since: Ints
    effective_from: Ints | None
    term_of: Ints
    alive: Bools
    by_number: Ints  # positions, ordered by number
    # entries
    ptr: Ints
    members: Ints
    preds: Ints
    # dense rules
    minute_sets: list[int]
    minute_bits: Bools
    groups: list[Group]
    group_ptr: Ints
    group_members: Ints
    # whether two numbers have one id: then positions alone don't say the order
    repeated_ids: bool
    used_preds: Bools
    used_terms: Bools
    dead: int = 0
    first_labels: Ints = field(init=False)  # by terms
    last_labels: Ints = field(init=False)
    group_minutes: Ints = field(init=False)
    group_preds: Ints = field(init=False)
    zone_groups: Ints = field(init=False)  # group numbers, ordered by zone
    zone_groups_ptr: Ints = field(init=False)

    def __post_init__(self) -> None:
        """What is derived from the terms and the groups."""
        self.first_labels = np.array([terms.first for terms in self.terms], np.int64)
        self.last_labels = np.array([terms.last for terms in self.terms], np.int64)
        table = np.array(self.groups, np.int32).reshape(-1, 3)
        self.group_minutes, self.group_preds = table[:, 1].copy(), table[:, 2].copy()
        self.zone_groups = np.argsort(table[:, 0], kind="stable").astype(np.int32)
        self.zone_groups_ptr = np.searchsorted(table[self.zone_groups, 0], np.arange(len(self.zones) + 1))

    @classmethod
    def empty(cls) -> Base:
        """The base of no schedules."""
        none = np.zeros(0, np.int32)
        return cls(
            zones=[], tables=[], predicates=[], terms=[ALWAYS], ids=np.zeros(0, object), numbers=none,
            codes=np.zeros(0, np.uint8), since=none, effective_from=None, term_of=np.zeros(0, np.uint16),
            alive=np.zeros(0, np.bool_), by_number=none, ptr=np.zeros(1, np.int32), members=none,
            preds=np.zeros(0, np.uint16), minute_sets=[], minute_bits=np.zeros((0, 1440), np.bool_), groups=[],
            group_ptr=np.zeros(1, np.int32), group_members=none, repeated_ids=False,
            used_preds=np.zeros(0, np.bool_), used_terms=np.ones(1, np.bool_),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def nbytes(self) -> int:
        """What the arrays take; ids as references to the schedules' own."""
        arrays = (
            self.ids, self.numbers, self.codes, self.since, self.term_of, self.alive, self.by_number, self.ptr,
            self.members, self.preds, self.minute_bits, self.group_ptr, self.group_members, self.group_minutes,
            self.group_preds, self.zone_groups, self.zone_groups_ptr, self.first_labels, self.last_labels,
        )  # fmt: skip
        return sum(a.nbytes for a in arrays) + (0 if self.effective_from is None else self.effective_from.nbytes)

    def position_of(self, number: int) -> int | None:
        """Where the schedule with a number is, if it is here and was not taken out."""
        low, high = 0, len(self.by_number)
        by_number, numbers = self.by_number, self.numbers
        while low < high:
            middle = (low + high) >> 1
            if numbers[by_number[middle]] < number:
                low = middle + 1
            else:
                high = middle
        if low == len(by_number):
            return None
        position = int(by_number[low])
        return position if numbers[position] == number and self.alive[position] else None

    def take_out(self, number: int) -> bool:
        """Whether the schedule was here until now."""
        position = self.position_of(number)
        if position is None:
            return False
        self.alive[position] = False
        self.dead += 1
        return True

    def take_out_all(self, numbers: Sequence[int]) -> None:
        """The same for many."""
        if not len(self) or not numbers:
            return
        wanted = np.array(numbers, np.int64)
        at = np.searchsorted(self.numbers, wanted, sorter=self.by_number)
        found = self.by_number[np.minimum(at, len(self) - 1)]
        found = np.unique(found[(self.numbers[found] == wanted) & self.alive[found]])
        self.alive[found] = False
        self.dead += len(found)


def short(count: int) -> type[np.integer[Any]]:
    """The type for numbers below `count`."""
    return np.uint16 if count <= _MOST_SHORT else np.int32


def expand(ptr: Ints, keys: Ints) -> tuple[Ints, Ints]:
    """(row, entry) for every entry of every row's key, in order; `keys` has one for each row."""
    begin = ptr[keys]
    length = ptr[keys + 1] - begin
    rows = np.flatnonzero(length)
    if not len(rows):
        return rows, rows
    begin, length = begin[rows].astype(np.int64), length[rows].astype(np.int64)
    total = int(length.sum())
    return np.repeat(rows, length), np.arange(total) + np.repeat(begin - np.cumsum(length) + length, length)
