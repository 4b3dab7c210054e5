"""Claims where many tenants have open rows and few have due ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres import claims
from streams.adapters.postgres.ledger_dispatch import LaneConnections
from tests.ledger_support import Bench, batch_of, make_fire

WAITING = 120


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    fires = [make_fire(f"s-{n}", "2026-12-01T09:00", tenant=f"a{n:04}") for n in range(WAITING)]
    made.intake.write(batch_of(fires))
    yield made
    made.close()


def turns_until_claimed(bench: Bench, tenants: list[str]) -> int:
    """How often a lane has to ask and claim until it has a due row of each tenant, one at a time."""
    fires = [make_fire(f"due-{tenant}", "2026-11-01T09:00", tenant=tenant) for tenant in tenants]
    bench.intake.write(batch_of(fires, offset=WAITING))

    async def run() -> int:
        shared = LaneConnections(bench.dsn, bench.schema)
        lane, session = bench.lane(shared), bench.session()
        claimed: list[str] = []
        turns = 0
        try:
            while len(claimed) < len(tenants):
                assert turns < 200, f"only {claimed}"
                turns += 1
                due = await lane.due(fires[0].due_s + 1.0, 1, fresh=True)
                if due:
                    claimed += [row.fire.tenant for row in await lane.claim(session, fires[0].due_s + 1.0, due)]
        finally:
            await lane.end()
            await shared.close()
        assert sorted(claimed) == sorted(tenants)
        return turns

    return asyncio.run(run())


def test_a_claim_visits_those_of_whom_something_is_due(bench: Bench) -> None:
    assert turns_until_claimed(bench, ["a0031", "a0090x"]) == 2


def test_tenants_with_nothing_due_hide_nobody(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "_MOST_TENANTS", 7)
    assert turns_until_claimed(bench, ["a0000", "a0060x", "zz"]) <= 15
