"""Sorted runs of numpy columns, and what merging them takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from streams.domain.csr_base import MOST, Bools, Ints

_T = TypeVar("_T")
_ELEMENTS = 131_072  # array elements handled in a slice


@dataclass(frozen=True, slots=True)
class Runs:
    """Old elements, ordered by key, that name positions, and the elements to be added, ordered likewise."""

    count: int
    keys: Callable[[slice], Ints]
    members: Callable[[slice], Ints]
    added_keys: Ints
    added: tuple[Ints, ...]
    preds: Ints | None = None


def slices_of(count: int) -> Iterator[slice]:
    """Slices, one after the other, that cover `count` elements."""
    return (slice(first, min(first + _ELEMENTS, count)) for first in range(0, count, _ELEMENTS))


def combined(upper: Ints, lower: Ints) -> Ints:
    """One key of two numbers of 32 bits each."""
    return upper.astype(np.int64) << 32 | lower


def run_of(ptr: Ints, part: slice) -> Ints:
    """For each element of a slice, in which run of the CSR it is."""
    first = int(np.searchsorted(ptr, part.start, side="right")) - 1
    last = int(np.searchsorted(ptr, part.stop - 1, side="right")) - 1
    bounds = np.clip(ptr[first : last + 2], part.start, part.stop)
    return np.repeat(np.arange(first, last + 1), np.diff(bounds))


def count_runs(lengths: Ints, keys: Ints) -> None:
    """Add one for each ordered key to the count of its upper half."""
    if len(keys):
        run = keys >> 32
        first = int(run[0])
        found = np.bincount(run - first)
        lengths[first : first + len(found)] += found.astype(np.int32)


def starts_of(lengths: Ints) -> Ints:
    """Where each run begins, and where the last one ends."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    if starts[-1] > MOST:
        raise OverflowError(f"{starts[-1]} entries; spread the schedules over more partitions")
    return starts.astype(np.int32)


def cut(array: Ints, count: int) -> Ints:
    """The first elements of an array that is not used any more."""
    if count < len(array):
        array.resize(count, refcheck=False)  # gives the rest back without a copy; no view of it is left
    return array


def kept(things: Sequence[_T], used: Bools) -> list[_T]:
    """The things that are used, in their order."""
    return [thing for thing, keep in zip(things, used.tolist(), strict=True) if keep]


def numbers_kept(used: Bools) -> Ints:
    """The new number of each thing; of one that is not kept, any."""
    return (np.cumsum(used) - used).astype(np.int32)
