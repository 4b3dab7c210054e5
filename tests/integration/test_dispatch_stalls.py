"""A lane's dispatch over a real ledger that answers late, or breaks: nothing starts too late, too fast or unseen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.http.sandbox_state import TokenBucket
from streams.domain.budget import Gcra
from streams.domain.outcome import AttemptResult, Outcome
from streams.pipeline.dispatch import LaneDispatch
from streams.pipeline.pacing import Pacer
from streams.pipeline.provider import SendRequest
from tests.integration.test_dispatch import TRAITS, Run, Scripted, go
from tests.ledger_support import Bench, batch_of, make_fire


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    yield made
    made.close()


class Late:
    """A lane whose `begin` takes its time now and then: the statement has taken effect, its answer comes late."""

    def __init__(self, lane: Any, stalls_s: list[float]) -> None:
        self.lane = lane
        self.stalls_s = stalls_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lane, name)

    async def begin(self, *arguments: Any) -> Any:
        result = await self.lane.begin(*arguments)
        await asyncio.sleep(self.stalls_s.pop(0) if self.stalls_s else 0)
        return result


class LateRun(Run):
    """A run over such a lane."""

    def __init__(self, bench: Bench, provider: Scripted, gcra: Gcra, stalls_s: list[float]) -> None:
        super().__init__(bench, provider)
        self.pacer = Pacer(gcra)
        late: Any = Late(self.lane, stalls_s)
        self.dispatch = LaneDispatch(
            "eu/eu-mail",
            late,
            provider,
            self.pacer,
            self.lease,
            self.clock,
            self.clock.now_s,
            lambda: 0.5,
            self.dispatch._terms,
        )


class Metered(Scripted):
    """Counts what a provider with the lane's own quota would refuse."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        super().__init__()
        self.quota = (rate_per_s, burst)
        self.bucket = TokenBucket(burst, time.monotonic())
        self.over = 0

    async def send(self, request: SendRequest) -> AttemptResult:
        self.over += self.bucket.take(time.monotonic(), *self.quota) > 0
        return await super().send(request)


def test_a_slow_start_does_not_put_two_bursts_together(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire(f"s-{n}") for n in range(60)]))
    provider = Metered(40.0, 12)

    async def run() -> None:
        late = LateRun(bench, provider, Gcra(40.0, 10), [0.0, 1.0, 0.5, 0.5])
        await late.until(lambda: set(bench.states().values()) == {"done"})

    go(run)
    assert len(provider.requests) == 60
    assert provider.over == 0


def test_the_window_is_looked_at_after_the_start_is_recorded(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="a")]))
    traits = replace(TRAITS, idempotency_window_s=4.0, timeout_s=2.0)
    provider = Scripted(traits, a=[AttemptResult(Outcome.UNKNOWN)])

    async def run() -> None:
        late = LateRun(bench, provider, Gcra(1000.0, 100), [0.0, 2.2])
        await late.until(lambda: bench.states() == {"s": "review"})

    go(run)
    assert len(provider.requests) == 1
    ((reason,),) = bench.sql.execute("SELECT reason FROM queue").fetchall()
    assert "window" in reason
    assert bench.sql.execute("SELECT in_doubt_since IS NOT NULL FROM queue").fetchall() == [(True,)]


def test_outcomes_that_cannot_be_settled_end_the_worker(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire(f"s-{n}") for n in range(3)]))
    provider = Scripted()

    async def run() -> None:
        broken = Run(bench, provider)

        async def settle(*_: object) -> int:
            raise KeyError("a mistake of ours")

        broken.lane.settle = settle  # type: ignore[attr-defined]
        task = asyncio.create_task(broken.dispatch.run(broken.stop))
        try:
            with pytest.raises(KeyError, match="a mistake of ours"):
                await asyncio.wait_for(task, 5)
        finally:
            await broken.lane.lane.end()
            await broken.shared.close()

    go(run)


@pytest.mark.parametrize("slow", [True, False], ids=["waiting for a slot", "the ledger away"])
def test_a_stop_is_heeded_at_once(bench: Bench, slow: bool) -> None:
    bench.intake.write(batch_of([make_fire(f"s-{n}") for n in range(3)]))
    provider = Scripted()

    async def run() -> None:
        held = LateRun(bench, provider, Gcra(0.05, 1), [])
        if not slow:
            held.lane.lose.update({"due": 100})
        task = asyncio.create_task(held.dispatch.run(held.stop))
        await asyncio.sleep(1.5)
        began_s = time.monotonic()
        held.stop.set()
        await asyncio.wait_for(task, 5)
        assert time.monotonic() - began_s < 1.0
        await held.lane.lane.end()
        await held.shared.close()

    go(run)
    assert "leased" not in bench.states().values()


def test_nothing_is_claimed_under_a_lease_that_covers_no_send(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    provider = Scripted()

    async def run() -> None:
        late = Run(bench, provider, lease_s=TRAITS.timeout_s)
        task = asyncio.create_task(late.dispatch.run(late.stop))
        for _ in range(20):
            await asyncio.sleep(0.02)
            assert bench.states() == {"s": "pending"}
        late.lease.renewed(late.session, late.clock.boot_s() + 60)
        while bench.states() != {"s": "done"}:
            await asyncio.sleep(0.02)
        late.stop.set()
        await task
        await late.lane.lane.end()
        await late.shared.close()

    go(run)
