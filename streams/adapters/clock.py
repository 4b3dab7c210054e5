"""The only place that reads clocks and makes ids. Everything else takes them as arguments."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for people and due times; boot time for leases, which must not jump."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        ...

    def boot_s(self) -> float:
        """Seconds that never go back and go on while the machine sleeps (CLOCK_BOOTTIME where there is one)."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's own clocks."""

    def now_s(self) -> float:
        """See Clock."""
        return time.time()

    def boot_s(self) -> float:
        """See Clock. macOS has no CLOCK_BOOTTIME: its CLOCK_MONOTONIC goes on in sleep."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def new_id() -> str:
    """A random UUID as text."""
    return str(uuid.uuid4())
