"""A region's delivery for real: topics, ledger, sandbox, and workers as processes that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from streams.adapters.kafka import topics
from streams.adapters.kafka.occurrence_emitter import OccurrenceEmitter
from streams.adapters.postgres.base import migrate
from streams.domain.occurrence import OccurrenceRecord
from streams.entrypoints.scenarios.sandbox_control import SandboxControl
from streams.pipeline.names import Names
from tests.services import wait_for

LANE = "eu-mail"


class Delivery:
    """One installation with region eu and provider eu-mail on a sandbox lane of the same name."""

    def __init__(
        self,
        folder: Path,
        bootstrap_servers: str,
        dsn: str,
        prefix: str,
        schema: str,
        *,
        lane: str = "rate=300,burst=60,latency=0.005",
        idempotency: str | None = "24h",
        scenario: str | None = None,
        timeout_s: float = 3,
        rate_per_s: float = 300,
        partitions: int = 4,
    ) -> None:
        self.folder, self.schema, self.dsn, self.servers = folder, schema, dsn, bootstrap_servers
        self.names = Names(prefix)
        self.topic = self.names.occurrences("eu")
        topics.create(self.names, {"eu"}, bootstrap_servers, partitions=partitions)
        migrate(dsn, schema)
        self.connect()
        self.log = folder / "provider.jsonl"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.sandbox = self._sandbox(lane)
        self.config = folder / "townclock.toml"
        lines = [
            *([f'scenario = "{scenario}"'] if scenario else []),
            f'[kafka]\nbootstrap_servers = "{bootstrap_servers}"\ntopic_prefix = "{prefix}"',
            f'[postgres]\ndsn = "{dsn}"\nschema = "{schema}"',
            f'[regions.eu]\n[providers.{LANE}]\nadapter = "sandbox"\nurl = "{self.sandbox.url(LANE)}"',
            f"quota = {{rate_per_s = {rate_per_s}, burst = 60}}\ntimeout_s = {timeout_s}",
            *([f'idempotency_header = "Idempotency-Key"\nidempotency_window = "{idempotency}"'] if idempotency else []),
        ]
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def connect(self) -> None:
        """The test's own connection, anew after the database was away."""
        options = f"-c search_path={self.schema} -c timezone=UTC"
        self.sql = psycopg.connect(self.dsn, autocommit=True, options=options)

    def _spawn(self, name: str, *command: str, stdout: int) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "TOWNCLOCK_CONFIG": str(self.folder / "townclock.toml")}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command], stdout=stdout, stderr=log, cwd=self.folder, env=environment
            )
        self.processes.append(process)
        return process

    def _sandbox(self, lane: str) -> SandboxControl:
        process = self._spawn(
            "sandbox",
            "streams.adapters.http.sandbox",
            *("--port", "0", "--log", str(self.log), "--lane", *f"{LANE}:{lane}".split()),
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        process.stdout.close()
        return SandboxControl(port)

    def worker(self, name: str = "worker") -> subprocess.Popen[bytes]:
        """A delivery worker, started; what it says is in NAME.log."""
        return self._spawn(name, "streams", "deliver", "--region", "eu", stdout=subprocess.DEVNULL)

    def said(self, name: str = "worker") -> str:
        """What a worker has logged."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def emit(self, records: Sequence[OccurrenceRecord], partition: int = 0) -> None:
        """Onto occurrences.eu, as the processor does."""
        emitter = OccurrenceEmitter(self.servers, "test", self.names, lambda: False)
        for record in records:
            emitter.emit(partition, record)
        assert emitter.flush() == {}
        emitter.close()

    def states(self) -> Counter[str]:
        """How many rows are in which state."""
        return Counter(row[0] for row in self.sql.execute("SELECT state FROM ledger").fetchall())

    def wait_states(self, expected: dict[str, int], timeout_s: float = 60.0) -> None:
        """Until the ledger stands so."""
        wait_for(lambda: dict(self.states()) == expected, timeout_s, lambda: f"{self.states()}; {self.said()[-3000:]}")

    def effects(self) -> Counter[str]:
        """Side effects by key: what the provider's own log says."""
        events: list[dict[str, Any]] = [json.loads(line) for line in self.log.read_text().splitlines()]
        return Counter(
            event["idempotency_key"] or event["body"]["key"] for event in events if event["event"] == "accepted"
        )

    def counts(self) -> dict[str, int]:
        """The provider's counters."""
        return self.sandbox.stats()[LANE]

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """SIGTERM, and its exit status; it has 8 s."""
        process.send_signal(signal.SIGTERM)
        return process.wait(8)

    def close(self) -> None:
        """Nothing is left running."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        self.sql.close()
