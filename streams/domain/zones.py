"""Zone tables: from a tick to the labels it reaches, and from a label to the ticks it fires at.

The two are computed apart (`reached` from the segment table, `resolve` from P(label)) and are inverses for all nine
policies; `tests/property/test_zones.py` holds them to it in the zones that bite.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from streams.domain.errors import InvalidInput
from streams.domain.schedule import Gap, Overlap, Policy
from streams.domain.segments import Reached, Shape, copies_reached, segments
from streams.domain.timeline import Timeline
from streams.domain.tzif import parse_tzif

__all__ = ["Firing", "Landing", "Reached", "ZoneTable"]

_BLOCK_BITS = 19  # a block of segments is 2^19 minutes, about a year
_MOST_BLOCKS = 64


class Firing(NamedTuple):
    """One fire of a label. `copy` is 1 for the second fire under `both` (its key ends in `#2`), otherwise 0."""

    tick: int
    copy: int


class Landing(NamedTuple):
    """Where a label lies: the ticks that show it, or, for a gap label, what the jump over it offers instead.

    `copies` is P(label), ascending. Only if it is empty, `tau` is the first tick past the jump and `shifted` the tick
    that the offset before the jump gives.
    """

    copies: tuple[int, ...]
    tau: int | None
    shifted: int | None

    def firings(self, policy: Policy, since: int | None = None) -> tuple[Firing, ...]:
        """The fires under a policy, ascending. A third copy never fires.

        `since` is the tick at which the rule came into force: fires before it don't count, and a copy after it is
        treated as if the copies before it did not exist.
        """
        if self.tau is not None and self.shifted is not None:
            landed = {Gap.SKIP: (), Gap.NEXT_VALID: (self.tau,), Gap.SHIFT: (self.shifted,)}[policy.gap]
            return tuple(Firing(tick, 0) for tick in landed if since is None or tick >= since)
        copies = self.copies if since is None else tuple(tick for tick in self.copies if tick >= since)
        if policy.overlap is Overlap.BOTH:
            return tuple(Firing(tick, copy) for copy, tick in enumerate(copies[:2]))
        if policy.overlap is Overlap.SECOND:
            return tuple(Firing(tick, 0) for tick in copies[:2][-1:])
        return tuple(Firing(tick, 0) for tick in copies[:1])


class ZoneTable:
    """One zone of one tzdata version. A pure function of tick and bytes; what it caches never shows."""

    __slots__ = ("_blocks", "_line", "name")

    def __init__(self, name: str, line: Timeline) -> None:
        self.name = name
        self._line = line
        self._blocks: dict[int, tuple[list[int], list[Shape]]] = {}

    @classmethod
    def from_tzif(cls, name: str, data: bytes, until_year: int = 2100) -> ZoneTable:
        """The table of a TZif file. Rules are written out to `until_year` now and further when asked for.

        Raises InvalidInput that names the zone and what is wrong with the bytes.
        """
        try:
            return cls(name, Timeline.of(parse_tzif(data), until_year))
        except InvalidInput as wrong:
            raise InvalidInput(f"zone {name}: {wrong}") from None

    @property
    def offset_range(self) -> tuple[int, int]:
        """The least and the greatest offset the zone ever had or will have, in minutes."""
        return self._line.most - self._line.width, self._line.most

    def offset_at(self, tick: int) -> int:
        """Minutes east of UTC at a tick."""
        return self._line.offset_at(tick)

    def ticks_of(self, label: int) -> tuple[int, ...]:
        """P(label): every tick whose local label it is, ascending; empty for a gap label."""
        return self._line.ticks_of(label)

    def label_landing(self, label: int) -> Landing:
        """Where a label lies on the tick line, before any policy."""
        copies = self._line.ticks_of(label)
        if copies:
            return Landing(copies, None, None)
        jump = self._line.jump_over(label)
        if jump is None:
            raise AssertionError(f"{self.name}: label {label} has no tick and no jump")
        return Landing((), jump.start, label - jump.before)

    def resolve(self, label: int, policy: Policy) -> tuple[Firing, ...]:
        """The ticks at which a label fires under a policy, ascending; none for a gap label under `skip`."""
        return self.label_landing(label).firings(policy)

    def reached(self, tick: int, since: int | None = None) -> tuple[Reached, ...]:
        """The labels a tick reaches and the policies under which they fire there, ordered by label.

        `since` has the meaning it has in `Landing.firings`.
        """
        shape = self._shape(tick)
        if since is None or shape.ordinary:
            return shape.reached(tick) if since is None or tick >= since else ()
        if tick < since:
            return ()
        copies = tuple(copy for copy in self._line.ticks_of(tick + shape.offset) if copy >= since)
        return shape._replace(own=copies_reached(copies, tick)).reached(tick)

    def ordinary_offset(self, tick: int) -> int | None:
        """The offset, if the tick reaches its own label only and under every policy; None near a transition."""
        shape = self._shape(tick)
        return shape.offset if shape.ordinary else None

    def next_change(self, tick: int) -> int | None:
        """The first tick after this one at which another segment begins: until then `tick - label`, masks and copies
        stay what they are. None if there is no further one.
        """
        width = self._line.width
        shape = self._shape(tick)
        block = tick >> _BLOCK_BITS
        while True:
            starts, shapes = self._block(block)
            n = bisect_right(starts, tick)
            if n == 0 and shapes[0] == shape:
                n = 1
            if n < len(starts):
                return starts[n]
            end = (block + 1) << _BLOCK_BITS
            following = self._line.next_transition(end - width - 2)
            if following is None:
                return None
            shape = shapes[-1]
            block = max(block + 1, (following - width) >> _BLOCK_BITS)

    def _shape(self, tick: int) -> Shape:
        starts, shapes = self._block(tick >> _BLOCK_BITS)
        return shapes[bisect_right(starts, tick) - 1]

    def _block(self, number: int) -> tuple[list[int], list[Shape]]:
        block = self._blocks.get(number)
        if block is None:
            first = number << _BLOCK_BITS
            block = segments(self._line, first, first + (1 << _BLOCK_BITS) - 1)
            if len(self._blocks) >= _MOST_BLOCKS:
                self._blocks = {}
            self._blocks[number] = block
        return block
