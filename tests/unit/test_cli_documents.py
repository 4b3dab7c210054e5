"""`townclock preview` and `schedules validate`: the shared calendar cases, golden keys, errors and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from streams.entrypoints.cli import documents, main
from streams.entrypoints.cli.documents import preview, validate

CASES = json.loads((Path(__file__).parent.parent / "data" / "calendar.json").read_text("utf-8"))
BERLIN = """\
id: berlin-payroll
region: eu
zone: Europe/Berlin
rule: {kind: weekly, weekdays: [sun], at: ["02:30"]}
deliver: {provider: log, to: x, payload: {}}
"""
BERLIN_GAP = ("--from", "2027-03-28T00:00Z", "--to", "2027-03-29T00:00Z")


def previewed(*arguments: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(preview, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def exits(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    captured = capsys.readouterr()
    return stopped.value.code, captured.out, captured.err


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_preview_agrees_with_the_shared_cases(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(case["schedule"]))
    lines = previewed(str(path), "--from", case["from"], "--to", case["to"])
    fires = [[line["nominal"], line["instant"]] for line in lines if line["decision"] == "fire"]
    assert fires == case["fires"]
    assert [line["nominal"] for line in lines if line["decision"] == "gap_skipped"] == case["gap_skipped"]


def test_the_shared_cases_are_all_there() -> None:
    assert len(CASES) == 18


def test_an_elapsed_rule_has_no_nominal_label(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "id: pulse\nregion: eu\nzone: America/New_York\ndeliver: {provider: log, to: x, payload: {}}\n"
        "rule: {kind: every, minutes: 90, anchor: 2026-11-01T00:00Z}\n"
    )
    window = ("--from", "2026-11-01T04:30Z", "--to", "2026-11-01T06:01Z")
    lines = previewed(str(path), *window)
    assert [(line["nominal"], line["instant"]) for line in lines] == [
        (None, "2026-11-01T04:30:00Z"),
        (None, "2026-11-01T06:00:00Z"),
    ]
    assert lines[0]["key"] == "1f46d45f658f9035e69a29552401b423be5fad2f95e43c841b89c72714d4250f"
    table = CliRunner().invoke(preview, [str(path), *window], catch_exceptions=False).stdout.splitlines()
    assert table[1].split()[:4] == ["2026-11-01T04:30:00Z", "-", "fire", "pulse"]


def test_preview_prints_the_object_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(BERLIN + "gap: next_valid\n")
    assert previewed(str(path), *BERLIN_GAP) == [
        {
            "schedule_id": "berlin-payroll",
            "key": "14483d975e5165b982df64cd1064a19b258083334fc46d64da962a86cb358048",
            "nominal": "2027-03-28T02:30",
            "zone": "Europe/Berlin",
            "instant": "2027-03-28T01:00:00Z",
            "due": "2027-03-28T01:00:00Z",
            "decision": "fire",
            "policy": {"gap": "next_valid", "overlap": "first"},
            "tz_version": "2026f",
        }
    ]
    path.write_text(BERLIN)
    skipped = previewed(str(path), *BERLIN_GAP)
    assert [(line["decision"], line["instant"], line["due"]) for line in skipped] == [("gap_skipped", None, None)]


def test_a_long_window_is_printed_in_order_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.json"
    every = [
        {**case["schedule"], "id": f"{case['name']}-{at}", "rule": {"kind": "daily", "at": [at]}}
        for case in CASES
        for at in ("00:00", "02:15", "23:59")
    ]
    path.write_text(json.dumps(every))
    window = ("--from", "2026-10-20T11:17Z", "--to", "2026-11-10T00:01Z")
    in_days = previewed(str(path), *window)
    monkeypatch.setattr(documents, "_SCHEDULE_DAYS_A_CHUNK", 10**9)
    assert in_days == previewed(str(path), *window)
    fires = [line["instant"] for line in in_days if line["decision"] == "fire"]
    assert len(fires) > 600
    assert fires == sorted(fires)


def test_preview_without_json_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(BERLIN)
    done = CliRunner().invoke(preview, [str(path), *BERLIN_GAP], catch_exceptions=False)
    header, *rows = done.stdout.splitlines()
    assert header.split() == ["INSTANT", "NOMINAL", "DECISION", "SCHEDULE", "ZONE", "KEY"]
    assert [row.split()[:5] for row in rows] == [
        ["-", "2027-03-28T02:30", "gap_skipped", "berlin-payroll", "Europe/Berlin"]
    ]
    assert rows[0].index("gap_skipped") == header.index("DECISION")


@pytest.mark.parametrize(
    ("first", "last", "wrong"),
    [
        ("2027-03-28", "2027-03-29T00:00Z", "--from"),
        ("2027-03-28T00:00Z", "2027-03-29T00:00+02:00", "--to"),
        ("2027-03-28T00:00:30Z", "2027-03-29T00:00Z", "--from"),
        ("2027-03-29T00:00Z", "2027-03-28T00:00Z", "--to is before --from"),
    ],
)
def test_a_window_that_is_none(
    first: str, last: str, wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(BERLIN)
    code, out, err = exits(capsys, "preview", str(path), "--from", first, "--to", last)
    assert (code, out) == (2, "")
    assert wrong in err


def test_an_empty_window_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(BERLIN)
    assert previewed(str(path), "--from", "2027-03-28T00:00Z", "--to", "2027-03-28T00:00Z") == []


def test_validate_says_how_many_or_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    settings = tmp_path / "townclock.toml"
    settings.write_text("")
    shared = {"config": str(settings)}
    path.write_text(BERLIN)
    assert CliRunner().invoke(validate, [str(path)], obj=dict(shared)).output == "1 schedule is valid\n"
    path.write_text("---\n".join((BERLIN, BERLIN.replace("berlin", "munich"))))
    assert CliRunner().invoke(validate, [str(path)], obj=dict(shared)).output == "2 schedules are valid\n"
    done = CliRunner().invoke(validate, [str(path), "--json"], obj=dict(shared))
    assert json.loads(done.output) == {"files": 1, "schedules": 2}


def test_validate_warns_of_a_once_that_is_past_and_accepts_it(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    settings = tmp_path / "townclock.toml"
    settings.write_text("")
    path.write_text(BERLIN.replace("{kind: weekly, weekdays: [sun], ", "{kind: once, date: 2020-02-29, "))
    done = CliRunner().invoke(validate, [str(path)], obj={"config": str(settings)})
    assert (done.exit_code, done.stdout) == (0, "1 schedule is valid\n")
    said = 'rule.date: is past, so nothing will run ("2020-02-29"); write a later date, or leave the schedule out'
    assert done.stderr == f"{path}:4: warning: {said}\n"
    done = CliRunner().invoke(validate, [str(path), "--json"], obj={"config": str(settings)})
    assert json.loads(done.stdout) == {"files": 1, "schedules": 1}
    [warning] = json.loads(done.stderr)
    assert (warning["warning"], warning["line"], warning["field"]) == (True, 4, "rule.date")


def test_validate_knows_the_regions_and_providers_of_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(BERLIN)
    settings = tmp_path / "townclock.toml"
    settings.write_text('[regions.us]\n[providers.acme-mail]\nadapter = "log"\n')
    done = CliRunner().invoke(validate, [str(path)], obj={"config": str(settings)})
    assert str(done.exception).split("\n") == [
        f'{path}:2: region: the settings have no such region ("eu"); allowed: us',
        f'{path}:5: deliver.provider: the settings have no such provider ("log"); allowed: acme-mail',
    ]


def test_a_process_of_its_own_reads_standard_input_and_needs_no_service(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streams", "preview", "-", *BERLIN_GAP, "--json"]
    environment = {"TOWNCLOCK_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1", "PATH": "/nowhere"}
    text = BERLIN + "gap: shift\n"
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=tmp_path, env=environment, check=True
    )
    assert done.stderr == ""
    assert [json.loads(line)["instant"] for line in done.stdout.splitlines()] == ["2027-03-28T01:30:00Z"]
    text = BERLIN.replace("Berlin", "Berlni")
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert json.loads(done.stderr) == [
        {
            "file": "<stdin>",
            "line": 3,
            "field": "zone",
            "value": "Europe/Berlni",
            "problem": "there is no such time zone",
            "fix": "did you mean Europe/Berlin?",
        }
    ]
