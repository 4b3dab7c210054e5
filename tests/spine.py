"""The whole pipeline for tests: one installation on the scenario clock, every process a real one, and a sandbox.

Scenario time only goes forward. Each test takes a window of its own and schedule ids of its own, so that all share one
set of processes; what a test has stopped, held or killed is put right before the next one.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from streams.adapters.codec import encode
from streams.adapters.kafka import topics
from streams.adapters.kafka.client import producer_config
from streams.domain.minutes import format_tick, parse_tick
from streams.domain.tick import Tick
from streams.entrypoints.scenarios.sandbox_control import SandboxControl
from streams.entrypoints.scenarios.watch import Watch
from streams.entrypoints.supervise import spine
from streams.pipeline.names import Names
from tests.processes import Processes

REGIONS = ("eu", "us")
LANES = ("mail", "paper")
PARTITIONS = 4
_TIMEOUT_S = 2.5  # of a send; leases follow it: 8.1 s
_NEVER_MORE_S = 60.0


class Effect(NamedTuple):
    """One side effect, as the provider's own log has it."""

    schedule_id: str
    nominal: str
    instant: str


class Row(NamedTuple):
    """One row of the ledger."""

    nominal: str
    state: str
    attempts: int
    revision: int


class Spine(Processes):
    """One installation, its processes and its provider. `now` is the first minute that has no tick yet."""

    def __init__(self, folder: Path, servers: str, dsn: str, name: str) -> None:
        super().__init__(folder)
        self.servers, self.dsn, self.name = servers, dsn, name
        self.names, self.schema = Names(f"{name}."), f"scenario_{name}"
        self.now: int | None = None
        self.log = folder / "provider.jsonl"
        self.watch = Watch(servers, self.names, REGIONS, PARTITIONS)

    def start(self) -> None:
        """Provider, topics, tables, processes."""
        lanes = [argument for lane in LANES for argument in ("--lane", f"{lane}:rate=500,burst=100,latency=0.005")]
        self.begin("sandbox", "--port", "0", "--log", str(self.log), *lanes)
        first = self.wait(lambda: self.child("sandbox").log_tail(1), 30, "the sandbox did not start")
        self.sandbox = SandboxControl(json.loads(first)["port"])
        self._write_settings()
        self.run("topics", "create", "--partitions", str(PARTITIONS))
        self.run("db", "migrate")
        self.sql = psycopg.connect(self.dsn, autocommit=True, options=f"-c search_path={self.schema} -c timezone=UTC")
        self.watch.open(self.dsn, self.schema)
        self.admin = AdminClient({"bootstrap.servers": self.servers})
        self.producer = Producer(producer_config(self.servers, "test"))
        self.family.start(spine(REGIONS, workers=2, ticker=False))
        self._ready()

    def _ready(self) -> None:
        """Wait until each delivery worker has its lanes and its session."""
        started = [name for name in self.workers() if self.child(name).pid is not None]
        self.wait(
            lambda: all('"delivery_starts"' in self.child(name).log_tail(200) for name in started), 60, "no start"
        )

    def _write_settings(self) -> None:
        lines = [
            f'scenario = "{self.name}"',
            f'[kafka]\nbootstrap_servers = "{self.servers}"\ntopic_prefix = "{self.names.prefix}"',
            f'[postgres]\ndsn = "{self.dsn}"\nschema = "{self.schema}"',
            *(f"[regions.{region}]" for region in REGIONS),
        ]
        for lane in LANES:
            lines += [
                f'[providers.{lane}]\nadapter = "sandbox"\nurl = "{self.sandbox.url(lane)}"',
                'idempotency_header = "Idempotency-Key"\nidempotency_window = "24h"',
                f"quota = {{rate_per_s = 500, burst = 100}}\ntimeout_s = {_TIMEOUT_S}",
            ]
        (self.folder / "townclock.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def workers(self, *regions: str) -> list[str]:
        """The names of the delivery workers of some regions, or of all."""
        return [f"deliver-{region}-{number}" for region in regions or REGIONS for number in (1, 2)]

    def session_of(self, name: str) -> int:
        """The session in the ledger that a delivery worker has begun with."""
        lines = (self.folder / f"{name}.log").read_text(encoding="utf-8").splitlines()
        (*_, started) = (line for line in lines if '"delivery_starts"' in line)
        session: int = json.loads(started)["session"]
        return session

    def sending(self, region: str, prefix: str) -> str:
        """Wait until a worker is sending occurrences of a `pair`; the one that is sending most of them."""
        query = (
            "SELECT session FROM queue WHERE state = 'sending' AND schedule_id = %s"
            " GROUP BY session ORDER BY count(*) DESC"
        )
        schedule_id = f"{prefix}-{region}"
        session = self.wait(lambda: self.one(query, schedule_id), 30, lambda: f"none sends: {self.open([schedule_id])}")
        (name,) = (name for name in self.workers(region) if self.session_of(name) == session)
        return name

    def restore(self) -> None:
        """Everything runs, and nothing is held."""
        for name in list(self.family.children):
            self.freeze(name, signal.SIGCONT)
            if self.child(name).pid is None:
                self.again(name)
        self._ready()
        for lane in LANES:
            self.sandbox.change(lane, hold=False, lost_answer_share=0.0)
        self.sql.execute("UPDATE lane SET held = NULL, held_since = NULL WHERE held IS NOT NULL")
        self.mark()

    def assert_well(self) -> None:
        """Nobody has died, crashed or stopped a partition; the provider saw no key twice, nor with other bytes."""
        dead = [name for name, child in self.family.children.items() if child.pid is None and name not in self.down]
        assert not dead, f"{dead} ended; {self.said()}"
        for name in self.family.children:
            for word in ("Traceback", "partition_stopped", "alarm_"):
                assert word not in self.text(name), self.text(name)[-4000:]
        for lane, counts in self.sandbox.stats().items():
            assert (counts["duplicates"], counts["mismatched"], counts["over_quota"]) == (0, 0, 0), (lane, counts)
        assert self.one("SELECT count(*) FROM quarantine") == 0

    # Documents.

    def file(self, *documents: Mapping[str, Any]) -> str:
        """Documents in a file of their own."""
        path = self.folder / f"schedules-{documents[0]['id']}.json"
        path.write_text(json.dumps(documents), encoding="utf-8")
        return str(path)

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """They count from the next minute on."""
        self.run("schedules", "apply", "--wait", self.file(*documents))

    # Time.

    def go_to(self, minute: str) -> None:
        """The next tick is this one. What lies between is one tick's to fill, as when a ticker's produces were lost."""
        goal = parse_tick(minute)
        if self.now is not None and self.now < goal:
            self._leap(goal)
        assert self.now is None or self.now == goal, f"{minute} is over: it is {format_tick(self.now)}"
        self.now = goal

    def _leap(self, goal: int) -> None:
        partitions = range(PARTITIONS)
        ends = self.ends(self.names.schedules)
        tz_end = topics.end_offsets(self.admin, self.names.tzdata, [0], committed=True)[0]
        topic_id = topics.topic_id(self.admin, self.names.schedules)
        for p in partitions:
            tick = Tick(goal - 1, p, topic_id, PARTITIONS, ends[p], tz_end, 0, self.name)
            self.producer.produce(self.names.ticks, encode(tick), partition=p)
        assert self.producer.flush(30) == 0
        self.now = goal
        self.joined()

    def tick(self, minutes: int) -> None:
        """The ticker as a process, for so many minutes. Returns once they are published."""
        assert self.now is not None
        self.run("ticker", "--from", format_tick(self.now), "--to", format_tick(self.now + minutes))
        self.now += minutes

    def joined(self) -> None:
        """Wait until every partition's cursor is at the last tick."""
        assert self.now is not None
        last = self.now - 1
        self.wait(
            lambda: min(self.watch.joined_minutes()) >= last,
            _NEVER_MORE_S,
            lambda: f"joined {self.watch.joined_minutes()}, wanted {last}",
        )

    def taken_in(self) -> None:
        """Wait until every tick is joined, and every occurrence is in the ledger."""
        self.joined()
        self.wait(lambda: self.watch.look().behind == 0, _NEVER_MORE_S, lambda: f"{self.watch.look()}")

    def settled(self, *ids: str) -> None:
        """Wait until nothing of these schedules is on its way any more."""
        self.taken_in()
        self.wait(lambda: not self.open(ids), _NEVER_MORE_S, lambda: f"still open: {self.open(ids)}")

    # What came of it.

    def until(self, wanted: object, query: str, *values: object, timeout_s: float = 40.0) -> None:
        """Wait until the first column of a query's first row is that."""
        self.wait(
            lambda: self.one(query, *values) == wanted,
            timeout_s,
            lambda: f"{query} {values} gives {self.one(query, *values)}, wanted {wanted}",
        )

    def ends(self, topic: str) -> dict[int, int]:
        """Where each partition of a topic ends."""
        return dict(topics.end_offsets(self.admin, topic, range(PARTITIONS), committed=True))

    def one(self, query: str, *values: object) -> Any:
        """The first column of the first row."""
        row = self.sql.execute(query, values).fetchone()
        return None if row is None else row[0]

    def open(self, ids: Iterable[str]) -> list[tuple[Any, ...]]:
        query = "SELECT schedule_id, state, attempts, reason FROM queue WHERE schedule_id = ANY(%s) ORDER BY 1"
        return self.sql.execute(query, [list(ids)]).fetchall()

    def rows(self, schedule_id: str) -> list[Row]:
        """A schedule's rows, by label and copy."""
        query = "SELECT nominal, state, attempts, revision FROM ledger WHERE schedule_id = %s ORDER BY instant"
        return [Row(*row) for row in self.sql.execute(query, [schedule_id]).fetchall()]

    def outcomes(self, schedule_id: str, n: int) -> set[str]:
        """What came of the n-th attempts at a schedule's occurrences."""
        query = "SELECT outcome FROM attempt JOIN occurrence USING (date, key, mode) WHERE schedule_id = %s AND n = %s"
        return {row[0] for row in self.sql.execute(query, [schedule_id, n]).fetchall()}

    def bodies(self, *ids: str) -> list[dict[str, Any]]:
        """What the provider accepted for these schedules, in the order of its log, every repetition included."""
        lines = [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]
        accepted = [line["body"] for line in lines if line["event"] == "accepted"]
        return [body for body in accepted if body["schedule_id"] in ids]

    def effects(self, *ids: str) -> list[Effect]:
        """The same, sorted, as what, which label, and when."""
        return sorted(Effect(body["schedule_id"], body["nominal"], body["instant"]) for body in self.bodies(*ids))

    def close(self) -> None:
        """Everything ends."""
        self.end()
        self.watch.close()
        self.__dict__.pop("producer", None)  # before its broker goes, of which it would complain
        self.__dict__.pop("admin", None)
        if hasattr(self, "sql"):
            self.sql.execute(f"DROP SCHEMA {self.schema} CASCADE")
            self.sql.close()


def document(schedule_id: str, zone: str, at: Sequence[str], *, on: str, until: str | None = None, **more: Any) -> Any:
    """A daily schedule from one date to another, in its zone's region; `more` replaces fields."""
    region = "us" if zone.startswith("America/") else "eu"
    return {
        "id": schedule_id, "region": region, "zone": zone, "rule": {"kind": "daily", "at": list(at)},
        "starts_on": on, "ends_on": until or on,
        "deliver": {"provider": "mail", "to": f"{schedule_id}@example.org", "payload": {"text": "first"}}, **more,
    }  # fmt: skip


def pair(prefix: str, day: str, minutes: Iterable[int], **more: Any) -> list[Any]:
    """One in Berlin and one in New York, both at 14:MM UTC of a day in summer."""
    wanted = list(minutes)
    return [
        document(f"{prefix}-eu", "Europe/Berlin", [f"16:{minute:02d}" for minute in wanted], on=day) | more,
        document(f"{prefix}-us", "America/New_York", [f"10:{minute:02d}" for minute in wanted], on=day) | more,
    ]


def promised(prefix: str, day: str, minutes: Iterable[int]) -> list[Effect]:
    """What `pair` promises."""
    wanted = list(minutes)
    return [
        Effect(f"{prefix}-{region}", f"{day}T{hour}:{minute:02d}", f"{day}T14:{minute:02d}:00Z")
        for region, hour in (("eu", 16), ("us", 10))
        for minute in wanted
    ]


def both(prefix: str) -> list[str]:
    """The ids of `pair`."""
    return [f"{prefix}-eu", f"{prefix}-us"]
