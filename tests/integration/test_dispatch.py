"""A lane's dispatch over a real ledger, with a provider that answers as the test says."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from streams.adapters.clock import SystemClock
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.ledger_dispatch import LaneConnections, PostgresLane
from streams.domain.budget import Gcra
from streams.domain.delivery import Limits
from streams.domain.errors import ServiceUnreachable
from streams.domain.occurrence import Fire
from streams.domain.outcome import AttemptResult, Outcome
from streams.domain.retry import Backoff
from streams.pipeline.dispatch import LaneDispatch, Terms
from streams.pipeline.lease import Lease
from streams.pipeline.pacing import Pacer
from streams.pipeline.provider import ProviderTraits, SendRequest, render_json
from streams.pipeline.sweep import Sweep
from tests.ledger_support import Bench, batch_of, make_ended, make_fire

TRAITS = ProviderTraits(honours_idempotency=True, idempotency_window_s=3600.0, has_lookup=False, timeout_s=2.0)
QUICK = Terms(limits=Limits(attempts=4, backoff=Backoff(base_s=0.05, cap_s=0.1, floor_s=0.05)), grace_s=0.3)


class Scripted:
    """Answers each key's attempts in turn, then DONE; counts the requests, and the effects by idempotency key."""

    name = "eu-mail"

    def __init__(self, traits: ProviderTraits = TRAITS, **answers: list[AttemptResult]) -> None:
        self.traits = traits
        self.answers = answers
        self.requests: list[SendRequest] = []
        self.effects: Counter[str] = Counter()
        self.hang = False

    def render(self, occurrence: Fire) -> bytes:
        return render_json(occurrence)

    async def start(self) -> None:
        return

    async def close(self) -> None:
        return

    async def send(self, request: SendRequest) -> AttemptResult:
        self.requests.append(request)
        if self.hang:
            await asyncio.sleep(60)
        if request.to == "broken":
            raise KeyError("an adapter must not raise")
        script = self.answers.get(request.to)
        result = script.pop(0) if script else AttemptResult(Outcome.DONE, 200)
        if result.outcome in (Outcome.DONE, Outcome.UNKNOWN):
            self.effects[request.idempotency_key] = 1
        return result


class Fragile:
    """A lane whose answers can get lost after the statement took effect."""

    def __init__(self, lane: PostgresLane) -> None:
        self.lane = lane
        self.lose: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self.lane, name)

        async def call(*arguments: object, **named: object) -> object:
            result = await inner(*arguments, **named)
            if self.lose[name] > 0:
                self.lose[name] -= 1
                raise ServiceUnreachable(f"the answer to {name} was lost")
            return result

        return call


