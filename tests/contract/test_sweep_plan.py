"""What a sweep costs over a long queue of which nothing is to be swept: one pass over the table, not a walk by key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.base import statements
from tests.ledger_support import Bench


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    made.sql.execute(
        "INSERT INTO queue (next_at, date, state, mode, lane, key, tenant, schedule_id)"
        " SELECT '2026-11-01 09:00Z', '2026-11-01', 'pending', 0, 1, sha256(i::text::bytea), 't', 's' || i"
        " FROM generate_series(1, 20000) AS i"
    )
    made.sql.execute("VACUUM ANALYZE queue")
    yield made
    made.close()


@pytest.mark.parametrize("name", ["abandoned", "unresolved"])
def test_the_plan_of_a_sweep(bench: Bench, name: str) -> None:
    terms = {"lane": 1, "most": 500, "stuck_s": 60.0}
    plan = bench.sql.execute(b"EXPLAIN " + statements("lanes")[name].encode(), terms).fetchall()
    text = "\n".join(row[0] for row in plan)
    assert "queue_pkey" not in text
    assert "Seq Scan on queue" in text
