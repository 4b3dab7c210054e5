"""`python -m benchmarks pipeline`: the pipeline's figures, on services of its own that are gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks import edge, flow, machine
from benchmarks.figures import Figure, to_json
from benchmarks.ground import Ground
from benchmarks.sizes import Sizes
from streams.adapters.clock import Clock
from streams.adapters.embedded.services import EmbeddedServices

# Each part with the figures it gives. A part needs those before it, but for `edge`, which stands alone.
PARTS: Final = {
    "register": ("register_per_s",),
    "evaluate": ("evaluate_per_s", "evaluate_busy_minute_per_s"),
    "intake": ("intake_per_s", "duplicates_per_s"),
    "deliver": ("deliver_per_s", "deliver_two_workers_per_s"),
    "edge": (
        "edge_to_accepted_p50_s",
        "edge_to_accepted_p99_s",
        "edge_to_tick_p50_s",
        "edge_to_ledger_p50_s",
        "edge_to_sending_p50_s",
    ),
}
KEYS: Final = tuple(key for keys in PARTS.values() for key in keys)
_CHAIN: Final = ("register", "evaluate", "intake", "deliver")


def parts_to_run(asked: Collection[str]) -> list[str]:
    """The parts asked for (all, if none is) and those that they need, in order."""
    wanted = set(asked or PARTS)
    last = max((_CHAIN.index(part) for part in wanted & set(_CHAIN)), default=-1)
    return [part for part in PARTS if part in _CHAIN[: last + 1] or (part == "edge" and part in wanted)]


class PipelineBenchmark:
    """What a run has measured: `figures` and `machine`, complete once `run` has returned."""

    def __init__(self, sizes: Sizes, parts: Collection[str], clock: Clock, say: Callable[[str], None]) -> None:
        """Nothing is started yet. `say` is told what is being measured."""
        self.figures: list[Figure] = []
        self.machine: dict[str, object] = {}
        self._sizes = sizes
        self._parts = parts_to_run(parts)
        self._clock = clock
        self._say = say

    def run(self) -> None:
        """Measure. Raises TownclockError where something fails; whatever was started is gone either way."""
        load = machine.load_1m()
        folder = Path(tempfile.mkdtemp(prefix="townclock-bench-"))
        services = EmbeddedServices(folder / "services")
        try:
            self._say("starting the broker and the database")
            services.start()
            self.machine = machine.describe(services.dsn, load)
            if set(self._parts) & set(_CHAIN):
                self._flow(services, folder)
            if "edge" in self._parts:
                self._edge(services, folder)
        finally:
            services.destroy()
            shutil.rmtree(folder, ignore_errors=True)

    def _flow(self, services: EmbeddedServices, folder: Path) -> None:
        ground = Ground("flow", folder / "flow", services, self._clock, self._sizes.partitions, scenario=True)
        try:
            ground.prepare(flow.QUOTA_PER_S, flow.QUOTA_BURST)
            stages = flow.Flow(ground, self._sizes)
            for part in _CHAIN:
                if part in self._parts:
                    self._say(f"measuring: {part}")
                    self.figures += getattr(stages, part)()
        finally:
            ground.close()

    def _edge(self, services: EmbeddedServices, folder: Path) -> None:
        self._say(f"measuring: edge, {self._sizes.edge_minutes} minutes of the live clock")
        ground = Ground("edge", folder / "edge", services, self._clock, self._sizes.partitions, scenario=False)
        try:
            ground.prepare(edge.QUOTA_PER_S, edge.QUOTA_BURST)
            self.figures += edge.measure(ground, self._sizes)
        finally:
            ground.close()

    def to_json(self) -> dict[str, object]:
        """See `figures.to_json`."""
        return {"benchmark": "pipeline", **to_json(self.figures, KEYS, asdict(self._sizes), self.machine)}
