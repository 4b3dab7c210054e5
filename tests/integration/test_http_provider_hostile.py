"""HttpProvider against servers that hang, drip, lie, redirect and repeat what they were sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from streams.domain.outcome import AttemptResult, Outcome
from tests.integration.test_http_provider import provider_to
from tests.provider_support import HostileServer, Script, a_request, hostile_server

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def says(raw: bytes, *, close: bool = False) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        if close:
            writer.close()

    return script


async def hang(writer: asyncio.StreamWriter) -> None:
    del writer
    await asyncio.Event().wait()


def drip(head: bytes, drop: bytes) -> Script:
    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.02)

    return script


async def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def attempt(script: Script, **options: object) -> tuple[AttemptResult, HostileServer, float]:
    """One send of key `k` to that server: what it came to, what the server saw, and how long it took."""

    async def run() -> tuple[AttemptResult, HostileServer, float]:
        async with hostile_server(script) as server, provider_to(server.url, **options) as provider:
            began_s = time.monotonic()
            return await provider.send(a_request("k")), server, time.monotonic() - began_s

    return asyncio.run(run())


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(hang, id="hangs"),
        pytest.param(drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"), id="drips headers"),
        pytest.param(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"."), id="drips the body"),
        pytest.param(drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), id="says wait for ever"),
        pytest.param(reset, id="resets"),
        pytest.param(says(b"", close=True), id="closes without a word"),
        pytest.param(says(b"garbage\r\n\r\n", close=True), id="garbage"),
        pytest.param(says(b"HTTP/1.1 2x0 OK\r\n\r\n", close=True), id="garbage status"),
        pytest.param(says(b"\x16\x03\x01\x02\x00" + bytes(range(256)), close=True), id="binary"),
        pytest.param(says(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", close=True), id="endless header"),
        pytest.param(says(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", close=True), id="half a body"),
        pytest.param(
            says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", close=True), id="garbage chunk"
        ),
        pytest.param(says(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), id="500"),
    ],
)
def test_what_proves_nothing_is_unknown_within_the_time_out(script: Script) -> None:
    result, server, took_s = attempt(script, timeout_s=0.5)
    assert result.outcome is Outcome.UNKNOWN, result
    assert "\n" not in result.detail
    assert result.detail
    assert took_s < 2
    assert len(server.requests) == 1


def test_the_time_out_is_not_rounded_up() -> None:
    """aiohttp rounds time-outs above five seconds up to a whole second unless told not to."""
    _, _, took_s = attempt(hang, timeout_s=5.1)
    assert 5.0 <= took_s < 5.6


def test_the_request_is_exactly_the_bytes_and_headers_promised() -> None:
    result, server, _ = attempt(says(OK), secret="t0ken", idempotency_header="X-Request-Key")
    assert result == AttemptResult(Outcome.DONE, 200, None, "HTTP 200")
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /send HTTP/1.1"
    assert {b"X-Request-Key: k", b"Authorization: Bearer t0ken", b"Content-Type: application/json"} <= set(lines)
    assert b"Accept-Encoding: identity" in lines
    assert body == b'{"n":1}'


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int) -> None:
    async def run() -> None:
        async with hostile_server(says(OK)) as target:
            moved = f"HTTP/1.1 {status} Moved\r\nLocation: {target.url}\r\nContent-Length: 0\r\n\r\n".encode()
            async with hostile_server(says(moved)) as server, provider_to(server.url) as provider:
                result = await provider.send(a_request("k"))
            assert (result.outcome, result.code) == (Outcome.REJECTED, status)
            assert f"redirects to {target.url}, which is not followed" in result.detail
            assert target.requests == []

    asyncio.run(run())


def test_a_huge_answer_is_cut_off_and_its_status_counts() -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    result, server, took_s = attempt(flood)
    assert (result.outcome, result.code) == (Outcome.DONE, 200)
    assert took_s < 2
    assert len(server.requests) == 1


def test_a_compressed_bomb_is_not_unpacked() -> None:
    import gzip

    bomb = gzip.compress(bytes(50_000_000))
    head = b"HTTP/1.1 400 Bad\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    result, _, _ = attempt(says(head + bomb))
    assert (result.outcome, result.code) == (Outcome.REJECTED, 400)


def test_a_second_answer_on_the_line_is_never_taken_for_the_next_request() -> None:
    """A server that answers twice must not make a later send look done."""

    async def run() -> None:
        answered = 0

        async def twice_then_silent(writer: asyncio.StreamWriter) -> None:
            nonlocal answered
            answered += 1
            if answered > 1:
                await asyncio.Event().wait()
            writer.write(OK)
            await writer.drain()
            await asyncio.sleep(0.05)  # the client has put the connection back by now
            writer.write(OK)
            await writer.drain()

        async with hostile_server(twice_then_silent) as server, provider_to(server.url, timeout_s=0.5) as provider:
            assert (await provider.send(a_request("a"))).outcome is Outcome.DONE
            await asyncio.sleep(0.15)
            assert (await provider.send(a_request("b"))).outcome is Outcome.UNKNOWN

    asyncio.run(run())


def test_no_secret_comes_back_in_a_detail() -> None:
    echo = b'{"error":"bad token Bearer t0ken-of-ours"}'
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(echo) + echo
    result, _, _ = attempt(says(answer), secret="t0ken-of-ours")
    assert result == AttemptResult(Outcome.FORBIDDEN, 403, None, 'HTTP 403: {"error":"bad token Bearer ***"}')


def test_retry_after_comes_with_429_503_and_409() -> None:
    for status, options, outcome in (
        (429, {}, Outcome.RATE_LIMITED),
        (503, {}, Outcome.UNKNOWN),
        (503, {"unsent_on_503": True}, Outcome.UNSENT),
        (409, {}, Outcome.UNKNOWN),
    ):
        head = f"HTTP/1.1 {status} X\r\nDate: Sun, 06 Nov 1994 08:49:00 GMT\r\n"
        answer = f"{head}Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n".encode()
        result, _, _ = attempt(says(answer), **options)
        assert (result.outcome, result.code, result.retry_after_s) == (outcome, status, 37.0)


def test_tls_that_fails_is_unsent() -> None:
    """A plain server, a silent one, and one that hangs up: the handshake never ends, so nothing was sent."""

    async def run(script: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AttemptResult:
        async with hostile_server(script, read=False) as server:
            url = server.url.replace("http:", "https:")
            async with provider_to(url, timeout_s=0.5) as provider:
                return await provider.send(a_request("k"))

    for script in (says(b"HTTP/1.1 400 Bad Request\r\n\r\n", close=True), hang, reset):
        result = asyncio.run(run(script))
        assert result.outcome is Outcome.UNSENT, result


def test_an_early_answer_counts_even_if_the_body_was_never_read() -> None:
    async def run() -> None:
        refuse = says(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", close=True)
        async with hostile_server(refuse, read=False) as server, provider_to(server.url) as provider:
            result = await provider.send(a_request("k", b'"' + b"x" * 5_000_000 + b'"'))
            assert result.outcome in (Outcome.REJECTED, Outcome.UNKNOWN)

    asyncio.run(run())
