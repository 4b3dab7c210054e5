"""`townclock up` as a person meets it: a schedule is delivered, a dead child comes back, a second start refused,
Ctrl-C ends it all, and the next start has the data, and the secret of a provider that was added."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
import yaml

from streams.entrypoints.command import run_townclock
from tests.services import unique_name, wait_for

MAIL = """
[providers.mail]
adapter = "http"
url = "https://mail.example/send"
secret_env = "TEA_TOKEN"
"""


class Up:
    """One `townclock up`, and the commands of another terminal."""

    def __init__(self, folder: Path, output: Path) -> None:
        self.folder = folder
        self.output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streams", "up", "--data", str(folder), "--partitions", "2"],
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder.parent,
            )

    def said(self) -> str:
        return self.output.read_text(encoding="utf-8")

    def wait_until_up(self) -> None:
        wait_for(lambda: "6/6 processes" in self.said() or self.process.poll() is not None, 180, self.said)
        assert self.process.poll() is None, self.said()

    def command(self, *arguments: str) -> str:
        return run_townclock(
            *arguments, environment={"TOWNCLOCK_CONFIG": str(self.folder / "townclock.toml")}, folder=self.folder
        )

    def stop(self) -> float:
        """Ctrl-C; how many seconds it took."""
        asked = datetime.now(UTC)
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        return (datetime.now(UTC) - asked).total_seconds()


@pytest.fixture
def folder(services_folder: Path) -> Iterator[Path]:
    path = services_folder / unique_name("up")
    yield path
    left = [p.pid for p in psutil.process_iter() if str(path) in " ".join(_argv(p))]
    assert left == []


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _pid(child: str, folder: Path) -> int | None:
    """The pid of a child by its command and its settings file."""
    for process in psutil.process_iter():
        argv = _argv(process)
        try:
            if argv[1:4] == ["-m", "streams", child] and str(folder) in process.environ().get("TOWNCLOCK_CONFIG", ""):
                return process.pid
        except psutil.Error:
            continue
    return None


def deliveries(folder: Path) -> list[dict[str, str]]:
    path = folder / "deliveries.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def test_a_first_schedule_is_delivered_and_everything_stops_and_starts_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = Up(folder, tmp_path / "first.out")
    try:
        up.wait_until_up()
        due = datetime.now(UTC) + timedelta(minutes=1, seconds=10)
        tea = {
            "id": "tea",
            "region": "eu",
            "zone": "Etc/UTC",
            "rule": {"kind": "daily", "at": [f"{due:%H:%M}"]},
            "deliver": {"provider": "log", "to": "kitchen", "payload": {"text": "Tea is ready"}},
        }
        (tmp_path / "tea.yaml").write_text(yaml.safe_dump(tea), encoding="utf-8")
        assert "tea: accepted, revision 1" in up.command("schedules", "apply", "--wait", str(tmp_path / "tea.yaml"))

        second = subprocess.run(
            [sys.executable, "-m", "streams", "up", "--data", str(folder)], capture_output=True, text=True, check=False
        )
        assert second.returncode == 1
        assert re.search(r"is in use: process \d+ runs townclock's broker and database on it", second.stderr)
        assert "Traceback" not in second.stderr

        ticker = _pid("ticker", folder)
        assert ticker is not None
        os.kill(ticker, signal.SIGKILL)
        wait_for(lambda: "ticker ended with status 137; again in 0.5 s" in up.said(), 60, up.said)
        wait_for(lambda: _pid("ticker", folder) not in (None, ticker), 60, up.said)

        wait_for(lambda: deliveries(folder), 150, up.said)
        [delivery] = deliveries(folder)
        found = json.loads(up.command("audit", delivery["key"], "--json"))
        assert (found["schedule_id"], found["nominal"]) == ("tea", f"{due:%Y-%m-%dT%H:%M}")
        wait_for(lambda: json.loads(up.command("audit", delivery["key"], "--json"))["state"] == "done", 60, up.said)
        assert up.stop() < 10, up.said()
        assert up.process.returncode == 0, up.said()

        with (folder / "townclock.toml").open("a", encoding="utf-8") as settings:
            settings.write(MAIL)
        up = Up(folder, tmp_path / "refused.out")
        assert up.process.wait(60) == 2, up.said()
        assert "providers.mail.secret_env: the environment has no TEA_TOKEN" in up.said()
        assert "Traceback" not in up.said()

        monkeypatch.setenv("TEA_TOKEN", "t0ken")
        up = Up(folder, tmp_path / "again.out")
        up.wait_until_up()
        log = folder / "logs" / "deliver-eu-1.log"
        wait_for(lambda: '"providers": ["log", "mail"]' in log.read_text(encoding="utf-8"), 60, up.said)
        assert "tea" in up.command("schedules", "list")
        assert json.loads(up.command("audit", delivery["key"], "--json"))["state"] == "done"
        assert up.stop() < 10, up.said()
        assert len(deliveries(folder)) == 1
        assert "Traceback" not in up.said()
    finally:
        if up.process.poll() is None:
            up.process.kill()
            up.process.wait(30)
