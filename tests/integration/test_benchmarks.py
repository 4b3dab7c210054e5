"""The pipeline benchmark as a person runs it: small, two of its parts, on services of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.pipeline import KEYS
from benchmarks.sizes import QUICK

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "pipeline", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_two_parts_are_measured_and_nothing_is_left(tmp_path: Path) -> None:
    done = run(tmp_path, "--quick", "--json", "--part", "evaluate")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress where no person looks
    found = json.loads(done.stdout)
    measured = {key for key in KEYS if found[key] is not None}
    assert measured == {"register_per_s", "evaluate_per_s", "evaluate_busy_minute_per_s"}
    assert all(found[key] > 0 for key in measured)
    assert measured == found["measured_over"].keys()
    assert {over["count"] for over in found["measured_over"].values()} == {QUICK.schedules}
    assert found["sizes"]["schedules"] == QUICK.schedules
    assert found["machine"].keys() >= {"cpu", "cores", "memory_gib", "python", "kafka", "postgres", "load_1m_at_start"}
    assert list(tmp_path.iterdir()) == []


def test_a_part_that_there_is_not_is_a_usage_error(tmp_path: Path) -> None:
    done = run(tmp_path, "--part", "warp")
    assert done.returncode == 2
    assert "'warp' is not one of 'register', 'evaluate', 'intake', 'deliver', 'edge'" in done.stderr
    assert done.stdout == ""
