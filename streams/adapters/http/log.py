"""Adapter `log`: one JSON line a delivery, to a file or to stdout. A provider without idempotency keys or lookup.

A line is on disk (fsync, shared by whatever is sent at the same time) before its send is `DONE`. The file does not
know what is in it: a crash between the line and the ledger's record of it is an `UNKNOWN` attempt, which delivery
takes to review and never repeats by itself. That is what the traits say.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from streams.adapters.clock import SystemClock
from streams.adapters.http.options import Options
from streams.domain.errors import InvalidInput
from streams.domain.occurrence import Fire
from streams.domain.outcome import AttemptResult, Outcome
from streams.pipeline.provider import ProviderTraits, SendRequest, render_json

_STDOUT = "-"
_KEYS = frozenset({"path", "timeout_s"})


@dataclass(slots=True)
class _Line:
    text: bytes
    done: asyncio.Future[AttemptResult]


class LogProvider:
    """See `streams.pipeline.provider.Provider`. Several may append to one file; lines never mix."""

    def __init__(
        self, name: str, *, path: str = _STDOUT, timeout_s: float = 10.0, now_s: Callable[[], float] | None = None
    ) -> None:
        self.name = name
        self.traits = ProviderTraits(
            honours_idempotency=False, idempotency_window_s=None, has_lookup=False, timeout_s=timeout_s
        )
        self._path = path
        self._now_s = now_s or SystemClock().now_s
        self._fd: int | None = None
        self._waiting: list[_Line] = []
        self._flusher: asyncio.Task[None] | None = None
        self._torn = False

    @classmethod
    def from_options(cls, name: str, options: Mapping[str, object]) -> Self:
        """From the table `[providers.NAME]`: `path`, "-" or none for stdout. Raises InvalidInput naming the key."""
        read = Options(name, options, _KEYS)
        return cls(name, path=read.text("path") or _STDOUT, timeout_s=read.seconds("timeout_s", 10.0, 600.0) or 10.0)

    def render(self, occurrence: Fire) -> bytes:
        """See Provider."""
        return render_json(occurrence)

    async def start(self) -> None:
        """See Provider. The file is made; its folder must exist."""
        if self._fd is not None:
            return
        try:
            self._fd = os.dup(1) if self._path == _STDOUT else os.open(self._path, _APPEND, 0o644)
        except OSError as error:
            raise InvalidInput(
                f"providers.{self.name}.path: {self._path} can't be written: {error.strerror}; "
                "name a file in a folder that exists"
            ) from None

    async def close(self) -> None:
        """See Provider. Lines already handed in are written first."""
        if self._flusher is not None:
            await self._flusher
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    async def send(self, request: SendRequest) -> AttemptResult:
        """See Provider."""
        if self._fd is None:
            return AttemptResult(Outcome.UNSENT, detail="the provider is not started")
        loop = asyncio.get_running_loop()
        line = _Line(self._line(request), loop.create_future())
        self._waiting.append(line)
        if self._flusher is None:
            self._flusher = loop.create_task(self._flush(self._fd))
        try:
            # the write goes on when this send is given up: it can't be taken back
            return await asyncio.wait_for(asyncio.shield(line.done), self.traits.timeout_s)
        except TimeoutError:
            return AttemptResult(Outcome.UNKNOWN, detail=f"not on disk within {self.traits.timeout_s:g} s")

    def _line(self, request: SendRequest) -> bytes:
        head = json.dumps(
            {"at": self._now_s(), "key": request.key, "idempotency_key": request.idempotency_key, "to": request.to},
            separators=(",", ":"),
            ensure_ascii=False,
        ).encode()
        return head[:-1] + b',"body":' + _as_json(request.body) + b"}\n"

    async def _flush(self, fd: int) -> None:
        """Write what waits, batch after batch, until nothing does."""
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                result = await asyncio.to_thread(self._write, fd, b"".join(line.text for line in batch))
                for line in batch:
                    if not line.done.done():
                        line.done.set_result(result)
        finally:
            self._flusher = None

    def _write(self, fd: int, text: bytes) -> AttemptResult:
        written = 0
        if self._torn:
            text = b"\n" + text
        try:
            while written < len(text):
                written += os.write(fd, text[written:])
            if stat.S_ISREG(os.fstat(fd).st_mode):
                os.fsync(fd)
        except OSError as error:
            # with not a byte of the batch written, none of it has happened; else which lines have is not known
            self._torn = self._torn or 0 < written < len(text)
            outcome = Outcome.UNKNOWN if written else Outcome.UNSENT
            return AttemptResult(outcome, detail=f"{self._path}: {error.strerror}")
        self._torn = False
        return AttemptResult(Outcome.DONE)


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def _as_json(body: bytes) -> bytes:
    """The body as it stands where it is JSON on one line, else its text as a JSON string: a line stays a line."""
    try:
        json.loads(body.decode())
        if b"\n" not in body and b"\r" not in body:
            return body
    except ValueError:
        pass
    return json.dumps(body.decode("utf-8", "replace")).encode()
