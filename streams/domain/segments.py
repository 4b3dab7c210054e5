"""Segments: stretches of ticks that all reach their labels in the same way.

A sweep over `(L(T-1), L(T)]` drops the first repeated label of an overlap and fires the rest of it twice. So for every
tick it is said outright which labels it reaches, and under which policies: its own label (once, or as the first or
second copy of it), and gap labels that land on it. The shape of that answer changes only near transitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from streams.domain.schedule import POLICIES, Gap, Overlap
from streams.domain.timeline import Timeline

EVERY_POLICY = (1 << len(POLICIES)) - 1


class Reached(NamedTuple):
    """A label that a tick reaches: bit `Policy.code` of `mask` is set for each policy under which it fires there.

    `copy` is 1 for the second fire under `both`, otherwise 0.
    """

    label: int
    mask: int
    copy: int


class Shape(NamedTuple):
    """How ticks of a segment reach labels.

    `own`: (mask, copy) pairs for the tick's own label. `landing`: gap labels that `next_valid` puts on this tick (the
    segment is then one tick long). `shifts`: offsets that were in force before a jump which `shift` still counts by.
    """

    offset: int
    own: tuple[tuple[int, int], ...]
    landing: tuple[int, ...]
    shifts: tuple[int, ...]

    @property
    def ordinary(self) -> bool:
        """The tick's own label exists once and nothing lands here: every policy fires it."""
        return self.own == _ONCE and not self.landing and not self.shifts

    def reached(self, tick: int) -> tuple[Reached, ...]:
        """What a tick of this segment reaches, ordered by label and copy, one element each."""
        masks = {(tick + self.offset, copy): mask for mask, copy in self.own}
        for label in self.landing:
            masks[label, 0] = _NEXT_VALID
        for offset in self.shifts:
            masks[tick + offset, 0] = masks.get((tick + offset, 0), 0) | _SHIFT
        return tuple(Reached(label, masks[label, copy], copy) for label, copy in sorted(masks))


def _mask(gaps: Iterable[Gap] = Gap, overlaps: Iterable[Overlap] = Overlap) -> int:
    gaps, overlaps = set(gaps), set(overlaps)
    return sum(1 << policy.code for policy in POLICIES if policy.gap in gaps and policy.overlap in overlaps)


_NEXT_VALID = _mask(gaps=[Gap.NEXT_VALID])
_SHIFT = _mask(gaps=[Gap.SHIFT])
_ONCE = ((EVERY_POLICY, 0),)
_FIRST_COPY = ((_mask(overlaps=[Overlap.FIRST, Overlap.BOTH]), 0),)
_SECOND_COPY = ((_mask(overlaps=[Overlap.SECOND]), 0), (_mask(overlaps=[Overlap.BOTH]), 1))


def copies_reached(ticks: tuple[int, ...], tick: int) -> tuple[tuple[int, int], ...]:
    """(mask, copy) pairs for a label shown at `ticks`, at one of them. A third copy fires under no policy."""
    if len(ticks) == 1:
        return _ONCE
    return (_FIRST_COPY, _SECOND_COPY, ())[min(ticks.index(tick), 2)]


def shape_at(line: Timeline, tick: int) -> Shape:
    """The shape at a tick, from first principles: what the segment table is made of."""
    piece = line.piece_at(tick)
    own = copies_reached(line.ticks_of(tick + piece.offset), tick)
    landing: tuple[int, ...] = ()
    if piece.start == tick and piece.offset > piece.before:
        jumped = range(tick + piece.before, tick + piece.offset)
        landing = tuple(label for label in jumped if _lands(line, label, tick))
    shifts = tuple(
        jump.before
        for jump in line.pieces(tick - line.width, tick)
        if tick < jump.start + jump.offset - jump.before and _lands(line, tick + jump.before, jump.start)
    )
    return Shape(piece.offset, own, landing, shifts)


def _lands(line: Timeline, label: int, start: int) -> bool:
    """Whether a label is a gap label whose first jump is the one at `start`."""
    jump = line.jump_over(label)
    return jump is not None and jump.start == start


def segments(line: Timeline, first: int, last: int) -> tuple[list[int], list[Shape]]:
    """Starts and shapes of the segments that cover `first`..`last`; neighbours differ, the first start is `first`."""
    starts, shapes = [first], [shape_at(line, first)]
    for tick in sorted(_breaks(line, first, last)):
        shape = shape_at(line, tick)
        if shape != shapes[-1]:
            starts.append(tick)
            shapes.append(shape)
    return starts, shapes


def _breaks(line: Timeline, first: int, last: int) -> set[int]:
    """Every tick of `first`+1..`last` at which a shape can change.

    What a tick reaches depends on where the labels T + offset, for the offsets nearby, lie among the edges: the last
    label before and the first label after each transition. So it can change only at edge - offset, at a transition,
    and one tick after it (where `next_valid` has landed).
    """
    width = line.width
    found: set[int] = set()
    for piece in line.pieces(first - width, last + width):
        found |= {piece.start, piece.start + 1}
        for edge in (piece.start + piece.before, piece.start + piece.offset):
            for near in line.pieces(piece.start - width - 1, piece.start + width + 1):
                found |= {edge - near.offset, edge - near.before}
    return {tick for tick in found if first < tick <= last}
