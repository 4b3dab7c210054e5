"""Elapsed rules: every so many minutes of real time. They have no labels, so no clock change touches them.

Both directions: which schedules a tick reaches (`ElapsedBuckets`), and which ticks a rule has (`ticks_between`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from streams.domain.schedule import Every

T = TypeVar("T")


def ticks_between(rule: Every, first: int, last: int) -> range:
    """The rule's ticks of `first`..`last`, both included, ascending. It has none before its anchor."""
    begin = max(first, rule.anchor)
    return range(begin + (rule.anchor - begin) % rule.minutes, last + 1, rule.minutes)


def next_tick(rule: Every, tick: int) -> int:
    """The rule's first tick at or after `tick`."""
    begin = max(tick, rule.anchor)
    return begin + (rule.anchor - begin) % rule.minutes


class ElapsedBuckets(Generic[T]):
    """Items by interval and phase: a tick costs one look-up for each interval in use."""

    __slots__ = ("_by_interval",)

    def __init__(self) -> None:
        self._by_interval: dict[int, dict[int, dict[int, T]]] = {}

    def add(self, number: int, rule: Every, item: T) -> None:
        """Put an item under its rule and the caller's number for it."""
        phases = self._by_interval.setdefault(rule.minutes, {})
        phases.setdefault(rule.anchor % rule.minutes, {})[number] = item

    def discard(self, number: int, rule: Every) -> None:
        """Take out the item of a number that is there."""
        phases = self._by_interval[rule.minutes]
        phase = rule.anchor % rule.minutes
        del phases[phase][number]
        if not phases[phase]:
            del phases[phase]
        if not phases:
            del self._by_interval[rule.minutes]

    def at(self, tick: int) -> Iterator[T]:
        """The items whose interval and phase have the tick; whether their anchor has come is left to the caller."""
        for minutes, phases in self._by_interval.items():
            items = phases.get(tick % minutes)
            if items:
                yield from items.values()
