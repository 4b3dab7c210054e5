"""Schedules as the registry knows them, for people and for commands that wait. Reads only."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streams.adapters import codec
from streams.adapters.postgres.base import LOST, Connection, connect, statements, unreachable
from streams.domain.errors import BrokenPromise
from streams.domain.plan import Plan
from streams.domain.schedule import Schedule
from streams.pipeline.registry import Outcome


@dataclass(frozen=True, slots=True)
class KnownSchedule:
    """One id's newest state. `landed`: its newest plan is on the topic `schedules`."""

    id: str
    incarnation: int
    revision: int
    sequence: int
    state: str
    tenant: str
    region: str
    zone: str
    changed_at: datetime
    landed: bool


@dataclass(frozen=True, slots=True)
class PastRevision:
    """One revision of the history; where its plan lies is none until it was read back."""

    incarnation: int
    number: int
    sequence: int
    state: str
    change_id: str
    actor: str
    registered_at: datetime
    landed_partition: int | None
    landed_offset: int | None
    landed_at: datetime | None


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """What was answered to one change. `problems` have field, value (JSON text), problem and fix."""

    change_id: str
    schedule_id: str
    outcome: Outcome
    revision: int | None
    problems: tuple[dict[str, str], ...]


class ScheduleReader:
    """One connection. Every method raises ServiceUnreachable where it fails. For one thread."""

    def __init__(self, dsn: str, schema: str) -> None:
        """Connects."""
        self._sql = statements("schedules")
        # A list that a person pages through stands still as long as they read.
        self._connection: Connection = connect(dsn, schema, "schedules", idle_in_transaction_session_timeout="0")

    def answers(self, change_ids: Collection[str]) -> list[FinalAnswer]:
        """Those that are final: refused, or accepted (or unchanged) and on the topic `schedules`."""
        return [
            FinalAnswer(change_id, schedule_id, Outcome(outcome), revision, tuple(json.loads(problems)))
            for change_id, schedule_id, outcome, revision, problems in self._rows(
                "answers", {"change_ids": list(change_ids)}
            )
        ]

    def get(self, schedule_id: str) -> tuple[KnownSchedule, Schedule] | None:
        """The newest state and document of an id, deleted or not; none if there never was one."""
        for *known, encoded in self._rows("one", {"id": schedule_id}):
            plan = codec.decode(encoded)
            if not isinstance(plan, Plan):
                raise BrokenPromise(f"the registry's record of {schedule_id} is no plan; restore the database")
            return KnownSchedule(*known), plan.revisions[-1].schedule
        return None

    def history(self, schedule_id: str) -> list[PastRevision]:
        """Every revision, over all incarnations, oldest first."""
        return [PastRevision(*row) for row in self._rows("history", {"id": schedule_id})]

    def states(self, schedule_ids: Collection[str]) -> dict[str, tuple[str, int]]:
        """(state, revision) of each id that is known."""
        return {row[0]: (row[1], row[2]) for row in self._rows("states", {"ids": list(schedule_ids)})}

    def find(
        self, *, tenant: str | None, region: str | None, zone: str | None, state: str | None
    ) -> Iterator[KnownSchedule]:
        """By id, as they are fetched; `state` none: all that are not deleted."""
        wanted = {"tenant": tenant, "region": region, "zone": zone, "state": state}
        try:
            with self._connection.transaction(), self._connection.cursor("schedules") as cursor:
                cursor.itersize = 2000
                for row in cursor.execute(self._sql["list"], wanted):
                    yield KnownSchedule(*row)
        except LOST as error:
            raise unreachable(error) from None

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _rows(self, name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(self._sql[name], parameters).fetchall()
        except LOST as error:
            raise unreachable(error) from None
