"""The registry in PostgreSQL: see `streams.pipeline.registry.Registry`. One connection, reopened when it is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from streams.adapters.postgres.base import LOST, Connection, connect, statements, unreachable
from streams.adapters.postgres.link import WORKER_SETTINGS
from streams.adapters.postgres.outbox import insert_outbox
from streams.domain.errors import TownclockError
from streams.pipeline.registry import Known, Registered, RegistryBatch, Source


class RegistryConflict(TownclockError):
    """Another registrar numbered the same schedule at the same time; the batch, taken in again, sees what it did."""

    retriable = True


class PostgresRegistry:
    """For one thread."""

    def __init__(self, dsn: str, schema: str) -> None:
        """Connects when first used."""
        self._where = (dsn, schema)
        self._sql = statements("registry")
        self._connection: Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[PostgresRegistryTransaction]:
        """See Registry. Raises ServiceUnreachable on a lost connection; nobody knows then whether it committed."""
        try:
            connection = self._open()
            with connection.transaction():
                yield PostgresRegistryTransaction(connection)
        except (
            psycopg.errors.UniqueViolation,
            psycopg.errors.DeadlockDetected,
            psycopg.errors.SerializationFailure,
        ) as error:
            raise RegistryConflict(f"two registrars wrote at the same time ({error}); trying again") from None
        except LOST as error:
            self.close()
            raise unreachable(error) from None

    def next_offsets(self, topic: str, topic_id: str) -> dict[int, int]:
        """How far each partition of one topic is taken in; those never seen are left out."""
        try:
            rows = self._open().execute(self._sql["next_offsets"], {"topic": topic, "topic_id": topic_id}).fetchall()
        except LOST as error:
            self.close()
            raise unreachable(error) from None
        return dict(rows)

    def prune_answers(self) -> int:
        """Forget answers older than seven days; returns how many."""
        try:
            return self._open().execute(self._sql["prune_answers"]).rowcount
        except LOST as error:
            self.close()
            raise unreachable(error) from None

    def close(self) -> None:
        """End the connection. Again: nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(*self._where, "registrar", autocommit=True, **WORKER_SETTINGS)
            self._connection.prepare_threshold = 0
        return self._connection


class PostgresRegistryTransaction:
    """See `streams.pipeline.registry.RegistryTransaction`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sql = statements("registry")

    def lock_offsets(self, sources: Sequence[Source]) -> Mapping[Source, int]:
        """See RegistryTransaction."""
        rows = self._connection.execute(self._sql["lock_offsets"], _source_columns(sources), binary=True).fetchall()
        return {Source(topic, topic_id, partition): at for topic, topic_id, partition, at in rows}

    def lock_plans(self, schedule_ids: Sequence[str]) -> Mapping[str, Known]:
        """See RegistryTransaction."""
        if not schedule_ids:
            return {}
        ids = {"ids": list(schedule_ids)}
        self._connection.execute(self._sql["lock_schedules"], ids)
        rows = self._connection.execute(self._sql["plans"], ids, binary=True).fetchall()
        return {row[0]: Known(row[1], row[2], row[3]) for row in rows}

    def write(self, batch: RegistryBatch) -> None:
        """See RegistryTransaction. Schedules first: their locks order the outbox rows of each id."""
        run, sql = self._connection.execute, self._sql
        if batch.registered:
            newest = {item.plan.schedule_id: item for item in batch.registered}
            run(sql["write_schedules"], _schedule_columns([newest[key] for key in sorted(newest)]))
            run(sql["write_revisions"], _revision_columns(batch.registered))
        if batch.answers:
            answers = sorted(batch.answers, key=lambda answer: (answer.change_id, answer.schedule_id))
            run(sql["write_answers"], {
                "change_id": [answer.change_id for answer in answers],
                "schedule_id": [answer.schedule_id for answer in answers],
                "outcome": [answer.outcome.value for answer in answers],
                "revision": [answer.revision for answer in answers],
                "sequence": [answer.sequence for answer in answers],
                "problems": [answer.problems for answer in answers],
            })  # fmt: skip
        if batch.landed:
            names = ("schedule_id", "incarnation", "number", "sequence", "partition", "offset", "append_ms")
            run(sql["mark_landed"], {name: [getattr(item, name) for item in batch.landed] for name in names})
        insert_outbox(self._connection, batch.outbox)
        sources = list(batch.next_offsets)
        run(sql["advance_offsets"], {
            **_source_columns(sources),
            "next_offset": [batch.next_offsets[source] for source in sources],
            "duplicates": [batch.duplicates.get(source, 0) for source in sources],
        })  # fmt: skip


def _source_columns(sources: Sequence[Source]) -> dict[str, list[Any]]:
    return {
        "topic": [source.topic for source in sources],
        "topic_id": [source.topic_id for source in sources],
        "partition": [source.partition for source in sources],
    }


def _schedule_columns(items: Sequence[Registered]) -> dict[str, list[Any]]:
    plans = [item.plan for item in items]
    newest = [plan.revisions[-1] for plan in plans]
    return {
        "id": [plan.schedule_id for plan in plans],
        "incarnation": [plan.incarnation for plan in plans],
        "revision": [revision.number for revision in newest],
        "sequence": [plan.sequence for plan in plans],
        "state": [revision.state.value for revision in newest],
        "tenant": [revision.schedule.tenant for revision in newest],
        "region": [revision.schedule.region for revision in newest],
        "zone": [revision.schedule.zone for revision in newest],
    }


def _revision_columns(items: Sequence[Registered]) -> dict[str, list[Any]]:
    newest = [item.plan.revisions[-1] for item in items]
    return {
        "schedule_id": [item.plan.schedule_id for item in items],
        "incarnation": [item.plan.incarnation for item in items],
        "number": [revision.number for revision in newest],
        "sequence": [item.plan.sequence for item in items],
        "state": [revision.state.value for revision in newest],
        "plan": [item.encoded for item in items],
        "change_id": [item.change.change_id for item in items],
        "actor": [item.change.actor for item in items],
        "partition": [item.source.partition for item in items],
        "offset": [item.source.offset for item in items],
    }
