"""`townclock audit` over a real ledger and registry, to the letter."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from streams.adapters.codec import encode
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.ledger_dispatch import LaneConnections
from streams.domain.delivery import State
from streams.domain.minutes import parse_tick
from streams.domain.outcome import Outcome
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.schedule import Daily, Overlap, Policy
from streams.entrypoints.cli import cli
from streams.pipeline.ledger import Arrival, Batch, Settled
from tests.ledger_support import FAR_S, Bench, batch_of, make_fire, row_of
from tests.schedules import schedule

ZONE = "America/New_York"
Audit = Callable[..., tuple[int, str]]


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    yield made
    made.close()


@pytest.fixture
def audit(bench: Bench, tmp_path: Path) -> Audit:
    config = tmp_path / "townclock.toml"
    config.write_text(f'[postgres]\ndsn = "{bench.dsn}"\nschema = "{bench.schema}"\n')

    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, ["--config", str(config), "audit", *arguments])
        said = str(result.exception) if result.exception is not None and not result.output else result.output
        return result.exit_code, said

    return run


def deliver_twice(bench: Bench) -> None:
    """An unknown attempt, then a done one."""
    session = bench.session()

    async def life() -> None:
        shared = LaneConnections(bench.dsn, bench.schema)
        lane = bench.lane(shared)
        for n, outcome, code, state in ((1, Outcome.UNKNOWN, None, State.RETRY), (2, Outcome.DONE, 200, State.DONE)):
            (claimed,) = await lane.claim(session, FAR_S, 1)
            await lane.begin(session, [(claimed, b"body")])
            fence = claimed.standing.fence
            await lane.settle([Settled(claimed.row, fence, n, outcome, code, "", state, 0.0, False, "")])
        await lane.end()
        await shared.close()

    asyncio.run(life())


def test_a_delivered_key_to_the_letter(bench: Bench, audit: Audit) -> None:
    instant = parse_tick("2027-03-13T07:30Z")
    fire = make_fire("acct-17", "2027-03-13T02:30", zone=ZONE, instant=instant, due_s=instant * 60, revision=3)
    batch = Batch("occurrences.us", "id", {4: 978}, [Arrival(row_of(fire), fire, 4, 977, None)])
    bench.intake.write(batch)
    bench.intake.write(batch)
    deliver_twice(bench)
    status, said = audit(fire.key, "--json")
    assert status == 0
    found = json.loads(said)
    tries = found.pop("tries")
    assert [list(each) for each in tries] == [["n", "at", "outcome", "code"]] * 2
    assert [(each["n"], each["outcome"], each["code"]) for each in tries] == [(1, "unknown", None), (2, "done", 200)]
    assert all(each["at"].endswith("Z") and "T" in each["at"] for each in tries)
    assert list(found.items()) == [
        ("key", fire.key),
        ("schedule_id", "acct-17"),
        ("incarnation", 1),
        ("revision", 3),
        ("promise", "label"),
        ("policy", {"gap": "skip", "overlap": "first"}),
        ("nominal", "2027-03-13T02:30"),
        ("zone", ZONE),
        ("instant", "2027-03-13T07:30:00Z"),
        ("due", "2027-03-13T07:30:00Z"),
        ("tz_version", "2026f"),
        ("tick", {"partition": 0, "offset": 7, "watermark": 3}),
        ("region", "eu"),
        ("provider", "eu-mail"),
        ("provider_idempotency_key", fire.key),
        ("state", "done"),
        ("attempts", 2),
        ("in_doubt_since", None),
        ("source", {"topic": "occurrences.us", "partition": 4, "offset": 977}),
        ("duplicates_suppressed", 1),
    ]
    assert audit("--schedule", "acct-17", "--label", "2027-03-13T02:30", "--json") == (status, said)
    status, shown = audit(fire.key)
    assert shown.startswith("done: acct-17 2027-03-13T02:30 America/New_York at 2027-03-13T07:30:00Z")


def test_both_copies_of_a_label(bench: Bench, audit: Audit) -> None:
    both = Policy(make_fire().policy.gap, Overlap.BOTH)
    first = make_fire("ny-1", "2026-11-01T01:30", policy=both)
    key = "392501169508e82d889212f7997eb147e6244a76977be6d6ec03da6394c45f04"
    bench.intake.write(batch_of([first, make_fire("ny-1", "2026-11-01T01:30", policy=both, copy=1, key=key)]))
    status, said = audit("--schedule", "ny-1", "--label", "2026-11-01T01:30", "--json")
    assert status == 0
    assert [json.loads(line)["key"] for line in said.splitlines()] == [first.key, key]


def register(bench: Bench, zone: str = ZONE) -> None:
    plan = Plan(
        "acct-17",
        1,
        1,
        (Revision(3, RevisionState.ACTIVE, None, schedule(id="acct-17", zone=zone, rule=Daily((150,)))),),
    )
    bench.sql.execute(
        "INSERT INTO revision (schedule_id, incarnation, number, sequence, state, plan, change_id, actor,"
        " source_partition, source_offset, registered_at) VALUES"
        " ('acct-17', 1, 3, 1, 'active', %s, 'c', 'a', 0, 0, '2026-01-01T00:00Z')",
        (encode(plan),),
    )


def test_a_label_that_did_not_fire(bench: Bench, audit: Audit) -> None:
    register(bench)
    status, said = audit("--schedule", "acct-17", "--label", "2027-03-14T02:30", "--json")
    assert status == 0
    assert said == (
        '{"schedule_id": "acct-17", "nominal": "2027-03-14T02:30", "state": "not_fired", "decision": "gap_skipped",'
        f' "revision": 3, "zone": "{ZONE}", "tz_version": "2026f"}}\n'
    )


def test_a_label_that_was_never_due_and_one_that_is_missing(bench: Bench, audit: Audit) -> None:
    register(bench)
    assert audit("--schedule", "acct-17", "--label", "2027-03-13T02:31")[0] == 0
    status, said = audit("--schedule", "acct-17", "--label", "2027-03-13T02:30")
    assert status == 1
    assert "is promised, and the ledger does not have it" in said


def test_mistakes_are_told(bench: Bench, audit: Audit) -> None:
    assert "no occurrence key" in audit("abc")[1]
    status, said = audit("0" * 64)
    assert (status, "the ledger has no key" in said) == (1, True)
    assert "was ever registered" in audit("--schedule", "nobody", "--label", "2027-03-13T02:30")[1]
    assert audit()[0] == 2
    assert audit("--schedule", "a", "--label", "tomorrow")[0] == 2
