"""A zone on the minute grid: pieces of constant offset, and the label function L(T) = T + offset(T) they make.

Offsets are floored to the minute and transitions ceiled: L(T) is the wall clock's minute at the start of tick T.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import MAXYEAR
from typing import NamedTuple

from streams.domain.minutes import MINUTES_PER_DAY, day_of
from streams.domain.posix_tz import PosixRule
from streams.domain.tzif import TzifData

_BEGINNING = -(1 << 62)
_END = 1 << 62
_FIRST_YEAR_OF_PURE_RULE = 1900  # a file with a rule and no transitions: its rule is followed from here
_EXTRA_YEARS = 20


class Piece(NamedTuple):
    """Ticks from `start` up to, not including, `end` have this offset, in minutes; `before` is the piece before's."""

    start: int
    end: int
    offset: int
    before: int


class Timeline:
    """The pieces of one zone, ascending and without end: a yearly rule is written out when a later tick is asked for.

    Answers never depend on what was asked before. Years beyond 9999 have no text form; there the last offset stays.
    """

    __slots__ = ("_covered", "_last_listed", "_pieces", "_tail", "_year", "most", "width")

    def __init__(
        self,
        first_offset: int,
        transitions: Iterable[tuple[int, int]],
        tail: PosixRule | None = None,
        until_year: int = 2100,
    ) -> None:
        """`transitions` are (tick, offset in minutes), ascending; the later one of two on the same tick counts."""
        starts, offsets = [_BEGINNING], [first_offset]
        listed = list(transitions)
        _append(starts, offsets, listed)
        self._pieces = (starts, offsets)
        self._tail = tail if tail is not None and tail.daylight_s is not None else None
        known = offsets + [offset // 60 for offset in (tail.offsets_s if tail else ())]
        self.most = max(known)
        self.width = self.most - min(known)
        self._covered = _END
        if self._tail is not None:
            # Not `starts[-1]`: the last listed transition may change no offset, and the rule begin with it (Troll).
            self._last_listed = listed[-1][0] if listed else _BEGINNING
            self._year = _year_of(self._last_listed) - 2 if listed else _FIRST_YEAR_OF_PURE_RULE - 1
            self._extend(max(until_year, self._year + 3))

    @classmethod
    def of(cls, data: TzifData, until_year: int = 2100) -> Timeline:
        """The time line of a parsed file."""
        first = data.first_offset_s
        if not data.transitions and data.tail is not None:
            first = data.tail.standard_s
        return cls(first // 60, _on_grid(data.transitions), data.tail, until_year)

    def offset_at(self, tick: int) -> int:
        """The offset in force at a tick, in minutes east of UTC."""
        starts, offsets = self._through(tick)
        return offsets[bisect_right(starts, tick) - 1]

    def piece_at(self, tick: int) -> Piece:
        """The piece a tick lies in."""
        return self.pieces(tick, tick)[0]

    def pieces(self, first: int, last: int) -> list[Piece]:
        """The pieces that hold a tick of `first`..`last`, ascending; the ends are exact even where they lie beyond."""
        starts, offsets = self._through(last)
        low, high = max(0, bisect_right(starts, first) - 1), bisect_right(starts, last)
        return [
            Piece(
                starts[n],
                starts[n + 1] if n + 1 < len(starts) else _END,
                offsets[n],
                offsets[n - 1] if n else offsets[0],
            )
            for n in range(low, high)
        ]

    def ticks_of(self, label: int) -> tuple[int, ...]:
        """P(label): every tick whose wall clock shows the label, ascending."""
        starts, offsets = self._through(label - self.most + self.width)
        n = bisect_right(starts, label - self.most) - 1
        last = label - self.most + self.width
        found = []
        while n < len(starts) and starts[n] <= last:
            tick = label - offsets[n]
            if starts[n] <= tick and (n + 1 == len(starts) or tick < starts[n + 1]):
                found.append(tick)
            n += 1
        return tuple(found)

    def jump_over(self, label: int) -> Piece | None:
        """The piece whose start is the first to jump over a label, for a label that no tick shows; else None."""
        if self.ticks_of(label):
            return None
        for piece in self.pieces(label - self.most, label - self.most + self.width):
            if piece.start + piece.before <= label < piece.start + piece.offset:
                return piece
        raise AssertionError(f"label {label} is neither shown nor jumped over")

    def next_transition(self, tick: int) -> int | None:
        """The first start of a piece after `tick`, or None if the offset never changes again."""
        starts, _ = self._through(tick)
        n = bisect_right(starts, tick)
        return starts[n] if n < len(starts) else None

    def _through(self, tick: int) -> tuple[list[int], list[int]]:
        """Starts and offsets, complete for every piece that begins at or before the one after `tick`'s."""
        if tick > self._covered:
            self._extend(_year_of(tick) + _EXTRA_YEARS)
        return self._pieces

    def _extend(self, year: int) -> None:
        """Write the yearly rule out through `year`. Readers hold the old lists or the new ones, never half of them."""
        if self._tail is None:
            return
        year = min(year, MAXYEAR - 1)
        starts, offsets = self._pieces[0].copy(), self._pieces[1].copy()
        changes = _on_grid(self._tail.changes(self._year + 1, year))
        _append(starts, offsets, (change for change in changes if change[0] > max(self._last_listed, starts[-1])))
        self._pieces = (starts, offsets)
        self._year = year
        # Two years short, so that the transition after any covered tick is there too.
        self._covered = _END if year >= MAXYEAR - 1 else day_of(year - 1, 1, 1) * MINUTES_PER_DAY


def _on_grid(transitions: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """UTC seconds and offsets in seconds, as ticks (ceiled) and minutes (floored)."""
    return [(-(-at // 60), offset // 60) for at, offset in transitions]


def _append(starts: list[int], offsets: list[int], transitions: Iterable[tuple[int, int]]) -> None:
    for at, offset in transitions:
        if at == starts[-1]:
            offsets[-1] = offset
            if len(offsets) > 1 and offsets[-2] == offset:
                del starts[-1], offsets[-1]
        elif offset != offsets[-1]:
            starts.append(at)
            offsets.append(offset)


def _year_of(tick: int) -> int:
    """A year that is right or one off, for any tick; the mean Gregorian year has 365.2425 days."""
    return 1970 + tick * 10_000 // (3_652_425 * MINUTES_PER_DAY)
