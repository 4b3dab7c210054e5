"""Reads the ledger and the registry for the audit."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import psycopg

from streams.adapters.codec import decode
from streams.adapters.postgres.base import Connection, connect, statements, unreachable
from streams.adapters.postgres.ledger_intake import KEY_PREFIX_BYTES
from streams.domain.errors import BrokenPromise
from streams.domain.plan import Plan
from streams.pipeline.audit import Audited, KnownRevision, Try

_SKEW_S: Final = 5
# The statement's columns from the third on.
_TERMS: Final = (
    *("key", "schedule_id", "incarnation", "revision", "promise", "gap", "overlap", "nominal", "zone", "instant"),
    *("due", "tz_version"),
)


class AuditReader:
    """One connection, for one command. Raises ServiceUnreachable where the database does not answer."""

    def __init__(self, dsn: str, schema: str) -> None:
        """Connects."""
        self._connection: Connection = connect(dsn, schema, "audit")
        self._sql = statements("audit")

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def audited(self, key: bytes, day: date | None = None) -> Audited | None:
        """Everything about a key, or none. Its date is found where it is not told."""
        try:
            if day is None:
                dated = self._connection.execute(self._sql["date_of_key"], {"key": key}).fetchone()
                if dated is None:
                    return None
                day = dated[0]
            return self._audited(key, day)
        except psycopg.errors.UndefinedTable:
            raise BrokenPromise("the schema has no ledger; run: townclock db migrate") from None
        except psycopg.OperationalError as error:
            raise unreachable(error) from None

    def revisions(self, schedule_id: str, *, scenario: bool) -> list[KnownRevision]:
        """A schedule's revisions in order, each with the tick from which it could count; empty for an unknown id."""
        found: list[KnownRevision] = []
        rows = self._connection.execute(self._sql["revisions"], {"schedule_id": schedule_id}).fetchall()
        for incarnation, number, plan_bytes, partition, offset, at_s in rows:
            plan = decode(plan_bytes)
            if not isinstance(plan, Plan):
                raise BrokenPromise(f"revision {number} of {schedule_id} holds no plan")
            revision = next(each for each in plan.revisions if each.number == number)
            if scenario:
                counts_from = self._scenario_start(partition, offset) if found else 0
            else:
                counts_from = int(at_s + _SKEW_S) // 60 + 1
            found.append(KnownRevision(incarnation, revision, counts_from))
        return found

    def _scenario_start(self, partition: int | None, offset: int | None) -> int:
        """The first recorded instant that knew the plan: append times mean nothing in a scenario."""
        if partition is None or offset is None:
            return 0
        terms = {"partition": partition, "offset": offset}
        row = self._connection.execute(self._sql["first_instant_after"], terms).fetchone()
        return row[0] if row and row[0] is not None else 0

    def _audited(self, key: bytes, day: date) -> Audited | None:
        row = self._connection.execute(self._sql["occurrence"], {"key": key, "date": day}).fetchone()
        if row is None:
            return None
        where = {"date": day, "key": key, "mode": row[1]}
        tries = self._connection.execute(self._sql["tries"], where).fetchall()
        why = self._connection.execute(self._sql["why"], where).fetchone()
        terms: dict[str, Any] = dict(zip(_TERMS, row[2:14], strict=True))
        return Audited(
            **terms,
            tick=row[14:17],
            region=row[17],
            provider=row[18],
            state=row[19],
            attempts=row[20],
            in_doubt_since=row[21],
            source=row[22:25],
            tries=tuple(Try(*each) for each in tries),
            duplicates=self._duplicates(key, day),
            reason=None if why is None else why[0],
        )

    def _duplicates(self, key: bytes, day: date) -> int:
        prefix = key[:KEY_PREFIX_BYTES]
        rows = self._connection.execute(self._sql["duplicates"], {"date": day, "prefix": prefix}).fetchall()
        return sum(
            keys[at : at + KEY_PREFIX_BYTES] == prefix
            for (keys,) in rows
            for at in range(0, len(keys), KEY_PREFIX_BYTES)
        )
