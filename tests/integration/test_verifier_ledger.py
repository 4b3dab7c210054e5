"""The verifier's reader against the ledger's own schema on a real PostgreSQL."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.base import migrate
from streams.verifier.documents import VerifierError
from streams.verifier.ledger import read_ledger


def test_an_empty_ledger_reads_as_no_rows(database: EmbeddedDatabase, schema: str) -> None:
    """Every column the reader names is one of the view's."""
    migrate(database.dsn, schema)
    assert list(read_ledger(database.dsn, schema)) == []


def test_rows_come_with_their_types(database: EmbeddedDatabase, schema: str) -> None:
    """A view of the documented columns and types, with one row."""
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        name = sql.Identifier(schema)
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        connection.execute(
            sql.SQL(
                "CREATE VIEW {}.ledger AS SELECT date '2026-11-01' AS date, 'ab' AS key, 'ny' AS schedule_id,"
                " 'us' AS region,"
                " 'us-mail' AS provider, '2026-11-01T01:30' AS nominal, 'America/New_York' AS zone,"
                " timestamptz '2026-11-01T05:30:00Z' AS instant, 'done' AS state, 2 AS attempts"
            ).format(name)
        )
    (row,) = read_ledger(database.dsn, schema)
    assert (row.key, row.nominal, row.state, row.attempts) == ("ab", "2026-11-01T01:30", "done", 2)
    assert row.instant is not None
    assert row.instant.timestamp() == 29_891_850 * 60


def test_a_schema_without_a_ledger_is_said(database: EmbeddedDatabase, schema: str) -> None:
    with pytest.raises(VerifierError, match=schema):
        list(read_ledger(database.dsn, schema))
