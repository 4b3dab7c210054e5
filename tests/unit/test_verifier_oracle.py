"""The verifier's oracle against instants worked out by hand, the shared calendar cases, and the engine's preview."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.document import DocumentContext, parse_document
from streams.domain.placement import partition_of as engine_partition_of
from streams.domain.preview import Decision, preview
from streams.domain.schedule import Schedule
from streams.verifier.documents import (
    History,
    Revision,
    VerifierError,
    load_demo,
    load_histories,
    load_schedules,
    revision_of,
)
from streams.verifier.minutes import instant_text, label_text, tick_of
from streams.verifier.oracle import Promises, key_of, promises
from streams.verifier.placement import partition_of

DEMO = Path(__file__).parents[2] / "examples" / "demo"
CASES = [
    case
    for case in json.loads((Path(__file__).parents[1] / "data" / "calendar.json").read_text())
    if case["schedule"]["rule"]["kind"] in ("daily", "weekly")
]


def revision(zone: str, *at: str, **fields: Any) -> Revision:
    deliver = {"provider": "eu-mail", "to": "a@b.example", "payload": {}}
    rule = fields.pop("rule", {"kind": "daily", "at": list(at)})
    return revision_of({"id": "s", "region": "eu", "zone": zone, "rule": rule, "deliver": deliver} | fields)


def run(start: str, end: str, *revisions: Revision) -> Promises:
    return promises([History("s", revisions)], tick_of(start), tick_of(end))


def fires(result: Promises) -> list[tuple[str, str]]:
    found = sorted(result.by_key.values(), key=lambda p: (p.tick, p.label))
    return [(label_text(p.label), instant_text(p.tick)) for p in found]


def reasons(result: Promises) -> list[tuple[str, str, str]]:
    return [(label_text(n.label), instant_text(n.tick), n.reason) for n in result.not_fired]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_calendar_case(case: dict[str, Any]) -> None:
    found = run(case["from"], case["to"], revision_of(case["schedule"]))
    assert fires(found) == [tuple(pair) for pair in case["fires"]]
    assert [label for label, _, reason in reasons(found) if reason == "gap_skipped"] == case["gap_skipped"]


@pytest.mark.parametrize(
    ("gap", "instants", "not_fired"),
    [
        ("skip", [], [("2027-03-14T02:30", "2027-03-14T07:00:00Z", "gap_skipped")]),
        ("next_valid", [("2027-03-14T02:30", "2027-03-14T07:00:00Z")], []),
        ("shift", [("2027-03-14T02:30", "2027-03-14T07:30:00Z")], []),
    ],
)
def test_new_york_spring(gap: str, instants: list[tuple[str, str]], not_fired: list[tuple[str, str, str]]) -> None:
    found = run("2027-03-14T00:00Z", "2027-03-15T00:00Z", revision("America/New_York", "02:30", gap=gap))
    assert fires(found) == instants
    assert reasons(found) == not_fired


@pytest.mark.parametrize(
    ("overlap", "instants", "suppressed"),
    [
        ("first", ["2026-11-01T05:30:00Z"], ["2026-11-01T06:30:00Z"]),
        ("second", ["2026-11-01T06:30:00Z"], ["2026-11-01T05:30:00Z"]),
        ("both", ["2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"], []),
    ],
)
def test_new_york_autumn(overlap: str, instants: list[str], suppressed: list[str]) -> None:
    found = run("2026-11-01T00:00Z", "2026-11-02T00:00Z", revision("America/New_York", "01:30", overlap=overlap))
    assert [instant for _, instant in fires(found)] == instants
    assert reasons(found) == [("2026-11-01T01:30", tick, "overlap_suppressed") for tick in suppressed]
    assert {p.key for p in found.by_key.values()} == {key_of("s", p.label, p.copy) for p in found.by_key.values()}
    assert len(found.by_key) == len(instants)


def test_golden_keys() -> None:
    label = tick_of("2026-11-01T01:30Z")  # a label is the same number as the tick that reads the same
    assert key_of("ny-1", label) == "6007cbfa7bd7f8cbdfc01542af8bd75e90d5df390f1af4e9deecb72ad7fe62c8"
    assert key_of("ny-1", label, 1) == "392501169508e82d889212f7997eb147e6244a76977be6d6ec03da6394c45f04"


def test_berlin_both_hours_and_their_window_edge() -> None:
    """Copies are counted over the whole time line: a window that begins between them still knows the first."""
    berlin = revision("Europe/Berlin", "02:30", overlap="first")
    assert fires(run("2026-10-25T00:00Z", "2026-10-25T12:00Z", berlin)) == [
        ("2026-10-25T02:30", "2026-10-25T00:30:00Z")
    ]
    late = run("2026-10-25T01:00Z", "2026-10-25T12:00Z", berlin)
    assert fires(late) == []
    assert reasons(late) == [("2026-10-25T02:30", "2026-10-25T01:30:00Z", "overlap_suppressed")]


def test_lord_howe_jumps_by_half_an_hour() -> None:
    """2026-10-04, 02:00 to 02:30 at 15:30Z the day before; back on 2026-04-05 at 15:00Z."""
    window = ("2026-10-03T12:00Z", "2026-10-04T12:00Z")
    assert fires(run(*window, revision("Australia/Lord_Howe", "02:15", gap="next_valid"))) == [
        ("2026-10-04T02:15", "2026-10-03T15:30:00Z")
    ]
    assert fires(run(*window, revision("Australia/Lord_Howe", "02:15", gap="shift"))) == [
        ("2026-10-04T02:15", "2026-10-03T15:45:00Z")
    ]
    assert fires(run(*window, revision("Australia/Lord_Howe", "02:45"))) == [
        ("2026-10-04T02:45", "2026-10-03T15:45:00Z")
    ]
    both = run("2026-04-04T12:00Z", "2026-04-05T00:00Z", revision("Australia/Lord_Howe", "01:45", overlap="both"))
    assert [instant for _, instant in fires(both)] == ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z"]


def test_cairo_midnight_belongs_to_the_date_it_names() -> None:
    """2026-04-24 has no 00:00. A weekly rule for its weekday, a Friday, is the one that is concerned."""
    friday = revision("Africa/Cairo", rule={"kind": "weekly", "weekdays": ["fri"], "at": ["00:00"]}, gap="next_valid")
    found = run("2026-04-23T12:00Z", "2026-04-24T12:00Z", friday)
    assert fires(found) == [("2026-04-24T00:00", "2026-04-23T22:00:00Z")]
    thursday = revision("Africa/Cairo", rule={"kind": "weekly", "weekdays": ["thu"], "at": ["00:00"]}, gap="next_valid")
    assert fires(run("2026-04-23T12:00Z", "2026-04-24T12:00Z", thursday)) == []


def test_every_hour_defaults_to_both() -> None:
    hourly = revision("America/New_York", *(f"{hour:02d}:00" for hour in range(24)))
    assert len(run("2026-11-01T04:00Z", "2026-11-02T05:00Z", hourly).by_key) == 25


def test_dates_that_are_left_out() -> None:
    bounded = revision(
        "Asia/Kathmandu", "09:00", starts_on=date(2027, 1, 2), ends_on="2027-01-04", except_dates=[date(2027, 1, 3)]
    )
    found = run("2027-01-01T00:00Z", "2027-01-06T00:00Z", bounded)
    assert [label for label, _ in fires(found)] == ["2027-01-02T09:00", "2027-01-04T09:00"]
    assert [reason for _, _, reason in reasons(found)] == ["before_effective", "excepted", "after_end"]
    assert run("2027-01-01T00:00Z", "2027-01-06T00:00Z", replace(bounded, paused=True)).reasons() == {
        "after_end": 1,
        "before_effective": 1,
        "excepted": 1,
        "paused": 2,
    }


def edited(before: Revision, after: Revision, at: str) -> tuple[Revision, Revision]:
    return replace(before, until=tick_of(at)), replace(after, since=tick_of(at))


@pytest.mark.parametrize("overlap", ["first", "second", "both"])
def test_a_revision_after_the_first_copy_takes_the_second_for_the_only_one(overlap: str) -> None:
    """And it is the same promise where the first copy fired already."""
    old, new = edited(
        revision("America/New_York", "01:30", overlap="second"),
        revision("America/New_York", "01:30", overlap=overlap),
        "2026-11-01T05:36Z",
    )
    window = ("2026-11-01T00:00Z", "2026-11-02T00:00Z")
    found = run(*window, old, new)
    assert fires(found) == [("2026-11-01T01:30", "2026-11-01T06:30:00Z")]
    assert list(found.by_key) == [key_of("s", tick_of("2026-11-01T01:30Z"))]

    found = run(*window, replace(old, overlap="first"), new)
    assert fires(found) == [("2026-11-01T01:30", "2026-11-01T05:30:00Z")]
    assert [instant_text(again.tick) for again in found.repeated] == ["2026-11-01T06:30:00Z"]


def test_a_move_west_brings_the_label_again_as_the_same_promise() -> None:
    """09:00 fired in Berlin, then the schedule moves to New York, where that date's 09:00 is still to come."""
    old, new = edited(revision("Europe/Berlin", "09:00"), revision("America/New_York", "09:00"), "2027-02-01T10:00Z")
    found = run("2027-02-01T00:00Z", "2027-02-02T23:00Z", old, new)
    assert fires(found) == [
        ("2027-02-01T09:00", "2027-02-01T08:00:00Z"),
        ("2027-02-02T09:00", "2027-02-02T14:00:00Z"),
    ]
    assert [again.revision.zone for again in found.repeated] == ["America/New_York"]
    moved_east = run(
        "2027-02-01T00:00Z",
        "2027-02-02T23:00Z",
        *edited(revision("America/New_York", "09:00"), revision("Europe/Berlin", "09:00"), "2027-02-01T10:00Z"),
    )
    assert [label for label, _ in fires(moved_east)] == ["2027-02-02T09:00"]


