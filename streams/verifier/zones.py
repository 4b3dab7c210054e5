"""A zone's wall clock, minute by minute, read from the tzdata wheel's own bytes (never the machine's copy)."""

from __future__ import annotations

import importlib
import importlib.resources
import io
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from zoneinfo import ZoneInfo

import numpy as np

from streams.verifier.documents import VerifierError

TZ_VERSION: str = importlib.import_module("tzdata").IANA_VERSION
# Two copies of a label, or a gap label and its jump, lie at most 26 hours apart (the widest spread of offsets ever in
# use); the wall clock itself is within 16 hours of UTC. Three days each side see all that touches a window.
PAD_MINUTES = 3 * 1440


class How(Enum):
    """How a label comes to a tick."""

    ONLY = "the wall clock shows it, once ever"
    FIRST = "the wall clock shows it, and will again"
    SECOND = "the wall clock shows it again"
    AT_JUMP = "the clock has just jumped over it"
    SHIFTED = "it is where the clock would show it, had it not jumped"


@dataclass(frozen=True, slots=True)
class Landing:
    """A label at a tick. `first_tick` is the tick of the label's first copy (`tick` itself but for a second copy)."""

    tick: int
    label: int
    how: How
    first_tick: int


@dataclass(slots=True)
class ZoneLine:
    """One zone's wall clock over `start <= tick < end` and three days each side, every minute looked up by itself."""

    zone: str
    start: int
    end: int
    _labels: np.ndarray = field(init=False, repr=False)
    _gaps: list[tuple[int, int, int]] = field(init=False, repr=False)  # label, tick past the jump, offset before it
    _by_minute: dict[int, list[Landing]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        first = self.start - PAD_MINUTES
        self._labels = _wall_clock(self.zone, first, self.end + PAD_MINUTES)
        shown = np.unique(self._labels)
        missing = np.setdiff1d(np.arange(shown[0], shown[-1]), shown)
        self._gaps = []
        for label in map(int, missing):
            past = int(np.nonzero((self._labels[1:] > label) & (self._labels[:-1] < label))[0][0]) + 1
            offset_before = int(self._labels[past - 1]) - (first + past - 1)
            self._gaps.append((label, first + past, offset_before))

    def at(self, minute: int) -> list[Landing]:
        """Every landing in the window of labels whose minute of the day is `minute`, ascending by tick."""
        found = self._by_minute.get(minute)
        if found is None:
            found = self._by_minute[minute] = sorted(self._search(minute), key=_by_tick)
        return found

    def _search(self, minute: int) -> list[Landing]:
        first = self.start - PAD_MINUTES
        ticks_by_label: dict[int, list[int]] = {}
        for index in np.nonzero(self._labels % 1440 == minute)[0]:
            ticks_by_label.setdefault(int(self._labels[index]), []).append(first + int(index))
        landings = []
        for label, ticks in ticks_by_label.items():
            if len(ticks) > 2:
                raise VerifierError(f"{self.zone}: a label is shown {len(ticks)} times; at most 2 were ever seen")
            hows = (How.ONLY,) if len(ticks) == 1 else (How.FIRST, How.SECOND)
            landings += [Landing(tick, label, how, ticks[0]) for tick, how in zip(ticks, hows, strict=True)]
        for label, jump, offset_before in self._gaps:
            if label % 1440 == minute:
                landings.append(Landing(jump, label, How.AT_JUMP, jump))
                landings.append(Landing(label - offset_before, label, How.SHIFTED, label - offset_before))
        return [landing for landing in landings if self.start <= landing.tick < self.end]


def _by_tick(landing: Landing) -> tuple[int, int]:
    return landing.tick, landing.label


def _wall_clock(zone: str, first: int, end: int) -> np.ndarray:
    """The label of each tick in `first <= tick < end`; an offset's seconds are floored to the minute."""
    tz = _zone_info(zone)
    moment = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=tz) + timedelta(minutes=first)  # UTC read as fromutc does
    step = timedelta(minutes=1)
    offsets = np.empty(end - first, dtype=np.int64)
    for index in range(end - first):
        offset = tz.fromutc(moment).utcoffset()
        offsets[index] = (offset.days * 86400 + offset.seconds) // 60  # type: ignore[union-attr]
        moment += step
    return np.arange(first, end, dtype=np.int64) + offsets


def _zone_info(zone: str) -> ZoneInfo:
    """A zone from the wheel. Raises VerifierError for a name it lacks."""
    source = importlib.resources.files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    try:
        return ZoneInfo.from_file(io.BytesIO(source.read_bytes()), key=zone)
    except (OSError, ValueError) as error:
        raise VerifierError(f"zone {zone!r} is not in tzdata {TZ_VERSION}") from error
