"""The demo: its windows one after the other, each verified while the next one runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from streams.adapters.clock import Clock
from streams.adapters.embedded.services import EmbeddedServices
from streams.domain.errors import InvalidInput
from streams.entrypoints.scenarios.window import Counters, WindowRun
from streams.verifier.documents import Demo, Window, load_demo
from streams.verifier.report import WindowReport
from streams.verifier.verify import count_promised, verify


def chosen_windows(demo: Demo, names: Sequence[str]) -> list[Window]:
    """The windows of those names, all without names. Raises InvalidInput naming those there are."""
    unknown = sorted(set(names) - {window.name for window in demo.windows})
    if unknown:
        raise InvalidInput(f"--window {unknown[0]}: there are {', '.join(window.name for window in demo.windows)}")
    return [window for window in demo.windows if not names or window.name in names]


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

    Raises InvalidInput if `folder` holds anything, and TownclockError where a service or a process fails; everything it
    started is stopped either way.
    """
    demo = load_demo(examples)
    chosen = chosen_windows(demo, windows)
    make_empty(folder)
    started_s = clock.boot_s()
    services = EmbeddedServices(folder / "services")
    context = get_context("spawn")
    oracle_pool = ProcessPoolExecutor(1, mp_context=context, initializer=_leave_signals_to_us)
    with oracle_pool as oracle, ThreadPoolExecutor(1) as ahead:
        promised = [oracle.submit(count_promised, examples, window.name) for window in chosen]
        services.start()
        runs: list[WindowRun] = []
        try:
            runs = [WindowRun(demo, window, examples, folder, services, clock, say) for window in chosen]
            kills = _kill_points(runs, demo.kill_at_percent)
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


def make_empty(folder: Path) -> None:
    """`folder`, made if need be. Raises InvalidInput if it can't be had or holds anything: nothing is ever deleted."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        filled = any(folder.iterdir())
    except OSError as error:
        raise InvalidInput(f"{folder}: can't be used: {error.strerror}; name a folder that can be made") from None
    if filled:
        raise InvalidInput(f"{folder}: is not empty; name a new folder, or remove what is in it")


def _leave_signals_to_us() -> None:
    """Ctrl-C goes to every process of the terminal; the verifier ends when we end it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _onto(report: Callable[[str, int, int], None], window: str, before: int, whole: int) -> Callable[[int], None]:
    return lambda done: report(window, before + done, whole)


def _kill_points(runs: Sequence[WindowRun], at_percent: int | None) -> dict[int, int]:
    """In which window so much of all ticks is joined, and at how many ticks of that window; empty for no kill."""
    if at_percent is None:
        return {}
    point = sum(run.ticks for run in runs) * at_percent // 100
    for number, run in enumerate(runs):
        if point < run.ticks:
            return {number: point}
        point -= run.ticks
    return {}
