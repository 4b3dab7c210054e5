"""The comparison: a log and a ledger made up from the promises pass; every kind of tampering is found."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from streams.verifier.documents import VerifierError, load_demo, load_histories
from streams.verifier.ledger import LedgerRow
from streams.verifier.minutes import instant_text, label_text
from streams.verifier.oracle import Promised, promises
from streams.verifier.report import WindowReport, combine, last_line
from streams.verifier.table import render, shortfalls, to_json
from streams.verifier.verify import count_promised, verify_rows

REGIONS = {"eu": "eu-mail", "us": "us-mail"}
EXTRA = {"in_flight_at_kill": 3, "suppressed": {"eu": 2, "us": 1}, "unknown": 4}

DEMO = """
schedules: schedules.yaml
partitions: 8
regions: {eu: {provider: eu-mail}, us: {provider: us-mail}}
providers: {}
windows:
  - name: autumn
    from: 2026-10-31T00:00Z
    to: 2026-11-04T00:00Z
    halt_at: 2026-11-02T12:00Z
    edits: edits.yaml
    deletes: [gone]
"""
SCHEDULES = """
- {id: ny, region: us, zone: America/New_York, rule: {kind: daily, at: ["01:30"]}, overlap: both,
   deliver: {provider: us-mail, to: a@x.example, payload: {n: 1}}}
- {id: berlin, region: eu, zone: Europe/Berlin, rule: {kind: weekly, weekdays: [mon, tue], at: ["09:00"]},
   deliver: {provider: eu-mail, to: b@x.example, payload: {n: 2}}}
- {id: gone, region: eu, zone: Europe/Berlin, tenant: t, account: A-1, rule: {kind: daily, at: ["08:00"]},
   deliver: {provider: eu-mail, to: c@x.example, payload: {n: 3}}}
- {id: kept, region: eu, zone: Europe/Berlin, on_delete: deliver, rule: {kind: daily, at: ["07:00"]},
   deliver: {provider: eu-mail, to: d@x.example, payload: {n: 4}}}
"""
EDITS = """
- {id: berlin, region: eu, zone: Europe/Berlin, rule: {kind: daily, at: ["10:00"]},
   deliver: {provider: eu-mail, to: b2@x.example, payload: {n: 22}}}
- {id: kept, region: eu, zone: Europe/Berlin, on_delete: deliver, paused: true, rule: {kind: daily, at: ["07:00"]},
   deliver: {provider: eu-mail, to: d@x.example, payload: {n: 4}}}
"""


@dataclass
class World:
    """A demo of four schedules, its provider's log and its ledger, all as promised."""

    folder: Path
    lines: list[dict[str, Any]]
    rows: dict[str, LedgerRow]
    promised: list[Promised]

    def verify(self) -> WindowReport:
        log = self.folder / "provider.jsonl"
        log.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        return verify_rows(self.folder, "autumn", log, self.rows.values())

    def of(self, schedule_id: str) -> list[Promised]:
        return [promise for promise in self.promised if promise.revision.schedule_id == schedule_id]

    def line(self, promise: Promised) -> dict[str, Any]:
        return next(line for line in self.lines if line["idempotency_key"] == promise.key)


def accepted(promise: Promised) -> dict[str, Any]:
    revision = promise.revision
    body = {
        "key": promise.key,
        "schedule_id": revision.schedule_id,
        "nominal": label_text(promise.label),
        "zone": revision.zone,
        "instant": instant_text(promise.tick),
        "tenant": revision.tenant,
        "account": revision.account,
        "to": revision.to,
        "payload": revision.payload,
    }
    lane = revision.provider
    return {"at": 1.5, "lane": lane, "event": "accepted", "idempotency_key": promise.key, "body": body}


