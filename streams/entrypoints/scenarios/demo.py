"""The demo: its windows one after the other, each verified while the next one runs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from streams.adapters.clock import Clock
from streams.adapters.embedded.services import EmbeddedServices
from streams.domain.errors import InvalidInput
from streams.entrypoints.scenarios.window import Counters, WindowRun
from streams.verifier.documents import Demo, load_demo
from streams.verifier.report import WindowReport
from streams.verifier.verify import count_promised, verify

KILL_AT_PERCENT = 40


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the verifier found, window by window, and what the runs counted."""

    demo: Demo
    reports: list[WindowReport]
    counters: list[Counters]
    elapsed_s: float

    def extra(self) -> dict[str, int | dict[str, int]]:
        """The counters added up, for the verifier's table."""
        names = ("suppressed", "unknown", "in_flight_at_kill")
        return {
            name: {region: sum(getattr(c, name).get(region, 0) for c in self.counters) for region in self.demo.regions}
            for name in names
        }


def run_demo(
    examples: Path,
    folder: Path,
    windows: Sequence[str],
    sabotage: str | None,
    keep: bool,
    clock: Clock,
    say: Callable[[str], None],
    report: Callable[[str, int, int], None],
) -> DemoResult:
    """Start the services, run the windows, verify each. `report(window, delivered, promised)` counts over all windows.

    Raises TownclockError where a service or a process fails; everything it started is stopped either way.
    """
    demo = load_demo(examples)
    unknown = sorted(set(windows) - {window.name for window in demo.windows})
    if unknown:
        raise InvalidInput(f"--window {unknown[0]}: there are {', '.join(window.name for window in demo.windows)}")
    chosen = [window for window in demo.windows if not windows or window.name in windows]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    started_s = clock.boot_s()
    services = EmbeddedServices(folder / "services")
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as oracle, ThreadPoolExecutor(1) as ahead:
        promised = [oracle.submit(count_promised, examples, window.name) for window in chosen]
        services.start()
        runs: list[WindowRun] = []
        try:
            runs = [WindowRun(demo, window, examples, folder, services, clock, say) for window in chosen]
            kills = _kill_points(runs)
            verified: list[Future[WindowReport]] = []
            ready = ahead.submit(runs[0].prepare)
            whole = sum(found.result() for found in promised)
            before = 0
            for number, run in enumerate(runs):
                ready.result()
                if number + 1 < len(runs):
                    ready = ahead.submit(runs[number + 1].prepare)
                if sabotage and number == 0 and run.sandbox is not None:
                    run.sandbox.change(next(iter(demo.providers)), sabotage=sabotage)
                count = promised[number].result()
                run.run(kills.get(number), count, _onto(report, run.window.name, before, whole))
                before += count
                run.count()
                run.close()
                ledger = (services.dsn, run.installation.schema)
                verified.append(oracle.submit(verify, examples, run.window.name, run.log, *ledger))
            reports = [found.result() for found in verified]
        finally:
            for run in runs:
                run.close()
            if keep:
                services.stop()
            else:
                services.destroy()
    return DemoResult(demo, reports, [run.counters for run in runs], clock.boot_s() - started_s)


def _onto(report: Callable[[str, int, int], None], window: str, before: int, whole: int) -> Callable[[int], None]:
    return lambda done: report(window, before + done, whole)


def _kill_points(runs: Sequence[WindowRun]) -> dict[int, int]:
    """In which window 40 % of all ticks are joined, and at how many ticks of that window."""
    point = sum(run.ticks for run in runs) * KILL_AT_PERCENT // 100
    for number, run in enumerate(runs):
        if point < run.ticks:
            return {number: point}
        point -= run.ticks
    return {}
