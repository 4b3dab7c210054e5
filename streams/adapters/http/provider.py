"""Deliver by one HTTP POST. Adapter `http`; `sandbox` is the same against the sandbox server.

One `send` puts at most one request on a wire. aiohttp repeats a request on its own only where a kept connection turns
out dead and the method is idempotent (`client.IDEMPOTENT_METHODS`); POST never is, and redirects are not followed.

What proves `UNSENT`: no connection was ever handed to the request (name, connect, TLS, or waiting for a free one), so
no byte of it left. From then on everything but a whole answer is `UNKNOWN`.
"""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Callable, Mapping
from io import BytesIO
from types import SimpleNamespace
from typing import Self

import aiohttp
from aiohttp import ClientTimeout, DummyCookieJar, TCPConnector, TraceConfig, hdrs
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from yarl import URL

from streams import __version__
from streams.adapters.clock import SystemClock
from streams.adapters.http.options import Options
from streams.adapters.http.outcomes import one_line, outcome_of, retry_after_s
from streams.domain.occurrence import Fire
from streams.domain.outcome import AttemptResult, Outcome
from streams.pipeline.provider import ProviderTraits, SendRequest, render_json

ANSWER_CAP_BYTES = 64 * 1024
_WHOLE_BYTES = 1 << 20  # a larger body goes out in pieces, so that it does not hold the event loop up
_KEEP_ALIVE_S = 15  # below what servers and balancers usually allow, so that few sends meet a dying connection
_NEVER_CEIL_S = 1e9  # aiohttp rounds time-outs above 5 s up to a whole second: then `timeout_s` would be a lie


class _Wire:
    """Whether this request has been handed a connection, as aiohttp's tracing tells it."""

    __slots__ = ("connected",)

    def __init__(self) -> None:
        self.connected = False


class _CleanConnections(TCPConnector):
    """Never hands out a kept connection on which bytes have come since its last answer.

    aiohttp 3.14 does: a server that answers twice, or late, would make the next request look answered.
    """

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if connection.protocol is not None and not connection.protocol.should_close:
                return connection
            connection.close()
        return None


