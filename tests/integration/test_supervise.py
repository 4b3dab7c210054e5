"""Children of `up` and of scenarios: restarted when they die, with backoff, and stopped together."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil

from streams.adapters.clock import SystemClock
from streams.entrypoints.supervise import Family, Spec, spine
from tests.services import wait_for

SANDBOX = Spec("sandbox", ("sandbox", "--port", "0", "--lane", "a:rate=10,burst=1"))


def test_a_dead_child_is_started_again_and_told_of(tmp_path: Path) -> None:
    said: list[str] = []
    family = Family(tmp_path, {}, SystemClock(), said.append)
    family.start([SANDBOX])
    try:
        child = family.children["sandbox"]
        wait_for(lambda: child.log_tail(1).startswith('{"port"'), 60, "the sandbox did not start")
        first = child.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)

        def again() -> bool:
            family.watch()
            return child.restarts == 1 and child.pid not in (None, first)

        wait_for(again, 60, "it was not started again")
        assert len(said) == 1
        assert said[0].startswith("sandbox ended with status 137; again in 0.5 s")
    finally:
        family.stop()
    assert not psutil.pid_exists(first)


def test_a_child_that_keeps_dying_is_tried_ever_more_rarely(tmp_path: Path) -> None:
    said: list[str] = []
    family = Family(tmp_path, {}, SystemClock(), said.append)
    family.start([Spec("wrong", ("no-such-command",))])
    try:

        def third_time() -> bool:
            family.watch()
            return len(said) == 3

        wait_for(third_time, 60, "it was not tried three times")
        assert ["0.5 s" in said[0], "1 s" in said[1], "2 s" in said[2]] == [True] * 3
        assert "No such command 'no-such-command'" in said[0]
    finally:
        family.stop()


def test_stopping_leaves_nothing(tmp_path: Path) -> None:
    family = Family(tmp_path, {}, SystemClock(), lambda _: None)
    family.start([SANDBOX, Spec("sandbox-2", SANDBOX.arguments)])
    children = list(family.children.values())
    wait_for(lambda: all(child.log_tail(1).startswith('{"port"') for child in children), 60, "they did not start")
    pids = [child.pid for child in children]
    family.stop()
    assert not any(psutil.pid_exists(pid) for pid in pids if pid is not None)
    assert not family.children


def test_the_spine_has_every_process() -> None:
    names = [spec.name for spec in spine(["eu", "us"], processors=2, workers=2)]
    assert names == [
        "registrar",
        "relay",
        "processor-1",
        "processor-2",
        "deliver-eu-1",
        "deliver-eu-2",
        "deliver-us-1",
        "deliver-us-2",
        "ticker",
    ]
