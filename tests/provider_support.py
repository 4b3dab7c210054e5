"""What tests of providers share: an occurrence, a sandbox in this event loop, and servers that misbehave by script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from streams.adapters.clock import SystemClock
from streams.adapters.http.sandbox import Sandbox
from streams.adapters.http.sandbox_state import LaneSettings
from streams.domain.keys import label_key
from streams.domain.minutes import parse_day, parse_label, parse_tick
from streams.domain.occurrence import Fire, TickSource
from streams.domain.schedule import Gap, LatePolicy, Mode, OnDelete, Overlap, Policy, Promise
from streams.pipeline.provider import SendRequest


def a_fire(schedule_id: str = "berlin-payroll", payload: str = '{"template":"payday"}') -> Fire:
    """The occurrence of a schedule at 02:30 on 2027-03-28 in Berlin, which a gap moved to 03:00."""
    label, instant = parse_label("2027-03-28T02:30"), parse_tick("2027-03-28T01:00Z")
    return Fire(
        key=label_key(schedule_id, label),
        schedule_id=schedule_id,
        incarnation=1,
        revision=1,
        promise=Promise.LABEL,
        policy=Policy(Gap.NEXT_VALID, Overlap.FIRST),
        nominal=label,
        copy=0,
        zone="Europe/Berlin",
        instant=instant,
        due_s=instant * 60,
        deliver_by_s=None,
        late_policy=LatePolicy.ALL,
        ledger_day=parse_day("2027-03-28"),
        tz_version="2026f",
        source=TickSource(0, 0, 0),
        region="eu",
        tenant="acme",
        account=None,
        provider="acme-mail",
        to="someone@example.test",
        payload=payload,
        mode=Mode.LIVE,
        on_delete=OnDelete.CANCEL,
        scenario=None,
    )


def a_request(key: str, body: bytes = b'{"n":1}') -> SendRequest:
    """A request under its occurrence key."""
    return SendRequest(key=key, idempotency_key=key, to="someone@example.test", body=body)


@dataclass
class RunningSandbox:
    """A sandbox with one lane, `mail`."""

    sandbox: Sandbox
    port: int
    log: Path

    @property
    def url(self) -> str:
        """Where the lane takes its POST."""
        return f"http://127.0.0.1:{self.port}/lanes/mail"

    @property
    def stats(self) -> dict[str, int]:
        """The lane's counts."""
        return self.sandbox.lanes["mail"].stats()

    def lines(self, event: str) -> list[dict[str, object]]:
        """The log's lines of one event."""
        parsed = map(json.loads, self.log.read_text(encoding="utf-8").splitlines())
        return [line for line in parsed if line["event"] == event]

    def effects(self) -> list[str]:
        """The key of each effect, in their order."""
        return [str(line["idempotency_key"]) for line in self.lines("accepted")]


@asynccontextmanager
async def running_sandbox(folder: Path, **settings: float) -> AsyncIterator[RunningSandbox]:
    """A sandbox on a free port."""
    lane = LaneSettings(rate_per_s=10_000, burst=1_000).changed(settings)
    sandbox = Sandbox({"mail": lane}, folder / "sandbox.log", SystemClock())
    port = await sandbox.start()
    try:
        yield RunningSandbox(sandbox, port, folder / "sandbox.log")
    finally:
        await sandbox.close()


@dataclass
class HostileServer:
    """What a scripted server saw: the raw head of each request that reached it, and how many connections."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        """Anything under it is answered by the script."""
        return f"http://127.0.0.1:{self.port}/send"


Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def hostile_server(script: Script, *, read: bool = True) -> AsyncIterator[HostileServer]:
    """A server that reads whole requests, one after the other, and answers each by the script."""
    seen = HostileServer()
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        seen.connections += 1
        try:
            while True:
                if read:
                    head = await reader.readuntil(b"\r\n\r\n")
                    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                    seen.requests.append(head + await reader.readexactly(length))
                await script(writer)
                if writer.is_closing():
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def eventually(condition: Callable[[], object], timeout_s: float = 5.0) -> None:
    """Wait, in the event loop, until the condition holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.005)
