"""One window of the demo, run: prepare, tick to the halt, edit and delete, tick on, and wait until nothing is open.

The steps, in order: topics and tables; processes; the schedules applied; ticks up to and including `halt_at`; the
edits applied and the ids deleted, which so count from the next minute; ticks to the end; every minute joined, every
record taken in, no row open. In the window where the kill of `demo.yaml` falls, one delivery worker and one processor
get SIGKILL while the provider holds accepted, unanswered requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from confluent_kafka import KafkaException

from streams.adapters.clock import Clock
from streams.adapters.embedded.services import EmbeddedServices
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.domain.minutes import format_tick
from streams.entrypoints.scenarios.installation import Installation, LaneUse
from streams.entrypoints.scenarios.sandbox_control import SandboxControl, total
from streams.entrypoints.scenarios.watch import Progress, Watch
from streams.entrypoints.supervise import Child, spine
from streams.pipeline.names import Names
from streams.verifier.documents import Demo, Window

_POLL_S = 0.2
_START_TIMEOUT_S = 120.0
_WINDOW_TIMEOUT_S = 240.0
_HOLD_TIMEOUT_S = 20.0
_LET_GO_TIMEOUT_S = 2.0
_PROCESSORS = 2
_WORKERS = 2


@dataclass(slots=True)
class Counters:
    """What only the run itself can know, by region where it has one."""

    in_flight_at_kill: dict[str, int] = field(default_factory=dict)
    suppressed: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)


class WindowRun:
    """One window. `prepare` may run in another thread while the window before it ends; then `run`, then `close`."""

    def __init__(
        self,
        demo: Demo,
        window: Window,
        examples: Path,
        folder: Path,
        services: EmbeddedServices,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        """Nothing is started yet."""
        self.demo = demo
        self.window = window
        self.log = folder / window.name / "provider.jsonl"
        self.installation = Installation(window.name, folder / window.name, services, clock, say)
        self.counters = Counters()
        self._examples = examples
        self._services = services
        self._clock = clock
        self._say = say
        self._pause = Event()
        self._closed = False
        self.sandbox: SandboxControl | None = None
        self._dips = [
            (lane, dip)
            for lane, settings in demo.providers.items()
            for dip in settings.get("dips", ())
            if dip["window"] == window.name
        ]
        names = Names(self.installation.prefix)
        self._watch = Watch(services.bootstrap_servers, names, list(demo.regions), demo.partitions)

    @property
    def ticks(self) -> int:
        """Ticks in this window, over all partitions."""
        return (self.window.end - self.window.start) * self.demo.partitions

    def prepare(self) -> None:
        """Provider, topics, tables, processes, schedules."""
        self.sandbox = self._start_sandbox()
        lanes = {
            name: LaneUse(self.sandbox.url(name), settings["rate_per_s"], settings["burst"])
            for name, settings in self.demo.providers.items()
        }
        self.installation.write_settings(list(self.demo.regions), lanes)
        self.installation.run("topics", "create", "--partitions", str(self.demo.partitions), "--replication", "1")
        self.installation.run("db", "migrate")
        self._watch.open(self._services.dsn, self.installation.schema)
        self.installation.family.start(
            spine(list(self.demo.regions), processors=_PROCESSORS, workers=_WORKERS, ticker=False)
        )
        self.installation.run("schedules", "apply", "--wait", str(self._examples / self.demo.schedules))

    def _start_sandbox(self) -> SandboxControl:
        lanes = []
        for name, lane in self.demo.providers.items():
            terms = {"rate": "rate_per_s", "burst": "burst", "latency": "latency_s", "lost": "lost_answer_share"}
            lanes += ["--lane", f"{name}:" + ",".join(f"{short}={lane[full]}" for short, full in terms.items())]
        process = self.installation.run_once("sandbox", "sandbox", "--port", "0", "--log", str(self.log), *lanes)
        deadline_s = self._clock.boot_s() + _START_TIMEOUT_S
        while process.exit_status is None and self._clock.boot_s() < deadline_s:
            if (said := process.log_tail(1)).startswith('{"port"'):
                return SandboxControl(int(json.loads(said)["port"]))
            self._pause.wait(_POLL_S / 4)
        raise ServiceUnreachable(f"the sandbox did not start: {process.log_tail()}")

    def run(self, kill_at_ticks: int | None, promised: int, report: Callable[[int], None]) -> None:
        """To the end. `report` is told how many deliveries the provider has accepted. Raises BrokenPromise if stuck."""
        first, last = format_tick(self.window.start), self.window.end
        self._tick("ticker-1", first, self.window.halt_at + 1, report)
        changes = self._examples / self.window.edits
        self.installation.run("schedules", "apply", "--wait", str(changes))
        self.installation.run("schedules", "delete", "--yes", "--wait", *self.window.deletes)
        ticker = self.installation.run_once("ticker-2", "ticker", "--from", first, "--to", format_tick(last))
        deadline_s = self._clock.boot_s() + _WINDOW_TIMEOUT_S
        while not self._finished(progress := self._watch.look(), ticker):
            report(self._accepted())
            self._dip(promised)
            if kill_at_ticks is not None and self._joined(progress) >= kill_at_ticks:
                kill_at_ticks = None
                self._kill()
            self.installation.family.watch()
            if self._clock.boot_s() > deadline_s:
                raise BrokenPromise(f"window {self.window.name} did not end: {progress}; its logs: {self.log.parent}")
            self._pause.wait(_POLL_S)
        report(self._accepted())

    def _tick(self, name: str, first: str, end: int, report: Callable[[int], None]) -> None:
        ticker = self.installation.run_once(name, "ticker", "--from", first, "--to", format_tick(end))
        while ticker.exit_status is None:
            report(self._accepted())
            self.installation.family.watch()
            self._pause.wait(_POLL_S)
        self._require_success(ticker)

    def _require_success(self, ticker: Child) -> None:
        if ticker.exit_status:
            raise BrokenPromise(f"{ticker.spec.name} ended with status {ticker.exit_status}: {ticker.log_tail()}")

    def _finished(self, progress: Progress, ticker: Child) -> bool:
        self._require_success(ticker)
        return (
            ticker.exit_status == 0
            and min(progress.joined_minutes) >= self.window.end - 1
            and not progress.behind
            and not progress.open_rows
        )

    def _joined(self, progress: Progress) -> int:
        return sum(max(0, minute + 1 - self.window.start) for minute in progress.joined_minutes)

    def _accepted(self) -> int:
        return total(self._control.stats(), "distinct_keys")

    @property
    def _control(self) -> SandboxControl:
        if self.sandbox is None:
            raise BrokenPromise("prepare() comes first")
        return self.sandbox

    def _dip(self, promised: int) -> None:
        accepted = self._accepted()
        for lane, dip in list(self._dips):
            if accepted * 100 >= promised * dip["at_percent"]:
                self._dips.remove((lane, dip))
                self._control.change(lane, dip={"rate_per_s": dip["rate_per_s"], "for_s": dip["for_s"]})

    def _kill(self) -> None:
        """SIGKILL for a delivery worker that has accepted, unanswered requests, and for a processor."""
        lanes = list(self.demo.providers)
        for lane in lanes:
            self._control.change(lane, hold=True)
        try:
            region, lane = next(iter(self.demo.regions.items()))
            held = self._held(lane, lambda count: count >= 2 * _WORKERS, _HOLD_TIMEOUT_S)
            for number in range(1, _WORKERS + 1):
                self._say(f"demo: killing deliver-{region}-{number}, with requests in flight, and processor-1")
                self.installation.family.children[f"deliver-{region}-{number}"].kill()
                self.installation.family.children["processor-1"].kill()
                left = self._held(lane, lambda count: count < held, _LET_GO_TIMEOUT_S)
                self.counters.in_flight_at_kill[region] = held - left
                if left < held:
                    break
        finally:
            for lane in lanes:
                self._control.change(lane, hold=False)

    def _held(self, lane: str, enough: Callable[[int], bool], timeout_s: float) -> int:
        """How many answers the lane holds back, once that is enough or the time for it is over."""
        deadline_s = self._clock.boot_s() + timeout_s
        while not enough(held := self._control.stats()[lane]["held"]) and self._clock.boot_s() < deadline_s:
            self._pause.wait(_POLL_S / 10)
        return held

    def count(self) -> None:
        """Fill the counters from the ledger."""
        self.counters.suppressed, self.counters.unknown = self._watch.counts()

    def close(self) -> None:
        """Stop every process of the window. Again: nothing."""
        if self._closed:
            return
        self._closed = True
        self.installation.close()
        try:
            self._watch.close()
        except KafkaException as error:
            self._say(f"the scenario's own consumer could not be closed: {error}")
