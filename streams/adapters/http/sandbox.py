"""The sandbox provider: a real HTTP server that behaves like a strict and sometimes unlucky provider.

    python -m streams.adapters.http.sandbox --port 0 --log FILE --lane eu-mail:rate=300,burst=60,latency=0.02,lost=0.003

Its first line on stdout is `{"port": N}`. `POST /lanes/LANE` takes a JSON body and an `Idempotency-Key`; the effect of
an accepted request is its `accepted` line in the log, written before the answer. `POST /control/lanes/LANE` changes a
lane while it runs, `GET /control/stats` counts. Started again over its log, it remembers the keys in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from aiohttp import web

from streams.adapters.clock import Clock, SystemClock
from streams.adapters.http.sandbox_state import Decision, Lane, LaneSettings, Verdict
from streams.domain.errors import InvalidInput, ServiceUnreachable

_SHORT = {"rate": "rate_per_s", "latency": "latency_s", "lost": "lost_answer_share", "window": "idempotency_window_s"}
_BODY_CAP_BYTES = 1024 * 1024


class Sandbox:
    """The server over its lanes. One event loop; requests of one loop turn are judged in the order they came."""

    def __init__(self, lanes: Mapping[str, LaneSettings], log: Path | None, clock: Clock, seed: int = 0) -> None:
        self._clock = clock
        self._chance = random.Random(seed)
        self.lanes = {name: Lane(name, settings, clock.now_s()) for name, settings in lanes.items()}
        self._released: dict[str, asyncio.Event] = {}
        self._log_fd: int | None = None
        self._runner: web.AppRunner | None = None
        if log is not None:
            self._open_log(log)

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Serve, and return the port. Raises ServiceUnreachable where it is taken."""
        app = web.Application(client_max_size=_BODY_CAP_BYTES)
        app.router.add_post("/lanes/{lane}", self._lane)
        app.router.add_post("/control/lanes/{lane}", self._control)
        app.router.add_get("/control/stats", self._stats)
        # a client that goes away cancels its handler: that is how a held answer learns of it
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, backlog=1024)
        try:
            await site.start()
        except OSError as error:
            await self.close()
            raise ServiceUnreachable(
                f"the sandbox can't listen on {host}:{port}: {error.strerror}; choose another --port, or 0"
            ) from None
        address = self._runner.addresses[0]
        return int(address[1])

    async def close(self) -> None:
        """Stop serving. Held answers are never given."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._log_fd is not None:
            os.close(self._log_fd)
            self._log_fd = None

    async def _lane(self, request: web.Request) -> web.StreamResponse:
        lane = self.lanes.get(request.match_info["lane"])
        if lane is None:
            return _problem(404, f"no such lane; there are: {', '.join(sorted(self.lanes)) or 'none'}")
        raw = await request.read()
        try:
            body = json.loads(raw)
        except ValueError:
            return _problem(400, "the body is not JSON")
        key = request.headers.get("Idempotency-Key")
        decision = lane.decide(key, sha256(raw).digest(), self._clock.now_s(), self._chance.random())
        if decision.verdict is not Verdict.ACCEPTED:
            self._write(lane.name, decision.verdict, key)
            return _refusal_or_replay(decision)
        for _ in range(decision.effects):
            self._write(lane.name, Verdict.ACCEPTED, key, body)
        try:
            await self._work(lane)
        finally:
            # also where the client went away or the server stops: the effect has happened
            lane.finish(key, decision.answer)
        if decision.lost:
            self._write(lane.name, "lost_answer", key)
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        self._write(lane.name, "answered", key)
        return web.Response(body=decision.answer, content_type="application/json")

    async def _work(self, lane: Lane) -> None:
        if lane.settings.latency_s > 0:
            await asyncio.sleep(lane.settings.latency_s)
        while lane.hold:
            lane.held += 1
            try:
                await self._released.setdefault(lane.name, asyncio.Event()).wait()
            finally:
                lane.held -= 1

    async def _control(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["lane"]
        lane = self.lanes.get(name) or Lane(name, LaneSettings(), self._clock.now_s())
        try:
            self._command(lane, await request.json())
        except InvalidInput as error:
            return _problem(400, str(error))
        except ValueError:
            return _problem(400, "the body is not JSON")
        self.lanes[name] = lane
        self._write(name, "control", None)
        return web.json_response(lane.stats())

    def _command(self, lane: Lane, command: object) -> None:
        """Check the whole command, then do it: a wrong one changes nothing."""
        if not isinstance(command, dict):
            raise InvalidInput("control: write a JSON object")
        changes = dict(command)
        hold, dip, sabotage = changes.pop("hold", None), changes.pop("dip", None), changes.pop("sabotage", None)
        settings = lane.settings.changed(changes)
        if hold not in (None, True, False):
            raise InvalidInput(f"control: hold: {hold!r}; write true or false")
        if sabotage not in (None, "drop", "double"):
            raise InvalidInput(f'control: sabotage: {sabotage!r}; write "drop" or "double"')
        if dip is not None:
            lane.dip(*_dip(dip, self._clock.now_s()))
        lane.settings = settings
        if sabotage is not None:
            lane.sabotage(sabotage)
        if hold is not None:
            lane.hold = hold
            if not hold and (released := self._released.pop(lane.name, None)) is not None:
                released.set()

    async def _stats(self, request: web.Request) -> web.StreamResponse:
        del request
        return web.json_response({name: lane.stats() for name, lane in self.lanes.items()})

    def _write(self, lane: str, event: str, key: str | None, body: object = None) -> None:
        if self._log_fd is None:
            return
        line: dict[str, object] = {"at": self._clock.now_s(), "lane": lane, "event": event, "idempotency_key": key}
        if event == Verdict.ACCEPTED:
            line["body"] = body
        os.write(self._log_fd, json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n")

    def _open_log(self, path: Path) -> None:
        if path.exists():
            self._remember(path)
        try:
            self._log_fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise InvalidInput(
                f"--log {path}: can't be written: {error.strerror}; name a file in a folder that exists"
            ) from None

    def _remember(self, path: Path) -> None:
        """Read earlier acceptances back. A last line without its end was never answered for: it is cut off."""
        with path.open("rb+") as file:
            end = 0
            for raw in file:
                if not raw.endswith(b"\n"):
                    file.truncate(end)
                    break
                end += len(raw)
                try:
                    line = json.loads(raw)
                    event, name, key, at = line["event"], line["lane"], line["idempotency_key"], float(line["at"])
                except (ValueError, KeyError, TypeError):
                    raise InvalidInput(f"--log {path}: not a log of a sandbox, at byte {end - len(raw)}") from None
                if event == Verdict.ACCEPTED and (lane := self.lanes.get(name)) is not None:
                    lane.remember(key, at)


def _dip(raw: object, now_s: float) -> tuple[float, float]:
    if isinstance(raw, dict) and set(raw) == {"rate_per_s", "for_s"}:
        rate, length = raw["rate_per_s"], raw["for_s"]
        if all(isinstance(n, int | float) and not isinstance(n, bool) and n > 0 for n in (rate, length)):
            return float(rate), now_s + float(length)
    raise InvalidInput(f'control: dip: {raw!r}; write {{"rate_per_s": 20, "for_s": 2}}')


def _refusal_or_replay(decision: Decision) -> web.StreamResponse:
    match decision.verdict:
        case Verdict.REPLAYED:
            headers = {"Idempotent-Replayed": "true"}
            return web.Response(body=decision.answer, content_type="application/json", headers=headers)
        case Verdict.MISMATCHED:
            return _problem(422, "this idempotency key was used with another body")
        case Verdict.IN_PROGRESS:
            return _problem(409, "a request with this idempotency key is in progress")
        case _:
            # delta-seconds are whole: never earlier than there is room
            wait = str(max(1, math.ceil(decision.retry_after_s)))
            return _problem(429, "over the quota", {"Retry-After": wait})


def _problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.json_response({"error": detail}, status=status, headers=headers)


def parse_lane(text: str) -> tuple[str, LaneSettings]:
    """`eu-mail:rate=300,burst=60,latency=0.02,lost=0.003,window=86400`, all but the name optional."""
    name, _, rest = text.partition(":")
    changes: dict[str, object] = {}
    for part in filter(None, rest.split(",")):
        short, _, value = part.partition("=")
        try:
            changes[_SHORT.get(short, short)] = int(value) if short == "burst" else float(value)
        except ValueError:
            raise InvalidInput(
                f"--lane {text}: {part!r}; write rate=300,burst=60,latency=0.02,lost=0.003,window=86400"
            ) from None
    if not name or "/" in name:
        raise InvalidInput(f"--lane {text}: start with a name, as in eu-mail:rate=300,burst=60")
    return name, LaneSettings().changed(changes)


async def serve(lanes: Sequence[str], log: Path | None, host: str, port: int, seed: int) -> None:
    """Serve until SIGINT or SIGTERM, having printed the port."""
    sandbox = Sandbox(dict(map(parse_lane, lanes)), log, SystemClock(), seed)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    bound = await sandbox.start(host, port)
    sys.stdout.write(json.dumps({"port": bound}) + "\n")
    sys.stdout.flush()
    await stop.wait()
    await sandbox.close()


def main(argv: Sequence[str] | None = None) -> int:
    """The module's command line; `townclock sandbox` has the same options."""
    parser = argparse.ArgumentParser(
        prog="python -m streams.adapters.http.sandbox", description="A provider to try things on."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--log", type=Path, help="where each event goes, one JSON object a line")
    parser.add_argument("--lane", action="append", default=[], metavar="NAME:rate=300,burst=60,latency=0.02,lost=0.003")
    parser.add_argument("--seed", type=int, default=0, help="which answers are lost")
    args = parser.parse_args(argv)
    try:
        asyncio.run(serve(args.lane, args.log, args.host, args.port, args.seed))
    except (InvalidInput, ServiceUnreachable) as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
