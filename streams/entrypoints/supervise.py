"""Townclock's own processes as children: started, restarted with backoff when they die, stopped in order."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streams.adapters.clock import Clock
from streams.adapters.embedded.process import GuardedProcess, clean_environment

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0
_STEADY_S = 60.0
GRACE_S = 8.0


@dataclass(frozen=True, slots=True)
class Spec:
    """One process: `arguments` follow `townclock`. A `once` process is meant to end by itself."""

    name: str
    arguments: tuple[str, ...]
    once: bool = False


class Child:
    """One supervised process. Every death is told to `say`; it is restarted after 0.5 s, doubling up to 30 s."""

    def __init__(
        self, spec: Spec, folder: Path, environment: Mapping[str, str], clock: Clock, say: Callable[[str], None]
    ) -> None:
        """Start it. Its output goes to `FOLDER/NAME.log`."""
        self.spec = spec
        self.restarts = 0
        self.log_path = folder / f"{spec.name}.log"
        self._folder = folder
        self._environment = dict(environment)
        self._clock = clock
        self._say = say
        self._delay_s = _FIRST_DELAY_S
        self._restart_at_s: float | None = None
        self._process = self._launch()

    def _launch(self) -> GuardedProcess:
        self.started_at_s = self._clock.boot_s()
        self._restart_at_s = None
        # what a killed process leaves behind goes with the folder
        temporary = self._folder / "tmp"
        temporary.mkdir(exist_ok=True)
        return GuardedProcess(
            [sys.executable, "-m", "streams", *self.spec.arguments],
            environment=clean_environment(PYTHONUNBUFFERED="1", TMPDIR=str(temporary), **self._environment),
            folder=self._folder,
            log_path=self.log_path,
            stop_signal=signal.SIGTERM,
            grace_s=GRACE_S,
        )

    @property
    def pid(self) -> int | None:
        """The process, none unless it runs."""
        return self._process.pid if self._process.exit_status is None else None

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self._process.exit_status

    def watch(self) -> None:
        """Restart it where it has died and its delay is over. Call it a few times a second."""
        if self.spec.once or self._process.exit_status is None:
            return
        now_s = self._clock.boot_s()
        if self._restart_at_s is None:
            self._process.wait(0)  # closes what joined us to it
            if now_s - self.started_at_s > _STEADY_S:
                self._delay_s = _FIRST_DELAY_S
            self._restart_at_s = now_s + self._delay_s
            self._say(
                f"{self.spec.name} ended with status {self._process.exit_status}; again in {self._delay_s:g} s. "
                f"Its last line: {self.last_line()}"
            )
            self._delay_s = min(self._delay_s * 2, _LONGEST_DELAY_S)
        elif now_s >= self._restart_at_s:
            self.restarts += 1
            self._process = self._launch()

    def last_line(self) -> str:
        """The end of what it wrote."""
        return self._process.log_tail(1) or "(it wrote nothing)"

    def log_tail(self, lines: int = 15) -> str:
        """The last lines since it was started."""
        return self._process.log_tail(lines)

    def ask_to_stop(self) -> None:
        """SIGTERM, without waiting."""
        self._process.send(signal.SIGTERM)

    def stop(self) -> None:
        """SIGTERM; SIGKILL after the grace."""
        self._process.stop()

    def kill(self) -> None:
        """SIGKILL, as a crash would. `watch` starts it again."""
        self._process.kill()


class Family:
    """Several children, watched and stopped together."""

    def __init__(self, folder: Path, environment: Mapping[str, str], clock: Clock, say: Callable[[str], None]) -> None:
        """Nothing is started yet. `environment` is what each child sees beside PATH, HOME and the locale."""
        self.children: dict[str, Child] = {}
        self._folder = folder
        self._environment = environment
        self._clock = clock
        self._say = say

    def start(self, specs: Sequence[Spec]) -> None:
        """Start them all, in order."""
        for spec in specs:
            self.children[spec.name] = Child(spec, self._folder, self._environment, self._clock, self._say)

    def watch(self) -> None:
        """See `Child.watch`."""
        for child in self.children.values():
            child.watch()

    def stop(self) -> None:
        """All are asked at once, then each is awaited: at most one grace in all."""
        for child in self.children.values():
            child.ask_to_stop()
        for child in self.children.values():
            child.stop()
        self.children.clear()


def spine(regions: Sequence[str], *, processors: int = 1, workers: int = 1, ticker: bool = True) -> list[Spec]:
    """The processes of one installation, in the order they are started in. Logs and the screen use these names."""
    specs = [Spec("registrar", ("registrar",)), Spec("relay", ("relay",))]
    specs += [Spec(f"processor-{number}", ("processor",)) for number in range(1, processors + 1)]
    specs += [
        Spec(f"deliver-{region}-{number}", ("deliver", "--region", region))
        for region in regions
        for number in range(1, workers + 1)
    ]
    if ticker:
        specs.append(Spec("ticker", ("ticker",)))
    return specs
