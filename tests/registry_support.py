"""A registry in memory, and records of `schedule-changes` and `schedules` as a consumer reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from streams.adapters import codec
from streams.domain.change import Change, ChangeKind
from streams.domain.document import DocumentContext
from streams.domain.plan import Plan
from streams.pipeline.names import Names
from streams.pipeline.outbox import OutboxRecord
from streams.pipeline.register import Registrar
from streams.pipeline.registry import Answer, Known, Landed, Registered, Registry, RegistryBatch, Source, SourceRecord

NAMES = Names("t-")
CONTEXT = DocumentContext(
    frozenset({"Europe/Berlin", "America/New_York"}), frozenset({"eu", "us"}), frozenset({"mail"})
)


def document(schedule_id: str = "a", **fields: Any) -> dict[str, Any]:
    """A schedule document as a person writes it."""
    return {
        "id": schedule_id,
        "region": "eu",
        "zone": "Europe/Berlin",
        "rule": {"kind": "daily", "at": ["02:30"]},
        "deliver": {"provider": "mail", "to": "someone", "payload": {"template": "x"}},
        **fields,
    }


def change(
    kind: ChangeKind = ChangeKind.PUT,
    schedule_id: str = "a",
    *,
    change_id: str = "c",
    raw: object = None,
    **fields: Any,
) -> Change:
    """A change as published. `raw` is the document of a put; none: `document(schedule_id)`."""
    text = json.dumps(document(schedule_id) if raw is None else raw) if kind is ChangeKind.PUT else None
    values: dict[str, Any] = {
        "document": text, "if_revision": None, "effective_from": None, "on_planned": None, "actor": "tester",
    }  # fmt: skip
    return Change(change_id=change_id, kind=kind, schedule_id=schedule_id, **{**values, **fields})


def source(
    offset: int,
    value: Change | Plan | bytes | None,
    *,
    key: bytes | None = None,
    topic: str = NAMES.schedule_changes,
    topic_id: str = "id-1",
    partition: int = 0,
) -> SourceRecord:
    """The record as read; `key` none: the schedule's id."""
    encoded = codec.encode(value) if isinstance(value, Change | Plan) else value
    if key is None and isinstance(value, Change | Plan):
        key = value.schedule_id.encode()
    return SourceRecord(topic, topic_id, partition, offset, key, encoded, 1_800_000_000_000 + offset)


def registrar(registry: Registry, names: Names = NAMES) -> Registrar:
    """A registrar at 2027-01-15T08:00:00Z."""
    return Registrar(registry, names, CONTEXT, codec.encode, codec.decode, lambda: 1_800_000_000.0)


@dataclass
class MemoryTables:
    """What the tables hold."""

    known: dict[str, Known] = field(default_factory=dict)
    revisions: dict[tuple[str, int, int], Registered] = field(default_factory=dict)
    landed: dict[tuple[str, int, int], Landed] = field(default_factory=dict)
    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    outbox: list[OutboxRecord] = field(default_factory=list)
    offsets: dict[Source, int] = field(default_factory=dict)
    duplicates: dict[Source, int] = field(default_factory=dict)


class MemoryRegistry:
    """The registry in memory. A block that raises leaves nothing behind. `fail_commits` of the next ones fail."""

    def __init__(self) -> None:
        self.tables = MemoryTables()
        self.fail_commits = 0

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        tables = deepcopy(self.tables)
        yield MemoryTransaction(tables)
        if self.fail_commits:
            self.fail_commits -= 1
            raise ConnectionError("the commit failed")
        self.tables = tables


class MemoryTransaction:
    """See `streams.pipeline.registry.RegistryTransaction`."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def lock_offsets(self, sources: Sequence[Source]) -> Mapping[Source, int]:
        return {item: self._tables.offsets.setdefault(item, 0) for item in sources}

    def lock_plans(self, schedule_ids: Sequence[str]) -> Mapping[str, Known]:
        assert list(schedule_ids) == sorted(schedule_ids)
        return {item: self._tables.known[item] for item in schedule_ids if item in self._tables.known}

    def write(self, batch: RegistryBatch) -> None:
        for item in batch.registered:
            plan, number = item.plan, item.plan.revisions[-1].number
            key = (plan.schedule_id, plan.incarnation, number)
            assert key not in self._tables.revisions
            self._tables.revisions[key] = item
            before = self._tables.known.get(plan.schedule_id)
            self._tables.known[plan.schedule_id] = Known(
                plan.sequence, item.encoded, before.landed_sequence if before else 0
            )
        for answer in batch.answers:
            self._tables.answers.setdefault((answer.change_id, answer.schedule_id), answer)
        for landed in batch.landed:
            self._tables.landed.setdefault((landed.schedule_id, landed.incarnation, landed.number), landed)
            known = self._tables.known[landed.schedule_id]
            highest = max(known.landed_sequence, landed.sequence)
            self._tables.known[landed.schedule_id] = Known(known.sequence, known.encoded, highest)
        self._tables.outbox += batch.outbox
        self._tables.offsets.update(batch.next_offsets)
        for item, count in batch.duplicates.items():
            self._tables.duplicates[item] = self._tables.duplicates.get(item, 0) + count
