"""Why a label has no row in the ledger, by the revision in force at the tick it concerns."""

from __future__ import annotations

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.minutes import parse_day, parse_label, parse_tick
from streams.domain.plan import Revision, RevisionState
from streams.domain.schedule import Cron, Daily, Every, Gap, Overlap, Policy, Weekly
from streams.pipeline.audit import KnownRevision, NotInLedger, explain_label
from tests.schedules import schedule

AT_0230 = Daily((150,))


def known(
    number: int = 1, counts_from: str = "2026-01-01T00:00Z", state: str = "active", **fields: object
) -> KnownRevision:
    made = schedule(**fields)
    return KnownRevision(1, Revision(number, RevisionState(state), None, made), parse_tick(counts_from))


def why(*revisions: KnownRevision, label: str) -> tuple[str, str | None, int]:
    told = explain_label(revisions, parse_label(label), wheel_bundle())
    assert told.nominal == label
    return told.state, told.decision, told.revision


@pytest.mark.parametrize(
    ("label", "fields", "state", "decision"),
    [
        ("2027-03-28T02:30", {"rule": AT_0230}, "not_fired", "gap_skipped"),
        ("2027-03-28T02:30", {"rule": AT_0230, "policy": Policy(Gap.SHIFT, Overlap.FIRST)}, "not_recorded", None),
        ("2027-03-27T02:30", {"rule": AT_0230}, "not_recorded", None),
        ("2027-03-27T02:31", {"rule": AT_0230}, "never_due", None),
        ("2027-03-27T02:30", {"rule": Weekly((0,), (150,))}, "never_due", None),
        ("2027-03-27T02:30", {"rule": AT_0230, "except_dates": (parse_day("2027-03-27"),)}, "not_fired", "excepted"),
        ("2027-03-27T02:30", {"rule": AT_0230, "starts_on": parse_day("2027-03-28")}, "not_fired", "before_effective"),
        ("2027-03-27T02:30", {"rule": AT_0230, "ends_on": parse_day("2027-03-26")}, "not_fired", "after_end"),
        ("2027-03-27T02:30", {"rule": AT_0230, "paused": True}, "not_fired", "paused"),
        ("2025-12-31T02:30", {"rule": AT_0230}, "not_fired", "before_effective"),
        ("2027-03-27T02:30", {"rule": Cron("30 2 * * fri")}, "never_due", None),
        ("2027-03-26T02:30", {"rule": Cron("30 2 * * fri")}, "not_recorded", None),
        (
            "2027-03-29T02:30",
            {"rule": AT_0230, "starts_on": parse_day("2027-03-27"), "count": 2},
            "not_fired",
            "after_end",
        ),
        ("2027-03-27T02:30", {"rule": Every(1, 0)}, "never_due", None),
    ],
)
def test_one_revision(label: str, fields: dict[str, object], state: str, decision: str | None) -> None:
    assert why(known(**fields), label=label) == (state, decision, 1)


def test_a_label_after_the_delete() -> None:
    deleted = known(2, "2026-06-01T00:00Z", "deleted", rule=AT_0230)
    assert why(known(rule=AT_0230), deleted, label="2026-07-01T02:30") == ("not_fired", "after_end", 2)
    assert why(known(rule=AT_0230), deleted, label="2026-05-01T02:30") == ("not_recorded", None, 1)


def test_a_label_of_a_rule_that_was_changed() -> None:
    later = known(2, "2026-06-01T00:00Z", rule=Daily((600,)))
    assert why(known(rule=AT_0230), later, label="2026-07-01T02:30") == ("never_due", None, 2)
    assert why(known(rule=AT_0230), later, label="2026-07-01T10:00") == ("not_recorded", None, 2)
    assert why(known(rule=AT_0230), later, label="2026-05-01T10:00") == ("never_due", None, 1)


def test_the_letter() -> None:
    told = NotInLedger("acct-17", "2027-03-14T02:30", "not_fired", "gap_skipped", 3, "America/New_York", "2026f")
    assert list(told.as_json().items()) == [
        ("schedule_id", "acct-17"),
        ("nominal", "2027-03-14T02:30"),
        ("state", "not_fired"),
        ("decision", "gap_skipped"),
        ("revision", 3),
        ("zone", "America/New_York"),
        ("tz_version", "2026f"),
    ]