class Run:
    """One dispatch over the bench's lane, in this event loop."""

    def __init__(self, bench: Bench, provider: Scripted, *, lease_s: float = 60.0, terms: Terms = QUICK) -> None:
        self.bench, self.provider = bench, provider
        self.shared = LaneConnections(bench.dsn, bench.schema)
        self.lane = Fragile(bench.lane(self.shared))
        self.lease, self.clock = Lease(), SystemClock()
        self.session = bench.session()
        self.lease.renewed(self.session, self.clock.boot_s() + lease_s)
        self.stop = asyncio.Event()
        self.dispatch = LaneDispatch(
            "eu/eu-mail",
            self.lane,  # type: ignore[arg-type]
            provider,
            Pacer(Gcra(1000.0, 100)),
            self.lease,
            self.clock,
            self.clock.now_s,
            lambda: 0.5,
            terms,
        )

    async def until(self, condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Run until the condition holds, then stop."""
        task = asyncio.create_task(self.dispatch.run(self.stop))
        deadline = time.monotonic() + timeout_s
        try:
            while not condition():
                assert time.monotonic() < deadline, f"not so within {timeout_s} s: {self.bench.states()}"
                assert not task.done(), task.exception()
                await asyncio.sleep(0.02)
        finally:
            self.stop.set()
            await task
            await self.lane.lane.end()
            await self.shared.close()


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    yield made
    made.close()


def go(work: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await work()

    asyncio.run(run())


def outcomes(bench: Bench) -> list[str]:
    return [row[0] for row in bench.sql.execute("SELECT outcome FROM attempt ORDER BY started_at, n").fetchall()]


def test_forbidden_holds_the_lane_until_it_is_released(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="a"), make_fire("t", "2026-11-01T10:00", to="b")]))
    provider = Scripted(a=[AttemptResult(Outcome.FORBIDDEN, 401, None, "HTTP 401")])

    async def held() -> None:
        def is_held() -> bool:
            return bench.sql.execute("SELECT held FROM lane").fetchone() == ("HTTP 401",)

        await Run(bench, provider).until(is_held)

    go(held)
    asked = len(provider.requests)
    assert bench.states()["s"] in ("retry", "pending")
    assert bench.sql.execute("SELECT in_doubt_since FROM queue WHERE schedule_id = 's'").fetchone() == (None,)

    async def still() -> None:
        run = Run(bench, provider)
        started = time.monotonic()
        await run.until(lambda: time.monotonic() > started + 0.8)

    go(still)
    assert len(provider.requests) == asked
    bench.sql.execute("UPDATE lane SET held = NULL, held_since = NULL")

    async def released() -> None:
        await Run(bench, provider).until(lambda: set(bench.states().values()) == {"done"})

    go(released)


def test_gone_disables_the_destination_and_later_rows_are_not_sent(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="a")]))
    provider = Scripted(a=[AttemptResult(Outcome.GONE, 410)])

    async def first() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "review"})

    go(first)
    bench.intake.write(batch_of([make_fire("t", to="a"), make_fire("u", to="b")]))

    async def second() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "review", "t": "review", "u": "done"})

    go(second)
    assert [request.to for request in provider.requests] == ["a", "b"]


def test_rejected_goes_to_review_with_what_was_said(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="a")]))
    provider = Scripted(a=[AttemptResult(Outcome.REJECTED, 422, None, "HTTP 422: no such template")])

    async def run() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "review"})

    go(run)
    assert bench.sql.execute("SELECT reason FROM queue").fetchone() == ("HTTP 422: no such template",)


def test_unsent_is_tried_again_and_capped(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="a"), make_fire("t", to="b")]))
    unsent = AttemptResult(Outcome.UNSENT, detail="no connection")
    provider = Scripted(a=[unsent] * 2, b=[unsent] * 9)

    async def run() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "done", "t": "review"})

    go(run)
    assert Counter(request.to for request in provider.requests) == {"a": 3, "b": 4}


def test_an_adapter_that_raises_stops_nobody(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="broken"), make_fire("t", to="b")]))
    provider = Scripted(replace(TRAITS, honours_idempotency=False))

    async def run() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "review", "t": "done"})

    go(run)


def test_the_same_bytes_go_out_at_every_attempt(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="a")]))
    provider = Scripted(a=[AttemptResult(Outcome.UNKNOWN), AttemptResult(Outcome.RATE_LIMITED, 429, 0.05)])

    async def run() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "done"})

    go(run)
    assert len({request.body for request in provider.requests}) == 1
    assert outcomes(bench) == ["unknown", "rate_limited", "done"]


def test_in_doubt_past_the_window_nothing_is_sent(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    bench.sql.execute("UPDATE queue SET state = 'retry', attempts = 1, in_doubt_since = now() - interval '59 min 59 s'")
    provider = Scripted()

    async def run() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "review"})

    go(run)
    assert provider.requests == []


def test_a_lease_that_does_not_cover_a_send_starts_nothing(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    provider = Scripted()

    async def run() -> None:
        started = time.monotonic()
        await Run(bench, provider, lease_s=2.9).until(lambda: time.monotonic() > started + 0.8)

    go(run)
    assert provider.requests == []
    assert bench.states() == {"s": "pending"}
    assert outcomes(bench) == []


def test_a_lease_lost_while_the_start_is_recorded_sends_nothing(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    provider = Scripted()

    async def run() -> None:
        made = Run(bench, provider)
        begin = made.lane.lane.begin

        async def slow(session: int, starts: Any) -> Any:
            begun = await begin(session, starts)
            made.lease.renewed(session, made.clock.boot_s())
            return begun

        made.lane.lane.begin = slow  # type: ignore[method-assign]
        await made.until(lambda: outcomes(bench) == ["unsent"])

    go(run)
    assert provider.requests == []
    assert bench.sql.execute("SELECT in_doubt_since FROM queue").fetchone() == (None,)


@pytest.mark.parametrize("lost", ["claim", "begin", "settle", "release", "reserve", "due"])
def test_a_lost_answer_neither_loses_nor_doubles(bench: Bench, lost: str) -> None:
    fires = [make_fire(f"s-{n}", tenant=f"t{n % 3}") for n in range(30)]
    bench.intake.write(batch_of(fires))
    provider = Scripted()

    async def run() -> None:
        made = Run(bench, provider)
        made.lane.lose[lost] = 2
        await made.until(lambda: set(bench.states().values()) == {"done"})

    go(run)
    assert Counter(request.key for request in provider.requests) == {fire.key: 1 for fire in fires}


def test_a_stop_lets_go_of_what_hangs_and_it_is_sent_again(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    provider = Scripted()
    provider.hang = True

    async def hang() -> None:
        await Run(bench, provider).until(lambda: len(provider.requests) == 1)

    go(hang)
    assert bench.states() == {"s": "retry"}
    assert outcomes(bench) == ["unknown"]
    provider.hang = False

    async def again() -> None:
        await Run(bench, provider).until(lambda: bench.states() == {"s": "done"})

    go(again)
    assert provider.requests[0] == provider.requests[1]


def test_what_ended_or_expired_while_it_was_leased_is_closed_at_the_next_claim(bench: Bench) -> None:
    ended, expired = make_fire("e"), make_fire("x", deliver_by_s=1_000_000_000)
    bench.intake.write(batch_of([ended, expired]))
    bench.sql.execute("UPDATE queue SET state = 'leased', session = 99 WHERE schedule_id = 'e'")
    bench.intake.write(batch_of([], [make_ended("e", "2026-11-02T00:00")], offset=2))
    assert bench.states()["e"] == "leased"
    provider = Scripted()

    async def run() -> None:
        made = Run(bench, provider)
        sweep = Sweep("eu/eu-mail", made.lane.lane, TRAITS, made.clock, Limits())
        assert await sweep.once() == 1
        await made.until(lambda: bench.states() == {"e": "cancelled", "x": "expired"})

    go(run)
    assert provider.requests == []


@pytest.mark.parametrize(
    ("traits", "state"),
    [
        (TRAITS, "retry"),
        (replace(TRAITS, honours_idempotency=False), "review"),
        (replace(TRAITS, has_lookup=True), "retry"),
    ],
)
def test_the_sweep_decides_by_the_providers_traits(bench: Bench, traits: ProviderTraits, state: str) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    provider = Scripted(traits)
    provider.hang = True

    async def run() -> None:
        made = Run(bench, provider, terms=replace(QUICK, grace_s=0.0))
        made.lane.lose["settle"] = 1_000_000
        await made.until(lambda: len(provider.requests) == 1)

    go(run)
    bench.sql.execute("UPDATE queue SET state = 'sending'")
    bench.sql.execute("UPDATE worker_session SET expires_at = now()")

    async def sweep() -> None:
        shared = LaneConnections(bench.dsn, bench.schema)
        lane = bench.lane(shared)
        assert await Sweep("eu/eu-mail", lane, traits, SystemClock(), Limits()).once() == 1
        assert await Sweep("eu/eu-mail", lane, traits, SystemClock(), Limits()).once() == 0
        await lane.end()
        await shared.close()

    go(sweep)
    assert bench.states() == {"s": state}


def test_a_send_nobody_answers_for_is_swept_though_its_session_lives(bench: Bench) -> None:
    """Its start was recorded by a statement whose answer never came."""
    bench.intake.write(batch_of([make_fire("s")]))
    session = bench.session()

    async def run() -> None:
        shared = LaneConnections(bench.dsn, bench.schema)
        lane = bench.lane(shared)
        (claimed,) = await lane.claim(session, time.time(), 1)
        await lane.begin(session, [(claimed, b"body")])
        sweep = Sweep("eu/eu-mail", lane, TRAITS, SystemClock(), Limits())
        assert await sweep.once() == 0
        bench.sql.execute("UPDATE attempt SET started_at = now() - interval '10 minutes'")
        assert await sweep.once() == 1
        await lane.end()
        await shared.close()

    go(run)
    assert bench.states() == {"s": "retry"}