def ledger_row(promise: Promised, state: str = "done") -> LedgerRow:
    revision = promise.revision
    instant = datetime.fromtimestamp(promise.tick * 60, UTC)
    names = (revision.schedule_id, revision.region, revision.provider, label_text(promise.label), revision.zone)
    return LedgerRow(promise.key, *names, instant, state, attempts=2 if promise.copy else 1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    for name, text in (("demo.yaml", DEMO), ("schedules.yaml", SCHEDULES), ("edits.yaml", EDITS)):
        (tmp_path / name).write_text(text)
    demo = load_demo(tmp_path)
    window = demo.window("autumn")
    found = list(promises(load_histories(tmp_path, demo, window), window.start, window.end).by_key.values())
    lines = [accepted(promise) for promise in found]
    for event in ("rate_limited", "lost_answer", "replayed", "control"):
        key = None if event == "control" else found[0].key
        lines.append({"at": 2.0, "lane": "us-mail", "event": event, "idempotency_key": key, "body": None})
    return World(tmp_path, lines, {promise.key: ledger_row(promise) for promise in found}, found)


def test_all_as_promised(world: World) -> None:
    report = world.verify()
    assert not report.faults
    # ny: 4 nights and a second copy; berlin: Monday 09:00, then Tuesday 10:00; gone and kept: 31 Oct, 1 and 2 Nov.
    assert report.total.promised == report.total.delivered == 5 + 2 + 3 + 3 == count_promised(world.folder, "autumn")
    assert (report.regions["us"].promised, report.regions["eu"].promised) == (5, 8)
    assert sum(tally.promised for tally in report.partitions.values()) == 13
    assert report.total.retried == 1
    assert report.reasons == {"paused": 1}
    assert report.lane_events["rate_limited"] == 1
    assert report.ledger_states == {"done": 13}
    assert last_line(report) == "demo: promised=13 delivered=13 duplicated=0 missing=0"


def drop(world: World) -> None:
    world.lines.remove(world.line(world.of("ny")[0]))


def double(world: World) -> None:
    world.lines.append(world.line(world.of("ny")[0]))


def phantom(world: World) -> None:
    line = json.loads(json.dumps(world.line(world.of("ny")[0])))
    line["idempotency_key"] = line["body"]["key"] = "f" * 64
    world.lines.append(line)


def body_says(**members: Any) -> Callable[[World], None]:
    def tamper(world: World) -> None:
        world.line(world.of("ny")[0])["body"].update(members)

    return tamper


def other_lane(world: World) -> None:
    world.line(world.of("ny")[0])["lane"] = "eu-mail"


@pytest.mark.parametrize(
    ("tamper", "counts", "disagreements"),
    [
        (drop, {"missing": 1}, {"done_without_effect": 1}),
        (double, {"duplicated": 1}, {}),
        (phantom, {"phantom": 1}, {"effect_not_in_ledger": 1}),
        (body_says(instant="2026-10-31T06:30:00Z"), {"wrong": 1}, {}),
        (body_says(nominal="2026-10-31T02:30"), {"wrong": 1}, {}),
        (body_says(zone="Europe/Berlin"), {"wrong": 1}, {}),
        (body_says(to="elsewhere@x.example"), {"wrong": 1}, {}),
        (body_says(payload={"n": 2}), {"wrong": 1}, {}),
        (other_lane, {"wrong": 1}, {}),
    ],
)
def test_tampering_is_found(
    world: World, tamper: Callable[[World], None], counts: dict[str, int], disagreements: dict[str, int]
) -> None:
    tamper(world)
    report = world.verify()
    expected = {"duplicated": 0, "missing": 0, "phantom": 0, "wrong": 0} | counts
    assert {name: getattr(report.total, name) for name in expected} == expected
    assert report.disagreements == disagreements
    assert report.faults
    assert report.examples
    assert report.total.delivered == 13 - expected["missing"]


def test_ledger_disagreements(world: World) -> None:
    first, second, third, fourth, fifth = world.of("ny")
    world.rows[first.key] = ledger_row(first, "unknown")
    del world.rows[second.key]
    world.rows[third.key] = replace(ledger_row(third), zone="Europe/Berlin")
    world.rows["e" * 64] = replace(ledger_row(fourth, "pending"), key="e" * 64)
    world.rows["again"] = ledger_row(fifth)
    report = world.verify()
    assert report.disagreements == {
        "effect_without_done": 1,
        "effect_not_in_ledger": 1,
        "promised_but_not_in_ledger": 1,
        "ledger_terms_differ": 1,
        "in_ledger_but_not_promised": 1,
        "key_twice_in_ledger": 1,
    }
    assert report.total.promised == report.total.delivered
    assert report.faults


def unsent(world: World, promise: Promised, state: str) -> None:
    world.lines.remove(world.line(promise))
    world.rows[promise.key] = ledger_row(promise, state)


def test_cancelled_by_a_delete_is_counted_apart(world: World) -> None:
    unsent(world, world.of("gone")[-1], "cancelled")
    report = world.verify()
    assert not report.faults
    assert (report.total.promised, report.total.cancelled, report.total.missing) == (12, 1, 0)


@pytest.mark.parametrize("schedule_id", ["ny", "kept"])
def test_nothing_else_may_be_cancelled(world: World, schedule_id: str) -> None:
    """`ny` was never deleted, and `kept` was paused but says `on_delete: deliver`."""
    unsent(world, world.of(schedule_id)[-1], "cancelled")
    assert world.verify().total.missing == 1


def test_in_review_is_counted_apart_and_does_not_pass(world: World) -> None:
    unsent(world, world.of("ny")[0], "review")
    report = world.verify()
    assert (report.total.in_review, report.total.missing) == (1, 0)
    assert report.faults


def test_after_the_delete_nothing_is_promised(world: World) -> None:
    line = json.loads(json.dumps(world.line(world.of("gone")[-1])))
    line["idempotency_key"] = line["body"]["key"] = "a" * 64
    line["body"] |= {"nominal": "2026-11-03T08:00", "instant": "2026-11-03T07:00:00Z"}
    world.lines.append(line)
    assert world.verify().total.phantom == 1


@pytest.mark.parametrize(
    "line",
    ["{", '{"event": "accepted"}', '{"event": "sneezed", "lane": "eu-mail"}', '{"event": "accepted", "lane": "x"}'],
)
def test_a_line_that_cannot_be_read_is_not_passed_over(world: World, line: str) -> None:
    log = world.folder / "bad.jsonl"
    log.write_text(line + "\n")
    with pytest.raises(VerifierError, match=r"bad\.jsonl:1"):
        verify_rows(world.folder, "autumn", log, [])


def test_no_log_is_said(world: World) -> None:
    with pytest.raises(VerifierError, match=r"none\.jsonl"):
        verify_rows(world.folder, "autumn", world.folder / "none.jsonl", [])
    with pytest.raises(VerifierError, match="no window 'winter'"):
        verify_rows(world.folder, "winter", world.folder / "none.jsonl", [])


def test_an_edit_may_not_move_a_region(world: World) -> None:
    (world.folder / "edits.yaml").write_text(EDITS.replace("id: berlin, region: eu", "id: berlin, region: us"))
    with pytest.raises(VerifierError, match="berlin: an edit changes its region"):
        world.verify()


def test_two_windows_add_up(world: World) -> None:
    good = world.verify()
    drop(world)
    whole = combine([good, world.verify()])
    assert last_line(whole) == "demo: promised=26 delivered=25 duplicated=0 missing=1"
    assert whole.regions["us"].delivered == 9
    assert whole.disagreements == {"done_without_effect": 1}
    assert whole.lane_events["lost_answer"] == 2


def test_the_table_and_the_json_say_the_same(world: World) -> None:
    report = world.verify()
    out = Console(file=io.StringIO(), width=160)
    render([report], EXTRA, out, REGIONS)
    text = out.file.getvalue()  # type: ignore[attr-defined]
    for words in ("promised", "not fired: paused", "in flight at the kill", "429 answers", "retried", "autumn"):
        assert words in text
    found = to_json([report], EXTRA)
    assert found["passed"] is True
    assert json.loads(json.dumps(found))["total"]["total"]["promised"] == 13


@pytest.mark.parametrize("name", ["in_flight_at_kill", "suppressed"])
def test_a_run_without_trouble_has_shown_nothing(world: World, name: str) -> None:
    report = world.verify()
    assert shortfalls([report], EXTRA) == []
    assert len(shortfalls([report], {**EXTRA, name: 0})) == 1
    world.lines = [line for line in world.lines if line["event"] != "rate_limited"]
    assert any("429" in line for line in shortfalls([world.verify()], EXTRA))
