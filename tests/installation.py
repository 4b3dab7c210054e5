"""An installation for one test: topics, tables and settings of its own on the shared services, and its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streams.adapters import codec
from streams.adapters.kafka import topics
from streams.adapters.kafka.admin_calls import end_offsets, start_offsets
from streams.adapters.kafka.client import admin, reader_config
from streams.adapters.postgres.base import connect, migrate
from streams.entrypoints.settings import Settings, load
from streams.pipeline.names import Names
from tests.services import wait_for

SETTINGS = """
[regions.eu]
[regions.us]
[providers.mail]
adapter = "log"
"""


@dataclass
class Process:
    """One `townclock` process. `log` is what it wrote."""

    popen: subprocess.Popen[bytes]
    log_path: Path

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self.popen.kill()
        self.popen.wait(10)

    def stop(self, timeout_s: float = 5.0) -> int:
        """SIGTERM; its status. Fails if it takes longer than a long-running command may."""
        self.popen.send_signal(signal.SIGTERM)
        try:
            return self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not stop within {timeout_s} s: {self.log[-2000:]}") from None


@dataclass
class Installation:
    """`folder` holds townclock.toml and logs."""

    folder: Path
    bootstrap_servers: str
    dsn: str
    schema: str
    names: Names
    processes: list[Process] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "TOWNCLOCK_CONFIG": str(self.folder / "townclock.toml"),
            "TOWNCLOCK_KAFKA_BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "TOWNCLOCK_KAFKA_TOPIC_PREFIX": self.names.prefix,
            "TOWNCLOCK_POSTGRES_DSN": self.dsn,
            "TOWNCLOCK_POSTGRES_SCHEMA": self.schema,
        }

    @property
    def settings(self) -> Settings:
        return load(environ=self.environment)

    def prepare(self, partitions: int = 3) -> None:
        """Topics and tables."""
        topics.create(self.names, {"eu", "us"}, self.bootstrap_servers, partitions=partitions)
        migrate(self.dsn, self.schema)

    def start(self, *arguments: str) -> Process:
        """A long-running command. It is ended with the test."""
        log_path = self.folder / f"{arguments[0]}-{len(self.processes)}.log"
        with log_path.open("wb") as log:
            popen = subprocess.Popen(
                [sys.executable, "-m", "streams", *arguments],
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        self.processes.append(Process(popen, log_path))
        return self.processes[-1]

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A command, to its end."""
        return subprocess.run(
            [sys.executable, "-m", "streams", *arguments],
            env={**os.environ, **self.environment},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.folder,
            check=False,
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What the database says."""
        with closing(connect(self.dsn, self.schema, "test")) as connection:
            return connection.execute(query).fetchall()  # type: ignore[arg-type]  # the test's own text

    def one(self, query: str) -> Any:
        """The first value of the first row."""
        return self.rows(query)[0][0]

    def wait_until(self, query: str, wanted: object, timeout_s: float = 60.0) -> None:
        """Until the query's one value is this."""
        found: list[object] = []

        def so() -> bool:
            found[:] = [self.one(query)]
            return bool(found[0] == wanted)

        wait_for(so, timeout_s, lambda: f"{query} gives {found}, not {wanted}. {self.logs()}", poll_s=0.1)

    def records(self, topic: str) -> list[tuple[int, int, bytes | None, Any]]:
        """(partition, offset, key, value) of every record of a topic, decoded."""
        return list(_records(self.bootstrap_servers, topic))

    def end(self, topic: str) -> int:
        """How many records the topic ever had."""
        client = admin(self.bootstrap_servers)
        partitions = range(topics.partition_count(client, topic))
        return sum(end_offsets(client, topic, partitions, committed=False).values())

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"{process.log_path.name}: {process.log[-1500:]}" for process in self.processes)

    def close(self) -> None:
        """Kill what runs."""
        for process in self.processes:
            if process.popen.poll() is None:
                process.kill()


def _records(bootstrap_servers: str, topic: str) -> Iterator[tuple[int, int, bytes | None, Any]]:
    from confluent_kafka import Consumer, TopicPartition

    client = admin(bootstrap_servers)
    partitions = range(topics.partition_count(client, topic))
    starts = start_offsets(client, topic, partitions)
    ends = end_offsets(client, topic, partitions, committed=True)
    left = {partition for partition in partitions if starts[partition] < ends[partition]}
    consumer = Consumer(reader_config(bootstrap_servers, "test", f"{topic}-test"))
    try:
        consumer.assign([TopicPartition(topic, partition, starts[partition]) for partition in left])
        while left:
            # a record without a value counts as false
            (message,) = wait_for(
                lambda: [found for found in (consumer.poll(1.0),) if found is not None], 30, f"{topic} can't be read"
            )
            if message.error() is None:
                yield message.partition(), message.offset(), message.key(), codec.decode(message.value())
                at = message.offset() + 1
            else:
                at = message.offset()
            if at >= ends[message.partition()]:
                left.discard(message.partition())
    finally:
        consumer.close()
