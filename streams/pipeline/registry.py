"""What the registrar's step reads and writes, and where: see `streams.pipeline.register`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from streams.domain.change import Change
from streams.domain.plan import Plan
from streams.pipeline.outbox import OutboxRecord


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record as read. `topic` is the full name, `topic_id` tells it from an older topic of that name."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    append_ms: int


@dataclass(frozen=True, slots=True)
class Source:
    """A partition of one life of a topic. Sorts in the order in which offsets are locked."""

    topic: str
    topic_id: str
    partition: int

    @staticmethod
    def of(record: SourceRecord) -> Source:
        """Where the record lies."""
        return Source(record.topic, record.topic_id, record.partition)


class Outcome(StrEnum):
    """What was answered to a change."""

    ACCEPTED = "accepted"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered to one change; `problems` is JSON text, `[]` unless refused."""

    change_id: str
    schedule_id: str
    outcome: Outcome
    revision: int | None
    sequence: int | None
    problems: str


@dataclass(frozen=True, slots=True)
class Registered:
    """One new revision: the plan, its bytes as published, and the change that made it."""

    plan: Plan
    encoded: bytes
    change: Change
    source: SourceRecord


@dataclass(frozen=True, slots=True)
class Landed:
    """A plan as it was read back from `schedules`."""

    schedule_id: str
    incarnation: int
    number: int
    sequence: int
    partition: int
    offset: int
    append_ms: int


@dataclass(slots=True)
class RegistryBatch:
    """What one transaction writes. `registered` is in the order of the log."""

    registered: list[Registered] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    landed: list[Landed] = field(default_factory=list)
    outbox: list[OutboxRecord] = field(default_factory=list)
    next_offsets: dict[Source, int] = field(default_factory=dict)
    duplicates: dict[Source, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """An id's newest plan as published, and the highest sequence that was read back from `schedules` (0: none)."""

    sequence: int
    encoded: bytes
    landed_sequence: int


class RegistryTransaction(Protocol):
    """One transaction. Locks are held to its end."""

    def lock_offsets(self, sources: Sequence[Source]) -> Mapping[Source, int]:
        """Lock each (in the order given) and give its next offset; 0 for one never seen."""
        ...

    def lock_plans(self, schedule_ids: Sequence[str]) -> Mapping[str, Known]:
        """Lock the ids in the order given and give what is known of them; an unknown id is left out."""
        ...

    def write(self, batch: RegistryBatch) -> None:
        """All of the batch."""
        ...


class Registry(Protocol):
    """Where schedules are numbered. Errors are retriable unless they say otherwise."""

    def transaction(self) -> AbstractContextManager[RegistryTransaction]:
        """Commits when the block ends, rolls back when it raises."""
        ...
