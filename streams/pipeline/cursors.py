"""Cursors: how far each partition of `ticks` is handled. A committed offset of a memberless group, with metadata.

A memberless commit is not fenced by the broker, so a session looks at the committed cursor before it starts on a batch
and again before it commits, and judges what it finds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Cursor:
    """`offset` is the next record to handle, `minute` the last minute handled; both written by `session`.

    `session` none: set by hand, by an operator or at creation.
    """

    offset: int
    minute: int | None = None
    generation: int = -1
    session: str | None = None

    @property
    def metadata(self) -> str:
        """The text beside the committed offset."""
        return json.dumps({"minute": self.minute, "generation": self.generation, "session": self.session})

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Cursor:
        """A cursor as found. Metadata that is none of ours is as good as none: the offset was set by hand."""
        try:
            found = json.loads(metadata or "null")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            return cls(offset)
        minute, generation, session = (found.get(name) for name in ("minute", "generation", "session"))
        if not isinstance(minute, int) or minute < 0 or not isinstance(session, str):
            return cls(offset)
        return cls(offset, minute, generation if isinstance(generation, int) else -1, session)


class Cursors(Protocol):
    """Where cursors are kept. Every call is one round trip for all partitions; errors are retriable."""

    def read(self, partitions: Collection[int]) -> Mapping[int, Cursor | None]:
        """The committed cursor of each, none where there is none."""
        ...

    def write(self, cursors: Mapping[int, Cursor]) -> None:
        """Commit all of them, durably."""
        ...


class Verdict(Enum):
    """What a cursor found in place of one's own means."""

    MINE = auto()  # go on
    MOVED = auto()  # obey it: begin again from there
    MISSING = auto()  # stop: somebody has to say where to begin


def judge(mine: Cursor | None, found: Cursor | None, session: str, generation: int) -> Verdict:
    """`mine` is the cursor this session saw or wrote last.

    A cursor set by hand is obeyed, and so is one that another session wrote further on, or in a newer generation. A
    regression by another session is ignored: a worker that was stopped and woke up wrote it, and the next commit mends
    it.
    """
    if found is None:
        return Verdict.MISSING
    if mine is None:
        return Verdict.MOVED
    if found == mine or found.session == session:
        return Verdict.MINE
    if found.session is None or found.offset > mine.offset:
        return Verdict.MOVED
    if found.offset < mine.offset:
        return Verdict.MOVED if found.generation > generation else Verdict.MINE
    return Verdict.MINE
