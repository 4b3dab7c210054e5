"""The promises of `streams.pipeline.provider.Provider`, run against each adapter over the real thing behind it.

A new adapter joins by one entry in `HARNESSES`: an async context manager giving a provider that is not started, and a
function that lists the idempotency keys of all effects so far, in order.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from streams.adapters.http.log import LogProvider
from streams.adapters.http.provider import HttpProvider
from streams.domain.outcome import Outcome
from streams.pipeline.provider import Provider
from tests.provider_support import a_fire, a_request, running_sandbox

SECRET = "s3cr3t-token-of-the-lane"


@dataclass
class Harness:
    """A provider that is not started, and what has taken effect at its other end."""

    provider: Provider
    effects: Callable[[], list[str]]


@asynccontextmanager
async def http_to_sandbox(folder: Path) -> AsyncIterator[Harness]:
    """HttpProvider against the sandbox server."""
    async with running_sandbox(folder) as running:
        options = {
            "url": running.url,
            "secret": SECRET,
            "idempotency_header": "Idempotency-Key",
            "idempotency_window_s": 3600,
            "timeout_s": 5,
        }
        yield Harness(HttpProvider.from_options("mail", options), running.effects)


@asynccontextmanager
async def log_to_file(folder: Path) -> AsyncIterator[Harness]:
    """LogProvider to a file."""
    path = folder / "deliveries.jsonl"

    def effects() -> list[str]:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [str(json.loads(line)["idempotency_key"]) for line in lines]

    yield Harness(LogProvider.from_options("mail", {"path": str(path), "timeout_s": 5}), effects)


HARNESSES: dict[str, Callable[[Path], AbstractAsyncContextManager[Harness]]] = {
    "http": http_to_sandbox,
    "log": log_to_file,
}


@pytest.fixture(params=sorted(HARNESSES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Harness]:
    return HARNESSES[request.param](tmp_path)


def test_says_what_it_is(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            traits = h.provider.traits
            assert h.provider.name == "mail"
            assert 0 < traits.timeout_s <= 600
            assert traits.idempotency_window_s is None or traits.honours_idempotency

    asyncio.run(run())


def test_renders_the_same_bytes_for_the_same_occurrence(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            assert h.provider.render(a_fire()) == h.provider.render(a_fire())
            assert h.provider.render(a_fire("other")) != h.provider.render(a_fire())

    asyncio.run(run())


def test_done_means_one_effect(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            await h.provider.start()
            fire = a_fire()
            result = await h.provider.send(a_request(fire.key, h.provider.render(fire)))
            assert result.outcome is Outcome.DONE, result
            assert h.effects() == [fire.key]
            await h.provider.close()

    asyncio.run(run())


def test_many_at_once_have_one_effect_each(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            await h.provider.start()
            keys = [f"k{n}" for n in range(200)]
            results = await asyncio.gather(*(h.provider.send(a_request(key)) for key in keys))
            assert {r.outcome for r in results} == {Outcome.DONE}
            assert sorted(h.effects()) == sorted(keys)
            await h.provider.close()

    asyncio.run(run())


def test_a_repeated_key_has_the_effects_its_traits_say(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            await h.provider.start()
            results = [await h.provider.send(a_request("k")) for _ in range(3)]
            assert {r.outcome for r in results} == {Outcome.DONE}
            assert h.effects() == ["k"] * (1 if h.provider.traits.honours_idempotency else 3)
            await h.provider.close()

    asyncio.run(run())


def test_unsent_before_start_and_after_close(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            assert (await h.provider.send(a_request("before"))).outcome is Outcome.UNSENT
            await h.provider.start()
            await h.provider.start()
            assert (await h.provider.send(a_request("between"))).outcome is Outcome.DONE
            await h.provider.close()
            await h.provider.close()
            assert (await h.provider.send(a_request("after"))).outcome is Outcome.UNSENT
            assert h.effects() == ["between"]

    asyncio.run(run())


def test_cancelling_goes_through_and_harms_no_other_send(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            await h.provider.start()
            tasks = {n: asyncio.create_task(h.provider.send(a_request(f"k{n}"))) for n in range(50)}
            await asyncio.sleep(0)
            for n in range(0, 50, 2):
                tasks[n].cancel()
            done = await asyncio.gather(*tasks.values(), return_exceptions=True)
            for n, result in enumerate(done):
                assert isinstance(result, asyncio.CancelledError) if n % 2 == 0 else result.outcome is Outcome.DONE
            await h.provider.close()
            effects = Counter(h.effects())
            assert set(effects.values()) == {1}
            assert {f"k{n}" for n in range(1, 50, 2)} <= set(effects)

    asyncio.run(run())


def test_shows_no_secret(harness: AbstractAsyncContextManager[Harness]) -> None:
    async def run() -> None:
        async with harness as h:
            assert SECRET not in repr(h.provider)
            await h.provider.start()
            result = await h.provider.send(a_request("k"))
            assert SECRET not in repr(result)
            assert SECRET not in repr(h.provider)
            await h.provider.close()

    asyncio.run(run())
