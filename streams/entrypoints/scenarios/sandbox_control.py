"""Steers a running sandbox: its quota, its dips, its held answers, its counts."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException
from typing import Any

from streams.domain.errors import ServiceUnreachable

LaneStats = dict[str, int]


class SandboxControl:
    """Calls to one sandbox on loopback. Raises ServiceUnreachable where it does not answer."""

    def __init__(self, port: int) -> None:
        """Nothing is sent yet."""
        self.port = port

    def url(self, lane: str) -> str:
        """Where a provider sends to."""
        return f"http://127.0.0.1:{self.port}/lanes/{lane}"

    def stats(self) -> dict[str, LaneStats]:
        """Counts by lane since it started."""
        found: dict[str, LaneStats] = self._call("GET", "/control/stats", None)
        return found

    def change(self, lane: str, **command: object) -> None:
        """Changes a lane: rate_per_s, burst, latency_s, lost_answer_share, hold, dip, sabotage."""
        self._call("POST", f"/control/lanes/{lane}", command)

    def _call(self, method: str, path: str, body: object) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, body=data, headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, HTTPException) as error:
            raise ServiceUnreachable(f"the sandbox on port {self.port} does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise ServiceUnreachable(f"the sandbox answered {answer.status} to {path}: {text.decode(errors='replace')}")
        return json.loads(text)


def total(stats: dict[str, LaneStats], name: str) -> int:
    """One count over all lanes."""
    return sum(lane.get(name, 0) for lane in stats.values())
