"""What the registrar answers to a change it refuses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refused change with every reason: `problems` are (field, value as JSON text, problem, fix), never empty."""

    change_id: str | None
    schedule_id: str
    problems: tuple[tuple[str, str, str, str], ...]
    topic: str
    partition: int
    offset: int
    record: bytes
    rejected_at_ms: int