def test_an_edit_between_the_jump_and_the_shifted_minute() -> None:
    """Each minute is decided under its own revision, so the label may be promised once, never twice, or not at all."""
    window = ("2027-03-14T00:00Z", "2027-03-14T12:00Z")
    shift, valid = (revision("America/New_York", "02:30", gap=gap) for gap in ("shift", "next_valid"))
    twice = run(*window, *edited(valid, shift, "2027-03-14T07:11Z"))
    assert fires(twice) == [("2027-03-14T02:30", "2027-03-14T07:00:00Z")]
    assert len(twice.repeated) == 1
    assert fires(run(*window, *edited(shift, valid, "2027-03-14T07:11Z"))) == []


def test_an_unknown_zone_is_said() -> None:
    with pytest.raises(VerifierError, match="Mars/Olympus"):
        run("2027-03-14T00:00Z", "2027-03-15T00:00Z", revision("Mars/Olympus", "02:30"))


def test_partitions_are_kafkas() -> None:
    keys = ["", "a", "ab", "abc", "abcd", "berlin-payroll", *(f"acme.payday.cairo.{n:04d}" for n in range(500))]
    assert [partition_of(key, 24) for key in keys] == [engine_partition_of(key.encode(), 24) for key in keys]


@pytest.fixture(scope="module")
def engine_schedules() -> list[Schedule]:
    """The demo's schedules as the product reads them: every one is valid."""
    found = []
    for document in yaml.load((DEMO / "schedules.yaml").read_text(), yaml.CSafeLoader):
        plain = json.loads(json.dumps(document, default=date.isoformat))
        schedule = parse_document(plain, DocumentContext(frozenset(wheel_bundle().names)))
        assert isinstance(schedule, Schedule), schedule
        found.append(schedule)
    return found


