"""Preview: the shared calendar cases, golden keys, and the reason of each non-fire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.document import DocumentContext, parse_document
from streams.domain.errors import InvalidInput
from streams.domain.keys import business_date_key, elapsed_key, label_key
from streams.domain.minutes import format_tick, parse_day, parse_label, parse_tick
from streams.domain.preview import Decision, Preview, preview
from streams.domain.schedule import Daily, Gap, Overlap, Policy, Promise, Schedule
from tests.calendar_support import make_schedule

CASES = json.loads((Path(__file__).parent.parent / "data" / "calendar.json").read_text("utf-8"))
CONTEXT = DocumentContext(frozenset(wheel_bundle().names))
NEW_YORK_GAP = ("2027-03-14T00:00Z", "2027-03-15T00:00Z")
NEW_YORK_OVERLAP = ("2026-11-01T00:00Z", "2026-11-02T00:00Z")


def schedule_of(document: dict[str, Any]) -> Schedule:
    schedule = parse_document(document, CONTEXT)
    assert isinstance(schedule, Schedule), schedule
    return schedule


def window(schedule: Schedule, first: str, last: str) -> list[Preview]:
    return preview([schedule], wheel_bundle(), parse_tick(first), parse_tick(last))


def decisions(schedule: Schedule, first: str, last: str) -> list[tuple[str | None, str, str]]:
    lines = window(schedule, first, last)
    return [(line.nominal, format_tick(line.concerned)[5:16], line.decision.value) for line in lines]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_shared_calendar_cases(case: dict[str, Any]) -> None:
    lines = [line.as_json() for line in window(schedule_of(case["schedule"]), case["from"], case["to"])]
    fires = [[line["nominal"], line["instant"]] for line in lines if line["decision"] == "fire"]
    skipped = [line["nominal"] for line in lines if line["decision"] == "gap_skipped"]
    assert fires == case["fires"]
    assert skipped == case["gap_skipped"]


def test_the_shared_cases_are_there() -> None:
    assert len(CASES) == 18


def test_golden_keys() -> None:
    assert (
        label_key("berlin-payroll", parse_label("2027-03-28T02:30"))
        == "14483d975e5165b982df64cd1064a19b258083334fc46d64da962a86cb358048"
    )
    both = make_schedule(
        Daily((90,)), schedule_id="ny-1", zone="America/New_York", policy=Policy(Gap.SKIP, Overlap.BOTH)
    )
    assert [line.key for line in window(both, *NEW_YORK_OVERLAP)] == [
        "6007cbfa7bd7f8cbdfc01542af8bd75e90d5df390f1af4e9deecb72ad7fe62c8",
        "392501169508e82d889212f7997eb147e6244a76977be6d6ec03da6394c45f04",
    ]
    assert (
        business_date_key("acct-17", parse_day("2027-03-14"))
        == "ea08070245e7a49bb6f59d931baf114922454ccb99884a027aa919e1897e927e"
    )
    assert (
        elapsed_key("pulse", parse_tick("2026-11-01T04:30Z"))
        == "1f46d45f658f9035e69a29552401b423be5fad2f95e43c841b89c72714d4250f"
    )


def test_the_json_of_a_fire_and_of_a_skipped_label() -> None:
    policy = {"gap": "skip", "overlap": "first"}
    schedule = make_schedule(Daily((150, 180)), schedule_id="ny-1", zone="America/New_York")
    skipped, fired = [line.as_json() for line in window(schedule, *NEW_YORK_GAP)]
    assert skipped == {
        "schedule_id": "ny-1",
        "key": label_key("ny-1", parse_label("2027-03-14T02:30")),
        "nominal": "2027-03-14T02:30",
        "zone": "America/New_York",
        "instant": None,
        "due": None,
        "decision": "gap_skipped",
        "policy": policy,
        "tz_version": "2026f",
    }
    assert fired["instant"] == fired["due"] == "2027-03-14T07:00:00Z"
    assert list(fired) == list(skipped)


def test_a_suppressed_copy_counts_at_its_own_instant_under_the_label_s_key() -> None:
    for overlap, first, second in (
        (Overlap.FIRST, "fire", "overlap_suppressed"),
        (Overlap.SECOND, "overlap_suppressed", "fire"),
        (Overlap.BOTH, "fire", "fire"),
    ):
        schedule = make_schedule(Daily((90,)), zone="America/New_York", policy=Policy(Gap.SKIP, overlap))
        assert decisions(schedule, *NEW_YORK_OVERLAP) == [
            ("2026-11-01T01:30", "11-01T05:30", first),
            ("2026-11-01T01:30", "11-01T06:30", second),
        ]
        keys = {line.key for line in window(schedule, *NEW_YORK_OVERLAP)}
        assert len(keys) == (2 if overlap is Overlap.BOTH else 1)
        assert label_key("s", parse_label("2026-11-01T01:30")) in keys


def test_a_gap_label_counts_at_tau_when_skipped_and_at_its_own_instant_when_shifted() -> None:
    skip = make_schedule(Daily((150,)), zone="America/New_York")
    shift = make_schedule(Daily((150,)), zone="America/New_York", policy=Policy(Gap.SHIFT, Overlap.FIRST))
    tau, after = ("2027-03-14T07:00Z", "2027-03-14T07:01Z"), ("2027-03-14T07:30Z", "2027-03-14T07:31Z")
    assert decisions(skip, *tau) == [("2027-03-14T02:30", "03-14T07:00", "gap_skipped")]
    assert decisions(skip, *after) == []
    assert decisions(shift, *tau) == []
    assert decisions(shift, *after) == [("2027-03-14T02:30", "03-14T07:30", "fire")]


def test_the_window_is_half_open() -> None:
    for zone, nine in (("UTC", "09"), ("Europe/Berlin", "08")):
        schedule = make_schedule(Daily((540,)), zone=zone)
        assert len(window(schedule, f"2027-01-01T{nine}:00Z", f"2027-01-02T{nine}:00Z")) == 1
        assert len(window(schedule, f"2027-01-01T{nine}:00Z", f"2027-01-02T{nine}:01Z")) == 2
        assert window(schedule, f"2027-01-01T{nine}:01Z", f"2027-01-02T{nine}:00Z") == []
        assert window(schedule, f"2027-01-01T{nine}:00Z", f"2027-01-01T{nine}:00Z") == []


def test_dates_outside_the_bounds_and_exceptions_are_explained() -> None:
    schedule = make_schedule(
        Daily((540,)),
        zone="UTC",
        starts_on=parse_day("2027-01-02"),
        ends_on=parse_day("2027-01-04"),
        except_dates=(parse_day("2027-01-03"), parse_day("2027-01-09")),
    )
    assert [decision for _, _, decision in decisions(schedule, "2027-01-01T00:00Z", "2027-01-06T00:00Z")] == [
        "before_effective",
        "fire",
        "excepted",
        "fire",
        "after_end",
    ]


def test_an_excepted_label_counts_where_it_would_have_fired() -> None:
    for gap, tick in ((Gap.SKIP, "07:00"), (Gap.NEXT_VALID, "07:00"), (Gap.SHIFT, "07:30")):
        schedule = make_schedule(
            Daily((150,)),
            zone="America/New_York",
            policy=Policy(gap, Overlap.FIRST),
            except_dates=(parse_day("2027-03-14"),),
        )
        assert decisions(schedule, *NEW_YORK_GAP) == [("2027-03-14T02:30", f"03-14T{tick}", "excepted")]
    schedule = make_schedule(Daily((90,)), zone="America/New_York", except_dates=(parse_day("2026-11-01"),))
    assert decisions(schedule, *NEW_YORK_OVERLAP) == [("2026-11-01T01:30", "11-01T05:30", "excepted")]


def test_a_paused_schedule_still_names_what_the_calendar_would_not_fire() -> None:
    schedule = make_schedule(Daily((90, 150)), zone="America/New_York", paused=True)
    assert [found[2] for found in decisions(schedule, *NEW_YORK_GAP)] == ["paused", "gap_skipped"]
    assert [found[2] for found in decisions(schedule, *NEW_YORK_OVERLAP)] == ["paused", "overlap_suppressed", "paused"]


def test_effective_from_between_two_copies() -> None:
    late = parse_tick("2026-11-01T06:00Z")
    for overlap, first in ((Overlap.FIRST, "before_effective"), (Overlap.SECOND, "overlap_suppressed")):
        policy = Policy(Gap.SKIP, overlap)
        schedule = make_schedule(Daily((90,)), zone="America/New_York", policy=policy, effective_from=late)
        assert [found[2] for found in decisions(schedule, *NEW_YORK_OVERLAP)] == [first, "fire"]
    both = make_schedule(
        Daily((90,)), zone="America/New_York", policy=Policy(Gap.SKIP, Overlap.BOTH), effective_from=late
    )
    early, fired = window(both, *NEW_YORK_OVERLAP)
    assert (early.decision, fired.decision) == (Decision.BEFORE_EFFECTIVE, Decision.FIRE)
    assert fired.key == label_key("s", parse_label("2026-11-01T01:30"))


def test_a_gap_before_effective_from_is_before_effective() -> None:
    late = parse_tick("2027-03-14T08:00Z")
    for gap in Gap:
        policy = Policy(gap, Overlap.FIRST)
        schedule = make_schedule(Daily((150,)), zone="America/New_York", policy=policy, effective_from=late)
        assert [found[2] for found in decisions(schedule, *NEW_YORK_GAP)] == ["before_effective"]


def test_ordered_by_the_instant_concerned_then_by_id() -> None:
    rows = preview(
        [
            make_schedule(Daily((540,)), schedule_id="b"),
            make_schedule(Daily((540,)), schedule_id="a"),
            make_schedule(Daily((150,)), schedule_id="z", zone="America/New_York"),
        ],
        wheel_bundle(),
        parse_tick("2027-03-14T00:00Z"),
        parse_tick("2027-03-14T12:00Z"),
    )
    assert [(row.schedule_id, row.decision.value) for row in rows] == [
        ("z", "gap_skipped"),
        ("a", "fire"),
        ("b", "fire"),
    ]


def test_what_it_cannot_evaluate_it_refuses() -> None:
    with pytest.raises(InvalidInput, match="promise business_date"):
        window(make_schedule(Daily((540,)), promise=Promise.BUSINESS_DATE), *NEW_YORK_GAP)
    with pytest.raises(InvalidInput, match="spread"):
        window(make_schedule(Daily((540,)), spread_s=60), *NEW_YORK_GAP)
