"""The demo's own machinery on a demo of two small windows: kills, a dip, lost answers, and a delivery repeated behind
its back, which the verifier must find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from streams.adapters.clock import SystemClock
from streams.domain.errors import InvalidInput
from streams.entrypoints.scenarios.demo import DemoResult, run_demo
from streams.verifier.report import last_line

LANE = {"rate_per_s": 300, "burst": 60, "latency_s": 0.02, "lost_answer_share": 0.02}
ZONES = {"eu": ("Europe/Berlin", "Europe/London", "Africa/Cairo"), "us": ("America/New_York", "America/Havana")}


def document(number: int) -> dict[str, Any]:
    region = ("eu", "us")[number % 2]
    zones = ZONES[region]
    return {
        "id": f"small-{number:03d}",
        "region": region,
        "zone": zones[number % len(zones)],
        "rule": {"kind": "daily", "at": [f"{number % 24:02d}:{number % 58:02d}", "23:58"]},
        "gap": ("skip", "next_valid", "shift")[number % 3],
        "overlap": ("first", "second", "both")[number % 3],
        "deliver": {"provider": f"{region}-mail", "to": f"{number}@example.com", "payload": {"n": number}},
    }


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """120 schedules; two windows of a day and a half, one over a clock change; an edit and a delete in each."""
    documents = [document(number) for number in range(120)]
    edited = {**documents[5], "rule": {"kind": "daily", "at": ["12:34"]}}
    lanes: dict[str, Any] = {"eu-mail": dict(LANE), "us-mail": dict(LANE)}
    lanes["eu-mail"]["dips"] = [{"window": "autumn", "at_percent": 30, "rate_per_s": 20, "for_s": 1}]
    windows = [
        ("autumn", "2026-10-24T18:00Z", "2026-10-26T06:00Z", "2026-10-25T00:40Z"),
        ("plain", "2026-11-10T00:00Z", "2026-11-11T12:00Z", "2026-11-10T20:00Z"),
    ]
    demo = {
        "schedules": "schedules.yaml",
        "partitions": 2,
        "regions": {region: {"provider": f"{region}-mail"} for region in ("eu", "us")},
        "providers": lanes,
        "kill": {"at_percent": 40},
        "windows": [
            {"name": name, "from": start, "to": end, "halt_at": halt, "edits": "edits.yaml", "deletes": ["small-007"]}
            for name, start, end, halt in windows
        ],
    }
    for name, content in (("schedules", documents), ("edits", [edited]), ("demo", demo)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return tmp_path


def test_a_small_demo_keeps_its_promises_and_its_sabotage_is_found(examples: Path, services_folder: Path) -> None:
    said: list[str] = []
    told: list[tuple[str, int, int]] = []
    result: DemoResult = run_demo(
        examples,
        services_folder / "demo",
        [],
        "double",
        False,
        SystemClock(),
        said.append,
        lambda window, done, promised: told.append((window, done, promised)),
    )
    autumn, plain = result.reports
    assert autumn.total.promised > 300
    assert autumn.total.duplicated == 1, autumn.faults
    assert autumn.faults == ["autumn: duplicated=1"]
    assert plain.faults == []
    assert plain.total.delivered == plain.total.promised > 300
    assert "duplicated=1 missing=0" in last_line(autumn)
    assert result.extra()["in_flight_at_kill"]["eu"] > 0  # type: ignore[index,call-overload]
    assert plain.lane_events["lost_answer"] + autumn.lane_events["lost_answer"] > 0
    assert told[-1][1:] == (told[-1][2], told[-1][2])
    assert "demo: killing deliver-eu-1, with requests in flight, and processor-1" in said
    assert [line for line in said if "processor-1 ended with status 137" in line], said
    left = [p.cmdline() for p in psutil.process_iter() if str(services_folder / "demo") in " ".join(_argv(p))]
    assert left == []


def test_a_folder_that_holds_something_is_left_alone(examples: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis").write_text("years of work", encoding="utf-8")
    with pytest.raises(InvalidInput, match="is not empty; name a new folder"):
        run_demo(examples, mine, [], None, True, SystemClock(), print, lambda *_: None)
    assert (mine / "thesis").read_text(encoding="utf-8") == "years of work"
    with pytest.raises(InvalidInput, match="thesis: can't be used: File exists"):
        run_demo(examples, mine / "thesis", [], None, True, SystemClock(), print, lambda *_: None)


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_a_window_that_is_not_there_is_refused_by_name(examples: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--window nowhere: there are autumn, plain"):
        run_demo(examples, tmp_path / "x", ["nowhere"], None, False, SystemClock(), print, lambda *_: None)
