"""What stages stand on: one installation on services of the benchmark's own, its processes, and patient waiting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from threading import Event
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks import machine
from benchmarks.load import PROVIDER, REGION
from streams.adapters import codec
from streams.adapters.clock import Clock
from streams.adapters.embedded.services import EmbeddedServices
from streams.adapters.kafka.admin_calls import end_offsets
from streams.adapters.kafka.client import admin, producer_config, reader_config
from streams.adapters.postgres.base import Connection, connect
from streams.domain.change import Change
from streams.domain.errors import BrokenPromise
from streams.entrypoints.command import run_townclock
from streams.entrypoints.scenarios.sandbox_control import SandboxControl
from streams.entrypoints.scenarios.watch import Watch
from streams.entrypoints.supervise import Family, Spec
from streams.pipeline.names import Names

T = TypeVar("T")
_READ_TIMEOUT_S = 10.0
_START_TIMEOUT_S = 60.0
_RUN_TIMEOUT_S = 300.0
_ROOM_MESSAGES = 1_000_000


class Ground:
    """One installation. `scenario`: on a clock of its own; else live. Nothing is started before `prepare`."""

    def __init__(
        self, name: str, folder: Path, services: EmbeddedServices, clock: Clock, partitions: int, *, scenario: bool
    ) -> None:
        self.names = Names(f"{name}.")
        self.schema = f"bench_{name}"
        self.clock = clock
        self.partitions = partitions
        self.sandbox_log = folder / "provider.jsonl"
        self._name = name
        self._scenario = scenario
        self._folder = folder
        self._services = services
        self._environment = {"TOWNCLOCK_CONFIG": str(folder / "townclock.toml")}
        self._sandbox: SandboxControl | None = None
        self._sql: Connection | None = None
        self.admin = admin(services.bootstrap_servers)
        self._watch = Watch(services.bootstrap_servers, self.names, [REGION], partitions)
        self._pause = Event()
        self.family = Family(folder, self._environment, clock, lambda text: None)

    def prepare(self, rate_per_s: float, burst: int) -> None:
        """Sandbox, settings with a quota, topics, tables."""
        self._folder.mkdir(parents=True)
        lane = f"{PROVIDER}:rate={rate_per_s * 20},burst={burst * 20},latency=0"
        self.start(
            Spec("sandbox", ("sandbox", "--port", "0", "--log", str(self.sandbox_log), "--lane", lane), once=True)
        )
        self._sandbox = self.wait(self._found_sandbox, "the sandbox")
        lines = [f"scenario = {json.dumps(self._name)}"] if self._scenario else []
        lines += [
            "[kafka]",
            f"bootstrap_servers = {json.dumps(self._services.bootstrap_servers)}",
            f"topic_prefix = {json.dumps(self.names.prefix)}",
            "[postgres]",
            f"dsn = {json.dumps(self._services.dsn)}",
            f"schema = {json.dumps(self.schema)}",
            f"[regions.{REGION}]",
            f"[providers.{PROVIDER}]",
            'adapter = "http"',
            f"url = {json.dumps(self._sandbox.url(PROVIDER))}",
            'idempotency_header = "Idempotency-Key"',
            'idempotency_window = "24h"',
            f"quota = {{rate_per_s = {rate_per_s}, burst = {burst}}}",
            "timeout_s = 10",
        ]
        (self._folder / "townclock.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.command("topics", "create", "--partitions", str(self.partitions), "--replication", "1")
        self.command("db", "migrate")

    # Processes.

    def command(self, *arguments: str) -> str:
        """Run a `townclock` command to its end; its stdout."""
        return run_townclock(*arguments, environment=self._environment, folder=self._folder)

    def start(self, *specs: Spec) -> None:
        """Start processes; from now on the death of one ends every wait."""
        self.family.start(specs)

    def stop(self, *names: str) -> None:
        """Stop these, in good order."""
        children = [self.family.children[name] for name in names]
        for child in children:
            child.ask_to_stop()
        for child, name in zip(children, names, strict=True):
            child.stop()
            del self.family.children[name]

    def wait(
        self, condition: Callable[[], T | None], what: str, timeout_s: float = _RUN_TIMEOUT_S, poll_s: float = 0.1
    ) -> T:
        """The first true value. Raises BrokenPromise where the time is over or a process or service has died."""
        deadline_s = self.clock.boot_s() + timeout_s
        while not (found := condition()):
            for name, child in self.family.children.items():
                if child.exit_status is not None and not (child.spec.once and child.exit_status == 0):
                    raise BrokenPromise(f"{name} ended with status {child.exit_status}: {child.log_tail()}")
            if (failure := self._services.failure()) is not None:
                raise BrokenPromise(failure)
            if self.clock.boot_s() > deadline_s:
                raise BrokenPromise(f"{what}: not so within {timeout_s:g} s; nothing of this part is reported")
            self._pause.wait(poll_s)
        return found

    def cpu_s(self, *names: str) -> float | None:
        """Processor time these have used so far, together; none where it can't be told."""
        pids = [self.family.children[name].pid for name in names]
        used = [machine.cpu_s(pid) if pid is not None else None for pid in pids]
        return None if None in used else sum(one for one in used if one is not None)

    def _found_sandbox(self) -> SandboxControl | None:
        said = self.family.children["sandbox"].log_tail(1)
        return SandboxControl(int(json.loads(said)["port"])) if said.startswith('{"port"') else None

    def provider_counts(self) -> dict[str, int]:
        """The provider's own counts."""
        if self._sandbox is None:
            raise BrokenPromise("prepare() comes first")
        return self._sandbox.stats()[PROVIDER]

    # The log.

    @property
    def occurrences(self) -> str:
        """The one region's topic."""
        return self.names.occurrences(REGION)

    def publish(self, changes: Iterable[Change]) -> int:
        """Onto `schedule-changes`, all encoded before the first is sent; how many."""
        ready = [(change.schedule_id.encode(), codec.encode(change)) for change in changes]
        more = {"queue.buffering.max.messages": _ROOM_MESSAGES}
        producer = Producer(producer_config(self._services.bootstrap_servers, "benchmark", **more))
        for key, value in ready:
            producer.produce(self.names.schedule_changes, value, key)
        if left := producer.flush(_START_TIMEOUT_S):
            raise BrokenPromise(f"{left} changes were not acknowledged")
        return len(ready)

    def ends(self, topic: str) -> dict[int, int]:
        """The end of each partition."""
        return end_offsets(self.admin, topic, range(self.partitions), committed=True)

    def count(self, topic: str) -> int:
        """How many records there are; nothing of a benchmark is compacted or transactional, so ends count them."""
        return sum(self.ends(topic).values())

    def first_time_s(self, topic: str, since: dict[int, int]) -> float:
        """The least time stamp of the first records at these offsets: an append time where the topic has those."""
        ends = self.ends(topic)
        return min(self._time_s(topic, p, at) for p, at in since.items() if at < ends[p])

    def last_time_s(self, topic: str) -> float:
        """The greatest time stamp of the last records."""
        return max(self._time_s(topic, p, end - 1) for p, end in self.ends(topic).items() if end)

    def _time_s(self, topic: str, partition: int, offset: int) -> float:
        return float(self.read(topic, partition, offset, 1)[0].timestamp()[1]) / 1000

    def read(self, topic: str, partition: int, offset: int, count: int) -> list[Message]:
        """So many records from there on."""
        consumer = Consumer(reader_config(self._services.bootstrap_servers, "benchmark", "unused"))
        found: list[Message] = []
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            while len(found) < count:
                message = consumer.poll(_READ_TIMEOUT_S)
                error = KafkaError(KafkaError._TIMED_OUT) if message is None else message.error()  # noqa: SLF001
                if error is not None or message is None:
                    raise BrokenPromise(f"{topic}[{partition}] offset {offset} can't be read: {error}")
                found.append(message)
        finally:
            consumer.close()
        return found

    def joined_to(self, minute: int) -> float:
        """Wait until every partition's cursor is at this minute; when that was seen, epoch seconds."""

        def look() -> bool:
            return min(self._watch.joined_minutes()) >= minute

        self.wait(look, "the joiners", poll_s=0.01)
        return self.clock.now_s()

    def joined_now(self) -> int:
        """The least minute joined; -1 before the first."""
        return min(self._watch.joined_minutes())

    # The database.

    def rows(self, statement: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[tuple[object, ...]]:
        """What it gives; committed at once."""
        if self._sql is None:
            self._sql = connect(self._services.dsn, self.schema, "benchmark")
        cursor = self._sql.execute(statement.encode(), values or None)
        return cursor.fetchall() if cursor.description else []

    def number(self, statement: str) -> float:
        """A single number; 0 for null."""
        value = self.rows(statement)[0][0]
        return float(str(value)) if value is not None else 0.0

    def close(self) -> None:
        """Stop every process."""
        self.family.stop()
        self._watch.close()
        if self._sql is not None:
            self._sql.close()


def workers(first: int, last: int) -> Sequence[Spec]:
    """Delivery workers by number."""
    return [Spec(f"deliver-{n}", ("deliver", "--region", REGION)) for n in range(first, last + 1)]