@pytest.mark.parametrize("window", load_demo(DEMO).windows, ids=lambda window: window.name)
def test_oracle_and_preview_agree_on_the_demo(window: Any, engine_schedules: list[Schedule]) -> None:
    """Two ways to the same promises, before any edit: minutes looked up one by one, and the engine's inverse."""
    lines = preview(engine_schedules, wheel_bundle(), window.start, window.end)
    histories = [History(r.schedule_id, (r,)) for r in load_schedules(DEMO / "schedules.yaml")]
    found = promises(histories, window.start, window.end)
    assert {(key, p.tick, p.revision.schedule_id) for key, p in found.by_key.items()} == {
        (line.key, line.instant, line.schedule_id) for line in lines if line.decision is Decision.FIRE
    }
    counts: dict[str, int] = {}
    for line in lines:
        if line.decision is not Decision.FIRE:
            counts[line.decision.value] = counts.get(line.decision.value, 0) + 1
    assert found.reasons() == dict(sorted(counts.items()))
    assert not found.repeated


def test_histories_hold_edits_and_deletes() -> None:
    demo = load_demo(DEMO)
    window = demo.windows[0]
    histories = {history.schedule_id: history for history in load_histories(DEMO, demo, window)}
    deleted = histories[window.deletes[0]]
    assert [r.until for r in deleted.revisions] == [window.halt_at + 1]
    assert deleted.ended_at == window.halt_at
    for edit in load_schedules(DEMO / window.edits):
        before, after = histories[edit.schedule_id].revisions
        assert before.until == after.since == window.halt_at + 1
        assert (histories[edit.schedule_id].ended_at is not None) == after.paused