class HttpProvider:
    """See `streams.pipeline.provider.Provider`. The secret goes out as a bearer token, and nowhere else."""

    def __init__(
        self,
        name: str,
        *,
        url: str,
        secret: str | None = None,
        idempotency_header: str | None = None,
        idempotency_window_s: float | None = None,
        timeout_s: float = 10.0,
        unsent_on_503: bool = False,
        connections: int = 256,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.traits = ProviderTraits(
            honours_idempotency=idempotency_header is not None,
            idempotency_window_s=idempotency_window_s,
            has_lookup=False,
            timeout_s=timeout_s,
        )
        self._url = URL(url)
        self._secret = secret
        self._idempotency_header = idempotency_header
        self._unsent_on_503 = unsent_on_503
        self._connections = connections
        self._now_s = now_s or SystemClock().now_s
        self._session: aiohttp.ClientSession | None = None

    @classmethod
    def from_options(cls, name: str, options: Mapping[str, object]) -> Self:
        """From the table `[providers.NAME]`. Raises InvalidInput naming the key and what to write.

        Without `idempotency_header` no key is sent and none is relied on; with it and no `idempotency_window_s`, keys
        are taken to hold for ever.
        """
        read = Options(name, options, _KEYS)
        url = read.text("url", token=True)
        if url is None:
            raise read.wrong("url", 'is missing; write url = "https://…", where the provider takes its POST')
        if not _is_http(url):
            raise read.wrong("url", "this is no http or https address with a host and without user or password")
        header = read.text("idempotency_header", token=True)
        window_s = read.seconds("idempotency_window_s", None, 10 * 366 * 86400.0)
        if window_s is not None and header is None:
            raise read.wrong("idempotency_window_s", 'also needs idempotency_header, say "Idempotency-Key"')
        return cls(
            name,
            url=url,
            secret=read.text("secret", token=True),
            idempotency_header=header,
            idempotency_window_s=window_s,
            timeout_s=read.seconds("timeout_s", 10.0, 600.0) or 10.0,
            unsent_on_503=read.flag("unsent_on_503"),
            connections=read.count("connections", 256, 4096),
        )

    def __repr__(self) -> str:
        return f"HttpProvider({self.name!r}, host={self._url.host!r})"

    def render(self, occurrence: Fire) -> bytes:
        """See Provider."""
        return render_json(occurrence)

    async def start(self) -> None:
        """See Provider."""
        if self._session is not None:
            return
        headers = {
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.USER_AGENT: f"townclock/{__version__}",
        }
        if self._secret is not None:
            headers[hdrs.AUTHORIZATION] = f"Bearer {self._secret}"
        self._session = aiohttp.ClientSession(
            connector=_CleanConnections(limit=self._connections, keepalive_timeout=_KEEP_ALIVE_S),
            timeout=ClientTimeout(total=self.traits.timeout_s, ceil_threshold=_NEVER_CEIL_S),
            headers=headers,
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[_tracing()],
        )

    async def close(self) -> None:
        """See Provider."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def send(self, request: SendRequest) -> AttemptResult:
        """See Provider. The order of proofs: no connection, then the status of a whole answer, then nothing."""
        session = self._session
        if session is None:
            return AttemptResult(Outcome.UNSENT, detail="the provider is not started")
        headers = {self._idempotency_header: request.idempotency_key} if self._idempotency_header else {}
        wire = _Wire()
        data = BytesIO(request.body) if len(request.body) > _WHOLE_BYTES else request.body
        try:
            async with session.post(
                self._url, data=data, headers=headers, allow_redirects=False, trace_request_ctx=wire
            ) as answer:
                return await self._judge(answer)
        except Exception as error:  # noqa: BLE001 - whatever it is, one attempt has one outcome; only cancelling goes through
            return self._failed(error, wire)

    async def _judge(self, answer: aiohttp.ClientResponse) -> AttemptResult:
        outcome = outcome_of(answer.status, unsent_on_503=self._unsent_on_503)
        text = await _capped(answer)
        said = one_line(text.decode("utf-8", "replace"), self._secret)
        detail = f"HTTP {answer.status}"
        if 300 <= answer.status < 400:
            target = one_line(answer.headers.get(hdrs.LOCATION, "nowhere"), self._secret)
            detail = f"{detail}: redirects to {target}, which is not followed; put the final address into url"
        elif outcome is Outcome.DONE:
            detail = f"{detail}, replayed" if answer.headers.get("Idempotent-Replayed") == "true" else detail
        elif said:
            detail = f"{detail}: {said}"
        wait_s = retry_after_s(answer.headers.get(hdrs.RETRY_AFTER), answer.headers.get(hdrs.DATE), self._now_s())
        return AttemptResult(outcome, answer.status, None if outcome is Outcome.DONE else wait_s, detail)

    def _failed(self, error: Exception, wire: _Wire) -> AttemptResult:
        timed_out = isinstance(error, TimeoutError)
        what = f"no answer within {self.traits.timeout_s:g} s" if timed_out else _cause(error, self._secret)
        if not wire.connected:
            where = f"{self._url.host}:{self._url.port}"
            what = f"no connection within {self.traits.timeout_s:g} s" if timed_out else what
            return AttemptResult(Outcome.UNSENT, detail=f"{where}: {what}")
        return AttemptResult(Outcome.UNKNOWN, detail=f"after sending began: {what}")


_KEYS = frozenset(
    {
        "url",
        "secret",
        "idempotency_header",
        "idempotency_window_s",
        "timeout_s",
        "unsent_on_503",
        "connections",
    }
)


def _is_http(url: str) -> bool:
    try:
        parsed = URL(url)
        return parsed.scheme in ("http", "https") and bool(parsed.host) and not (parsed.user or parsed.password)
    except ValueError:
        return False


async def _capped(answer: aiohttp.ClientResponse) -> bytes:
    """Up to the cap of the body. What is longer is cut off with its connection: the status has been said."""
    parts: list[bytes] = []
    left = ANSWER_CAP_BYTES
    while left > 0 and (part := await answer.content.read(left)):
        parts.append(part)
        left -= len(part)
    if left <= 0:
        answer.close()
    return b"".join(parts)


def _cause(error: Exception, secret: str | None) -> str:
    """One line on an error. Its own text may quote what was sent, so the secret is taken out of it."""
    kind = type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        # asyncio puts "Connect call failed (address)" where the system's own word would tell more
        known = cause.errno in errno.errorcode and not isinstance(cause, ssl.SSLError)
        said = os.strerror(cause.errno) if known and cause.errno else cause.strerror or str(cause)
        return one_line(f"{kind}: {said}", secret)
    if isinstance(error, aiohttp.ClientResponseError):
        return one_line(f"{kind}: {error.message}", secret)
    return one_line(f"{kind}: {error}", secret)


def _tracing() -> TraceConfig:
    config = TraceConfig()

    async def connected(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: object) -> None:
        context.trace_request_ctx.connected = True

    config.on_connection_create_end.append(connected)
    config.on_connection_reuseconn.append(connected)
    config.freeze()
    return config
