"""Processes of an installation under test: started, stopped, killed, made to stand still, and heard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from streams.adapters.clock import SystemClock
from streams.adapters.embedded.process import clean_environment
from streams.entrypoints.supervise import Child, Family, Spec

T = TypeVar("T")


class Processes:
    """`townclock` processes over one folder, which holds their settings file and their logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.down: set[str] = set()
        self._mark: dict[str, int] = {}
        folder.mkdir(parents=True)
        self._environment = {"TOWNCLOCK_CONFIG": str(folder / "townclock.toml")}
        self.family = Family(folder, self._environment, SystemClock(), print)

    def child(self, name: str) -> Child:
        return self.family.children[name]

    def stop(self, *names: str) -> None:
        """SIGTERM; each has to end with status 0 within 8 s."""
        self.down.update(names)
        for name in names:
            self.child(name).ask_to_stop()
        self.wait(lambda: all(self.child(name).exit_status is not None for name in names), 8, f"{names} did not stop")
        statuses = {name: self.child(name).exit_status for name in names}
        assert set(statuses.values()) == {0}, f"{statuses}\n{self.said()}"

    def kill(self, *names: str) -> None:
        """SIGKILL."""
        self.down.update(names)
        for name in names:
            self.child(name).kill()

    def again(self, *names: str) -> None:
        """Start what was stopped or killed."""
        for name in names:
            self.child(name).stop()  # it has ended: this closes what joined us to it
        self.family.start([self.child(name).spec for name in names])
        self.down.difference_update(names)

    def begin(self, name: str, *arguments: str) -> None:
        """Start a command as a process beside the others; `forget` it in the end."""
        self.family.start([Spec(name, (name, *arguments), once=True)])

    def forget(self, name: str) -> None:
        """It is over, and is not started again."""
        assert self.child(name).pid is None
        self.child(name).stop()
        del self.family.children[name]
        self.down.discard(name)

    def freeze(self, name: str, number: signal.Signals = signal.SIGSTOP) -> None:
        """SIGSTOP or SIGCONT."""
        if (pid := self.child(name).pid) is not None:
            os.kill(pid, number)

    def mark(self) -> None:
        """What is logged from now on belongs to the next test."""
        self._mark = {path.name: path.stat().st_size for path in self.folder.glob("*.log")}

    def end(self) -> None:
        """Everything ends."""
        for name in self.family.children:
            self.freeze(name, signal.SIGCONT)
        self.family.stop()

    def said(self, most_lines: int = 12) -> str:
        """The last lines of every process since `mark`, for whoever has to find out."""
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            text = self.text(path.stem)
            if text:
                parts += [f"--- {path.name}", *text.splitlines()[-most_lines:]]
        return "\n".join(parts)

    def text(self, name: str) -> str:
        """What a process has logged since `mark`."""
        path = self.folder / f"{name}.log"
        return path.read_bytes()[self._mark.get(path.name, 0) :].decode(errors="replace")

    def wait(self, condition: Callable[[], T], timeout_s: float, message: str | Callable[[], str]) -> T:
        """The first true value. Fails if it does not come, or a process ends meanwhile, with what all have said."""
        deadline_s = time.monotonic() + timeout_s
        while not (value := condition()):
            dead = [n for n, c in self.family.children.items() if c.exit_status is not None and n not in self.down]
            assert not dead, f"{dead} ended: {self.said()}"
            if time.monotonic() > deadline_s:
                text = message() if callable(message) else message
                raise AssertionError(f"not so within {timeout_s:g} s: {text}\n{self.said()}")
            time.sleep(0.05)
        return value

    def wait_said(self, name: str, text: str, timeout_s: float = 30.0) -> None:
        """Wait until a process has logged that, since `mark`."""
        self.wait(lambda: text in self.text(name), timeout_s, f"{name} does not say {text!r}")

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `townclock` to its end, whatever comes of it."""
        return subprocess.run(
            [sys.executable, "-m", "streams", *arguments],
            env=clean_environment(**self._environment),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def run(self, *arguments: str) -> str:
        """Its stdout; it has to succeed."""
        done = self.ask(*arguments)
        assert done.returncode == 0, f"townclock {' '.join(arguments)}: {done.stdout}{done.stderr}\n{self.said()}"
        return done.stdout
