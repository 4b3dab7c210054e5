"""The demo's files are what the generator makes, and they are as hard as they claim to be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.document import DocumentContext, parse_document
from streams.domain.schedule import Schedule
from streams.verifier.documents import Window, load_demo, load_histories, load_schedules
from streams.verifier.oracle import Promises, promises
from streams.verifier.zones import How, ZoneLine

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo"
WINDOWS = load_demo(DEMO).windows


@pytest.fixture(scope="module")
def promised() -> dict[str, Promises]:
    demo = load_demo(DEMO)
    return {w.name: promises(load_histories(DEMO, demo, w), w.start, w.end) for w in demo.windows}


def documents(path: Path) -> list[dict[str, Any]]:
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)


def test_generator_makes_these_very_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, DEMO / "generate.py", tmp_path], check=True)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in DEMO.glob("*.yaml"))
    for name in made:
        assert (tmp_path / name).read_bytes() == (DEMO / name).read_bytes(), name


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*/*.yaml")), ids=lambda path: path.name)
def test_every_document_is_valid(path: Path) -> None:
    if path.name == "demo.yaml":
        return
    context = DocumentContext(frozenset(wheel_bundle().names), frozenset({"eu", "us"}))
    for document in documents(path):
        found = parse_document(json.loads(json.dumps(document, default=date.isoformat)), context)
        assert isinstance(found, Schedule), (document["id"], found)


def test_size_and_spread() -> None:
    schedules = load_schedules(DEMO / "schedules.yaml")
    assert len(schedules) == 2000
    assert len({schedule.zone for schedule in schedules}) == 40
    assert Counter(schedule.region for schedule in schedules) == {"eu": 1000, "us": 1000}
    assert len({schedule.tenant for schedule in schedules}) == 8
    assert len({(schedule.gap, schedule.overlap) for schedule in schedules}) == 9


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: window.name)
def test_window(window: Window) -> None:
    demo = load_demo(DEMO)
    assert window.end - window.start == 4 * 1440
    assert window.start < window.halt_at < window.end
    edits, deletes = load_schedules(DEMO / window.edits), set(window.deletes)
    assert (len(edits), len(deletes)) == (50, 10)
    originals = {schedule.schedule_id: schedule for schedule in load_schedules(DEMO / demo.schedules)}
    for edit in edits:
        assert edit.schedule_id not in deletes
        assert edit != originals[edit.schedule_id], "an edit that changes nothing makes no revision"
        assert (edit.region, edit.provider) == (originals[edit.schedule_id].region, f"{edit.region}-mail")


def test_no_label_is_split_by_a_windows_start() -> None:
    """What the schedules' first minute would make of a second copy is not this demo's matter."""
    for zone in {schedule.zone for schedule in load_schedules(DEMO / "schedules.yaml")}:
        for window in WINDOWS:
            line = ZoneLine(zone, window.start, window.end)
            landings = [landing for minute in range(0, 1440, 15) for landing in line.at(minute)]  # jumps are quarters
            assert all(landing.first_tick >= window.start for landing in landings if landing.how is How.SECOND)


def test_about_31_000_occurrences(promised: dict[str, Promises]) -> None:
    assert 30_500 <= sum(len(window.by_key) for window in promised.values()) <= 31_500
    regions = Counter(p.revision.region for window in promised.values() for p in window.by_key.values())
    assert 0.9 < regions["eu"] / regions["us"] < 1.1


def test_hard_cases_are_plenty(promised: dict[str, Promises]) -> None:
    for name in ("europe-autumn-2026", "america-autumn-2026"):
        assert promised[name].reasons()["overlap_suppressed"] >= 40
        assert sum(p.copy for p in promised[name].by_key.values()) >= 15
    for name in ("america-spring-2027", "europe-spring-2027"):
        assert promised[name].reasons()["gap_skipped"] >= 20
    for window in promised.values():
        assert len(window.repeated) >= 5, "edits bring fired labels again"
        assert {"excepted", "paused"} <= window.reasons().keys()
