"""How much is measured. The figures say over how much each was."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """`schedules` fire once each over `spread_minutes` and all at `busy_minute`; `deliveries` are those of each run.

    `edge_minutes` live minutes, each with `edge_schedules`.
    """

    partitions: int = 4
    schedules: int = 48_000
    spread_minutes: int = 480
    busy_minute: int = 540
    deliveries: int = 10_000
    edge_minutes: int = 3
    edge_schedules: int = 20


FULL = Sizes()
QUICK = Sizes(schedules=1_000, spread_minutes=50, busy_minute=60, deliveries=300, edge_minutes=1, edge_schedules=8)
