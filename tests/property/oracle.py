"""What a zone promises, minute by minute, from nothing but the offset of each tick. Shares no code with the engine.

The meaning of the nine policies is written out here a second time, in the plainest way, from the design's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

GAPS = ("skip", "next_valid", "shift")
OVERLAPS = ("first", "second", "both")
CODES = {(gap, overlap): GAPS.index(gap) * 3 + OVERLAPS.index(overlap) for gap in GAPS for overlap in OVERLAPS}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


def zone_offset(zone: ZoneInfo) -> Callable[[int], int]:
    """The offset at a tick by Python's own TZif reader, floored to the minute."""

    def offset(tick: int) -> int:
        found = (_EPOCH + tick * _MINUTE).astimezone(zone).utcoffset()
        assert found is not None
        return found // _MINUTE

    return offset


def transitions(offset: Callable[[int], int], ticks: range) -> Iterable[tuple[int, int, int]]:
    """(tick, offset before, offset from it on) for each change between neighbours of `ticks`, found by bisection."""
    before = offset(ticks[0])
    for earlier in ticks[:-1]:
        after = offset(earlier + ticks.step)
        if after == before:
            continue
        low, high = earlier, earlier + ticks.step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(middle) == before else (low, middle)
        yield high, before, after
        before = after


class Brute:
    """The labels `first`..`last` of a zone, judged by walking every tick that could show one or jump over it."""

    def __init__(self, offset: Callable[[int], int], ticks: range, labels: range) -> None:
        """`ticks` must be wide enough to hold every tick of every label and the jump over every gap label."""
        self.labels = labels
        self.copies: dict[int, list[int]] = {}
        self.jumps: dict[int, tuple[int, int]] = {}
        previous = None
        for tick in ticks:
            shown = tick + offset(tick)
            if shown in labels:
                self.copies.setdefault(shown, []).append(tick)
            if previous is not None:
                for label in range(max(previous + 1, labels.start), min(shown, labels.stop)):
                    self.jumps.setdefault(label, (tick, label - (previous - (tick - 1))))
            previous = shown

    def fires(self, label: int, gap: str, overlap: str) -> list[tuple[int, int]]:
        """(tick, copy) for each fire."""
        copies = self.copies.get(label)
        if not copies:
            tau, shifted = self.jumps[label]
            return {"skip": [], "next_valid": [(tau, 0)], "shift": [(shifted, 0)]}[gap]
        if overlap == "both" and len(copies) > 1:
            return [(copies[0], 0), (copies[1], 1)]
        if overlap == "second" and len(copies) > 1:
            return [(copies[1], 0)]
        return [(copies[0], 0)]
