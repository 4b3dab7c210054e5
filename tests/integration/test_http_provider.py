"""HttpProvider against the sandbox: quota, lost and held answers, replayed and busy keys. Never doubled."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from streams.adapters.http.provider import HttpProvider
from streams.domain.outcome import Outcome
from tests.provider_support import RunningSandbox, a_request, eventually, running_sandbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def provider_to(url: str, **options: object) -> AsyncIterator[HttpProvider]:
    defaults: dict[str, Any] = {"idempotency_header": "Idempotency-Key", "idempotency_window_s": 3600, "timeout_s": 5}
    provider = HttpProvider.from_options("mail", {"url": url, **defaults, **options})
    await provider.start()
    try:
        yield provider
    finally:
        await provider.close()


async def control(running: RunningSandbox, **command: object) -> int:
    url = f"http://127.0.0.1:{running.port}/control/lanes/mail"
    async with aiohttp.ClientSession() as session, session.post(url, json=command) as answer:
        await answer.read()
        return answer.status


def test_over_the_quota_is_rate_limited_with_its_wait_and_takes_no_effect(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_sandbox(tmp_path, rate_per_s=0.5, burst=2) as s, provider_to(s.url) as provider:
            results = [await provider.send(a_request(f"k{n}")) for n in range(4)]
            assert [r.outcome for r in results] == [Outcome.DONE] * 2 + [Outcome.RATE_LIMITED] * 2
            assert (results[2].code, results[2].retry_after_s) == (429, 2.0)
            assert s.effects() == ["k0", "k1"]
            assert s.stats["over_quota"] == 2

    asyncio.run(run())


def test_a_lost_answer_is_unknown_and_the_same_bytes_again_are_replayed(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_sandbox(tmp_path, lost_answer_share=1.0) as s, provider_to(s.url) as provider:
            first = await provider.send(a_request("k"))
            assert (first.outcome, first.code) == (Outcome.UNKNOWN, None)
            again = await provider.send(a_request("k"))
            assert (again.outcome, again.detail) == (Outcome.DONE, "HTTP 200, replayed")
            assert s.effects() == ["k"]
            assert [line["idempotency_key"] for line in s.lines("lost_answer")] == ["k"]

    asyncio.run(run())


def test_lost_answers_among_many_never_double(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            running_sandbox(tmp_path, lost_answer_share=0.1, latency_s=0.002) as s,
            provider_to(s.url) as provider,
        ):
            keys = [f"k{n}" for n in range(400)]
            left, rounds = set(keys), 0
            while left:
                rounds += 1
                assert rounds < 10
                results = await asyncio.gather(*(provider.send(a_request(key)) for key in sorted(left)))
                assert {r.outcome for r in results} <= {Outcome.DONE, Outcome.UNKNOWN}
                left -= {key for key, r in zip(sorted(left), results, strict=True) if r.outcome is Outcome.DONE}
            assert rounds > 1
            assert sorted(s.effects()) == sorted(keys)
            assert s.stats["duplicates"] == 0

    asyncio.run(run())


def test_a_dead_kept_connection_is_never_used_twice_for_one_send(tmp_path: Path) -> None:
    """Each answer is lost, so each connection dies; every send shows up at the server exactly once."""

    async def run() -> None:
        async with running_sandbox(tmp_path, idempotency_window_s=0) as s, provider_to(s.url) as provider:
            assert (await provider.send(a_request("warm"))).outcome is Outcome.DONE
            assert await control(s, lost_answer_share=1.0) == 200
            for n in range(20):
                assert (await provider.send(a_request(f"k{n}"))).outcome is Outcome.UNKNOWN
            assert s.effects() == ["warm"] + [f"k{n}" for n in range(20)]

    asyncio.run(run())


def test_held_answers_time_out_as_unknown_and_are_replayed_afterwards(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_sandbox(tmp_path) as s, provider_to(s.url, timeout_s=0.2) as hasty:
            assert await control(s, hold=True) == 200
            result = await hasty.send(a_request("k"))
            assert (result.outcome, result.detail) == (Outcome.UNKNOWN, "after sending began: no answer within 0.2 s")
            await eventually(lambda: s.stats["held"] == 0)  # the client has gone away
            assert (await hasty.send(a_request("k"))).outcome is Outcome.DONE
            assert s.effects() == ["k"]

    asyncio.run(run())


def test_a_key_in_progress_is_unknown_and_released_answers_get_through(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_sandbox(tmp_path) as s, provider_to(s.url) as provider:
            assert await control(s, hold=True) == 200
            first = asyncio.create_task(provider.send(a_request("k")))
            await eventually(lambda: s.stats["held"] == 1)
            second = await provider.send(a_request("k"))
            assert (second.outcome, second.code) == (Outcome.UNKNOWN, 409)
            assert await control(s, hold=False) == 200
            assert (await first).outcome is Outcome.DONE
            assert s.effects() == ["k"]
            assert (s.stats["in_progress"], s.stats["held"]) == (1, 0)

    asyncio.run(run())


def test_other_bytes_under_a_used_key_are_for_a_person(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_sandbox(tmp_path) as s, provider_to(s.url) as provider:
            assert (await provider.send(a_request("k", b'{"n":1}'))).outcome is Outcome.DONE
            result = await provider.send(a_request("k", b'{"n":2}'))
            assert (result.outcome, result.code) == (Outcome.REJECTED, 422)
            assert "another body" in result.detail

    asyncio.run(run())


def test_connection_refused_is_unsent() -> None:
    async def run() -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))  # bound and not listening: refuses, and nobody else takes it
            async with provider_to(f"http://127.0.0.1:{free.getsockname()[1]}/send") as provider:
                result = await provider.send(a_request("k"))
        assert result.outcome is Outcome.UNSENT
        assert "refused" in result.detail.lower()

    asyncio.run(run())


def test_an_unknown_name_is_unsent() -> None:
    async def run() -> None:
        async with provider_to("http://no-such-host.invalid/send") as provider:
            assert (await provider.send(a_request("k"))).outcome is Outcome.UNSENT

    asyncio.run(run())


def test_the_pool_being_full_for_the_whole_time_out_is_unsent(tmp_path: Path) -> None:
    async def run() -> None:
        async with running_sandbox(tmp_path) as s, provider_to(s.url, timeout_s=0.4, connections=1) as provider:
            assert await control(s, hold=True) == 200
            first = asyncio.create_task(provider.send(a_request("a")))
            await eventually(lambda: s.stats["held"] == 1)
            results = await asyncio.gather(first, *(provider.send(a_request(f"q{n}")) for n in range(3)))
            assert results[0].outcome is Outcome.UNKNOWN
            effects = s.effects()
            for n, result in enumerate(results[1:]):
                assert result.outcome in (Outcome.UNKNOWN, Outcome.UNSENT)
                assert not (result.outcome is Outcome.UNSENT and f"q{n}" in effects)
            assert Outcome.UNSENT in {r.outcome for r in results}

    asyncio.run(run())
