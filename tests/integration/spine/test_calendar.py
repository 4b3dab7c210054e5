"""What the wall clock promises, from a document to the provider: ordinary days, and the nights the clocks change."""

from __future__ import annotations

import json

import pytest

from tests.spine import Effect, Row, Spine, document

NEW_YORK, BERLIN, LONDON = "America/New_York", "Europe/Berlin", "Europe/London"


def previewed(spine: Spine, file: str, start: str, end: str) -> list[tuple[str, str, str]]:
    """(schedule, label, decision) as `townclock preview` explains a window."""
    lines = spine.run("preview", file, "--from", start, "--to", end, "--json").splitlines()
    found = [json.loads(line) for line in lines]
    return sorted((line["schedule_id"], line["nominal"], line["decision"]) for line in found)


def audited(spine: Spine, schedule_id: str, label: str) -> tuple[str, str | None]:
    """How `townclock audit` says that a label stands, and why it did not fire."""
    found = json.loads(spine.run("audit", "--schedule", schedule_id, "--label", label, "--json"))
    return found["state"], found.get("decision")


@pytest.mark.parametrize(
    ("zone", "label", "start", "first", "second"),
    [
        (LONDON, "2026-10-25T01:30", "2026-10-25T00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
        (NEW_YORK, "2026-11-01T01:30", "2026-11-01T05:00Z", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"),
    ],
)
def test_both_instants_of_autumn_0130(spine: Spine, zone: str, label: str, start: str, first: str, second: str) -> None:
    us = zone == NEW_YORK
    day, at = label.split("T")
    ids = {overlap: f"{zone}-{overlap}".replace("/", ".") for overlap in ("first", "second", "both")}
    if us:
        ids["both"] = "ny-1"  # of which the contracts give both keys
    documents = [document(ids[overlap], zone, [at], on=day, overlap=overlap) for overlap in ids]
    spine.go_to(start)
    spine.apply(*documents)
    spine.tick(120)
    spine.settled(*ids.values())
    wanted = {"first": [first], "second": [second], "both": [first, second]}
    for overlap, instants in wanted.items():
        assert spine.effects(ids[overlap]) == [Effect(ids[overlap], label, instant) for instant in instants]
        assert spine.rows(ids[overlap]) == [Row(label, "done", 1, 1)] * len(instants)
    if us:
        assert {body["instant"]: body["key"] for body in spine.bodies("ny-1")} == {
            first: "6007cbfa7bd7f8cbdfc01542af8bd75e90d5df390f1af4e9deecb72ad7fe62c8",
            second: "392501169508e82d889212f7997eb147e6244a76977be6d6ec03da6394c45f04",
        }
    explained = previewed(spine, spine.file(*documents), start, second)
    assert [line[2] for line in explained if line[0] == ids["second"]] == ["overlap_suppressed"]


def test_ordinary_daily(spine: Spine) -> None:
    documents = [
        document("ordinary-eu", BERLIN, ["09:00"], on="2026-11-03", until="2026-11-04"),
        document("ordinary-us", NEW_YORK, ["09:00"], on="2026-11-03", until="2026-11-04"),
    ]
    spine.go_to("2026-11-03T07:00Z")
    spine.apply(*documents)
    spine.tick(32 * 60)
    spine.settled("ordinary-eu", "ordinary-us")
    assert spine.effects("ordinary-eu", "ordinary-us") == [
        Effect("ordinary-eu", "2026-11-03T09:00", "2026-11-03T08:00:00Z"),
        Effect("ordinary-eu", "2026-11-04T09:00", "2026-11-04T08:00:00Z"),
        Effect("ordinary-us", "2026-11-03T09:00", "2026-11-03T14:00:00Z"),
        Effect("ordinary-us", "2026-11-04T09:00", "2026-11-04T14:00:00Z"),
    ]
    for schedule_id in ("ordinary-eu", "ordinary-us"):
        assert [(row.state, row.attempts) for row in spine.rows(schedule_id)] == [("done", 1)] * 2
    body = spine.bodies("ordinary-us")[0]
    assert (body["zone"], body["to"], body["payload"]) == (NEW_YORK, "ordinary-us@example.org", {"text": "first"})


def test_weekly_on_another_weekday_is_never_sent_and_explained(spine: Spine) -> None:
    """A Thursday there, seen from 07:00 UTC on. In UTC each of these runs would be on the other day."""

    def weekly(schedule_id: str, zone: str, weekday: str, at: str, until: str) -> dict[str, object]:
        rule = {"kind": "weekly", "weekdays": [weekday], "at": [at]}
        found: dict[str, object] = document(schedule_id, zone, [], on="2026-11-05", until=until, rule=rule)
        return found

    documents = [
        weekly("weekly-eu-thu", BERLIN, "thu", "00:30", "2026-11-06"),
        weekly("weekly-eu-fri", BERLIN, "fri", "00:30", "2026-11-06"),
        weekly("weekly-us-thu", NEW_YORK, "thu", "20:30", "2026-11-05"),
        weekly("weekly-us-fri", NEW_YORK, "fri", "20:30", "2026-11-05"),
    ]
    ids = [str(one["id"]) for one in documents]
    spine.go_to("2026-11-05T07:00Z")
    spine.apply(*documents)
    spine.tick(24 * 60)
    spine.settled(*ids)
    assert spine.effects(*ids) == [
        Effect("weekly-eu-fri", "2026-11-06T00:30", "2026-11-05T23:30:00Z"),
        Effect("weekly-us-thu", "2026-11-05T20:30", "2026-11-06T01:30:00Z"),
    ]
    assert spine.rows("weekly-eu-thu") == spine.rows("weekly-us-fri") == []
    explained = previewed(spine, spine.file(*documents), "2026-11-05T07:00Z", "2026-11-08T00:00Z")
    assert explained == [
        ("weekly-eu-fri", "2026-11-06T00:30", "fire"),
        ("weekly-us-fri", "2026-11-06T20:30", "after_end"),
        ("weekly-us-thu", "2026-11-05T20:30", "fire"),
    ]
    assert audited(spine, "weekly-eu-thu", "2026-11-06T00:30") == ("never_due", None)
    assert audited(spine, "weekly-us-fri", "2026-11-05T20:30") == ("never_due", None)


@pytest.mark.parametrize(
    ("zone", "label", "start", "jump", "shifted"),
    [
        (NEW_YORK, "2027-03-14T02:30", "2027-03-14T06:50Z", "2027-03-14T07:00:00Z", "2027-03-14T07:30:00Z"),
        (BERLIN, "2027-03-28T02:30", "2027-03-28T00:50Z", "2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z"),
    ],
)
def test_spring_gap_at_0230(spine: Spine, zone: str, label: str, start: str, jump: str, shifted: str) -> None:
    day, at = label.split("T")
    region = "us" if zone == NEW_YORK else "eu"
    ids = {gap: f"gap-{region}-{gap}" for gap in ("skip", "next_valid", "shift")}
    if zone == BERLIN:
        ids["next_valid"] = "berlin-payroll"  # of which the contracts give the key
    documents = [document(ids[gap], zone, [at], on=day, gap=gap) for gap in ids]
    spine.go_to(start)
    spine.apply(*documents)
    spine.tick(60)
    spine.settled(*ids.values())
    for gap, instants in {"skip": [], "next_valid": [jump], "shift": [shifted]}.items():
        assert spine.effects(ids[gap]) == [Effect(ids[gap], label, instant) for instant in instants]
        assert spine.rows(ids[gap]) == [Row(label, "done", 1, 1)] * len(instants)
    if zone == BERLIN:
        (body,) = spine.bodies("berlin-payroll")
        assert body["key"] == "14483d975e5165b982df64cd1064a19b258083334fc46d64da962a86cb358048"
    explained = previewed(spine, spine.file(*documents), start, shifted.replace(":30:", ":31:"))
    assert explained == sorted((ids[gap], label, "gap_skipped" if gap == "skip" else "fire") for gap in ids)
    assert audited(spine, ids["skip"], label) == ("not_fired", "gap_skipped")
    assert audited(spine, ids["shift"], label) == ("done", None)
