"""A tick: one UTC minute, published on every partition of `ticks`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tick:
    """What the ticker knew when the minute began. Watermarks are `read_committed` end offsets, read after it began.

    `produced_at_ms` is for people and metrics; nothing is decided by it.
    """

    minute: int
    partition: int
    schedules_topic_id: str
    partition_count: int
    watermark: int
    tzdata_watermark: int
    produced_at_ms: int
    scenario: str | None
