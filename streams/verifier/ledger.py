"""The ledger's view, read as a person would read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row
from psycopg.sql import SQL, Identifier

from streams.verifier.documents import VerifierError

# A window's rows: about 8,000 in the demo.
_ROWS = SQL(
    "SELECT key, schedule_id, region, provider, nominal, zone, instant, state, attempts"
    " FROM {}.ledger ORDER BY date, key",
)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One key's row. `nominal` is `YYYY-MM-DDTHH:MM`; `instant` carries its zone."""

    key: str
    schedule_id: str
    region: str
    provider: str
    nominal: str | None
    zone: str
    instant: datetime | None
    state: str
    attempts: int


def read_ledger(dsn: str, schema: str) -> Iterator[LedgerRow]:
    """Every row of a window's schema, in one snapshot. Raises VerifierError where the view can't be read."""
    try:
        with psycopg.connect(dsn) as connection, connection.cursor(row_factory=class_row(LedgerRow)) as cursor:
            yield from cursor.execute(_ROWS.format(Identifier(schema)))
    except psycopg.Error as error:
        raise VerifierError(f"the ledger of schema {schema!r} can't be read: {error}") from error


def by_key(rows: Iterable[LedgerRow]) -> tuple[dict[str, LedgerRow], list[str]]:
    """Rows by key, and the keys that stand there more than once (none should)."""
    found: dict[str, LedgerRow] = {}
    again = [row.key for row in rows if found.setdefault(row.key, row) is not row]
    return found, again
