"""The sandbox as a process: its first line, its log, its memory over a kill, its control, its errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

MODULE = [sys.executable, "-m", "streams.adapters.http.sandbox"]
COMMAND = [sys.executable, "-c", "from streams.entrypoints.cli import main; main()", "sandbox"]


@contextmanager
def sandbox(log: Path, *lanes: str, launch: list[str] = MODULE) -> Iterator[tuple[subprocess.Popen[str], str]]:
    arguments = [*launch, "--port", "0", "--log", str(log), *(f"--lane={lane}" for lane in lanes)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"
        finally:
            process.kill()


def call(url: str, body: object = None, key: str | None = None) -> tuple[int, dict[str, Any], dict[str, str]]:
    headers = {"Idempotency-Key": key} if key else {}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=10) as answer:
            return answer.status, json.loads(answer.read()), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read()), dict(error.headers)


@pytest.mark.parametrize("launch", [MODULE, COMMAND], ids=["module", "command"])
def test_delivers_logs_and_stops_cleanly(tmp_path: Path, launch: list[str]) -> None:
    log = tmp_path / "sandbox.log"
    with sandbox(log, "eu-mail:rate=300,burst=60", launch=launch) as (process, url):
        status, answer, _ = call(f"{url}/lanes/eu-mail", {"n": 1}, "k")
        assert (status, answer) == (200, {"id": "eu-mail-1"})
        assert call(f"{url}/lanes/nobody", {})[0] == 404
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(li["event"], li["lane"], li["idempotency_key"]) for li in lines] == [
        ("accepted", "eu-mail", "k"),
        ("answered", "eu-mail", "k"),
    ]
    assert lines[0]["body"] == {"n": 1}
    assert set(lines[1]) == {"at", "lane", "event", "idempotency_key"}


def test_remembers_its_keys_over_a_kill_and_a_torn_line(tmp_path: Path) -> None:
    log = tmp_path / "sandbox.log"
    with sandbox(log, "mail") as (process, url):
        assert call(f"{url}/lanes/mail", {"n": 1}, "k")[0] == 200
        process.kill()
        process.wait(10)
    with log.open("ab") as file:
        file.write(b'{"at":1,"lane":"mail","ev')
    with sandbox(log, "mail") as (_, url):
        status, _, headers = call(f"{url}/lanes/mail", {"n": 1}, "k")
        assert (status, headers["Idempotent-Replayed"]) == (200, "true")
        assert call(f"{url}/lanes/mail", {"n": 2}, "k2")[0] == 200
    events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert events.count("accepted") == 2


def test_control_changes_a_lane_and_stats_count(tmp_path: Path) -> None:
    with sandbox(tmp_path / "sandbox.log", "mail:rate=1000,burst=100") as (_, url):
        control, lane = f"{url}/control/lanes/mail", f"{url}/lanes/mail"
        assert call(control, {"sabotage": "drop"})[0] == 200
        assert call(lane, {}, "dropped")[0] == 200
        assert call(control, {"sabotage": "double"})[0] == 200
        assert call(lane, {}, "doubled")[0] == 200
        assert call(control, {"dip": {"rate_per_s": 0.1, "for_s": 60}})[0] == 200
        assert call(lane, {}, "last")[0] == 200
        status, _, headers = call(lane, {}, "refused")
        assert (status, headers["Retry-After"]) == (429, "10")
        for wrong in ({"rat": 1}, {"hold": 1.5}, {"dip": {}}, {"sabotage": "x"}, {"burst": 0}, {"rate_per_s": "1"}, []):
            assert call(control, wrong)[0] == 400
        stats = call(f"{url}/control/stats")[1]["mail"]
    assert stats == {
        "accepted": 3, "replayed": 0, "mismatched": 0, "rate_limited": 1, "in_progress": 0, "lost_answers": 0,
        "over_quota": 0, "duplicates": 1, "held": 0, "distinct_keys": 2,
    }  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "sandbox.log").read_text().splitlines()]
    assert [line["idempotency_key"] for line in lines if line["event"] == "accepted"] == ["doubled", "doubled", "last"]


@pytest.mark.parametrize("launch", [MODULE, COMMAND], ids=["module", "command"])
def test_errors_are_one_clear_line(tmp_path: Path, launch: list[str]) -> None:
    def fails(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([*launch, *arguments], check=False, capture_output=True, text=True, timeout=30)
        return done.returncode, done.stderr

    with sandbox(tmp_path / "first.log") as (_, url):
        port = url.rpartition(":")[2]
        code, said = fails("--port", port)
        assert code == 3
        assert said.startswith(f"the sandbox can't listen on 127.0.0.1:{port}: ")
    code, said = fails("--lane", "mail:rat=3")
    assert (code, said.count("\n")) == (2, 1)
    assert "rat: no such setting" in said
    code, said = fails("--log", str(tmp_path / "no" / "such"))
    assert (code, said.count("\n")) == (2, 1)
    (tmp_path / "other.log").write_text("something else\n")
    code, said = fails("--log", str(tmp_path / "other.log"))
    assert (code, said.count("\n")) == (2, 1)
    assert "not a log of a sandbox" in said
