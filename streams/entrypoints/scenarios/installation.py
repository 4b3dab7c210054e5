"""One scenario's own installation: its topics' prefix, its schema, its settings file, its processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.adapters.clock import Clock
from streams.adapters.embedded.services import EmbeddedServices
from streams.entrypoints.command import run_townclock
from streams.entrypoints.supervise import Child, Family, Spec


@dataclass(frozen=True, slots=True)
class LaneUse:
    """A named provider of the scenario: where it is and what it may be sent."""

    url: str
    rate_per_s: float
    burst: int


class Installation:
    """Topics, tables and processes under one name; children see one settings file and nothing else of ours."""

    def __init__(
        self, name: str, folder: Path, services: EmbeddedServices, clock: Clock, say: Callable[[str], None]
    ) -> None:
        """Nothing is started or written yet. `name` is the scenario's name, and makes the prefix and the schema."""
        self.name = name
        self.prefix = f"{name}."
        self.schema = "scenario_" + name.replace("-", "_")
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self._services = services
        self._environment = {"TOWNCLOCK_CONFIG": str(folder / "townclock.toml")}
        self._clock = clock
        self._say = say
        self.family = Family(folder, self._environment, clock, say)
        self._once: list[Child] = []

    def write_settings(self, regions: Sequence[str], providers: Mapping[str, LaneUse]) -> None:
        """The settings file of this installation."""
        lines = [
            f"scenario = {json.dumps(self.name)}",
            "[kafka]",
            f"bootstrap_servers = {json.dumps(self._services.bootstrap_servers)}",
            f"topic_prefix = {json.dumps(self.prefix)}",
            "[postgres]",
            f"dsn = {json.dumps(self._services.dsn)}",
            f"schema = {json.dumps(self.schema)}",
            *(f"[regions.{region}]" for region in regions),
        ]
        for name, use in providers.items():
            lines += [
                f"[providers.{name}]",
                'adapter = "http"',
                f"url = {json.dumps(use.url)}",
                'idempotency_header = "Idempotency-Key"',
                'idempotency_window = "24h"',
                f"quota = {{rate_per_s = {use.rate_per_s}, burst = {use.burst}}}",
                "timeout_s = 4",
            ]
        (self.folder / "townclock.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """Run a command to its end; its stdout. Raises BrokenPromise with what it said if it fails."""
        return run_townclock(*arguments, environment=self._environment, folder=self.folder)

    def run_once(self, name: str, *arguments: str) -> Child:
        """Start a process that is not restarted. `close` ends it if it has not ended by itself."""
        child = Child(Spec(name, arguments, once=True), self.folder, self._environment, self._clock, self._say)
        self._once.append(child)
        return child

    def close(self) -> None:
        """Stop every process. Again: nothing."""
        self.family.stop()
        while self._once:
            self._once.pop().stop()
