"""The ledger's statements on real PostgreSQL: they make the moves of the state machine, and no others."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.ledger_dispatch import LaneConnections, PostgresLane
from streams.domain.budget import Gcra
from streams.domain.delivery import Event, NotAllowed, Standing, State, step
from streams.domain.errors import InvalidInput
from streams.domain.outcome import Outcome
from streams.domain.schedule import Mode, OnDelete
from streams.pipeline.ledger import Claimed, Quarantined, Settled
from tests.ledger_support import FAR_S, TOPIC, TOPIC_ID, Bench, batch_of, make_ended, make_fire, row_of

T = TypeVar("T")
QUEUED = [State.WAITING, State.PENDING, State.LEASED, State.SENDING, State.RETRY, State.UNKNOWN, State.REVIEW]


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    yield made
    made.close()


def with_lane(bench: Bench, work: Callable[[PostgresLane], Awaitable[T]]) -> T:
    async def run() -> T:
        shared = LaneConnections(bench.dsn, bench.schema)
        lane = bench.lane(shared)
        try:
            return await work(lane)
        finally:
            await lane.end()
            await shared.close()

    return asyncio.run(run())


def settled(claimed: Claimed, outcome: Outcome, state: State, *, n: int = 1, no_doubt: bool = True) -> Settled:
    return Settled(claimed.row, claimed.standing.fence, n, outcome, None, "said", state, 0.0, no_doubt, "said")


# --- intake


def test_a_batch_is_taken_in_once(bench: Bench) -> None:
    fires = [make_fire(f"s-{n}", tenant=f"t{n % 3}") for n in range(20)]
    first = bench.intake.write(batch_of(fires))
    assert (first.begun, first.duplicates) == ({"pending": 20}, 0)
    assert bench.intake.known({row_of(fires[0]).date: [row_of(fire).key for fire in fires]}) == set(map(row_of, fires))
    again = bench.intake.write(batch_of(fires))
    assert (again.begun, again.duplicates) == ({}, 20)
    assert bench.intake.next_offsets(TOPIC, TOPIC_ID) == {0: 20}
    assert bench.sql.execute("SELECT duplicates FROM source_offset").fetchall() == [(20,)]
    assert bench.sql.execute("SELECT duplicates, length(keys) FROM duplicate_batch").fetchall() == [(20, 160)]


def test_an_offset_never_goes_back(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire()], offset=100))
    bench.intake.write(batch_of([make_fire()], offset=5))
    assert bench.intake.next_offsets(TOPIC, TOPIC_ID) == {0: 101}
    assert bench.intake.next_offsets(TOPIC, "another incarnation of the topic") == {}


def test_the_view_shows_a_row_a_key(bench: Bench) -> None:
    fire = make_fire("acct", "2027-03-13T02:30", zone="America/New_York", instant=30085650, account="A-17")
    bench.intake.write(batch_of([fire]))
    row = bench.sql.execute(
        "SELECT date, key, mode, schedule_id, incarnation, revision, tenant, account, region, provider, nominal, zone,"
        " instant, due, state, attempts, in_doubt_since FROM ledger"
    ).fetchone()
    instant = dt.datetime.fromtimestamp(30085650 * 60, dt.UTC)
    due = dt.datetime.fromtimestamp(fire.due_s, dt.UTC)
    assert row == (
        dt.date(2027, 3, 13), fire.key, "live", "acct", 1, 1, "default", "A-17", "eu", "eu-mail", "2027-03-13T02:30",
        "America/New_York", instant, due, "pending", 0, None,
    )  # fmt: skip


@pytest.mark.parametrize("label", ["1990-01-01T00:00", "2026-12-31T23:59", "2099-12-31T00:00"])
def test_months_are_made_as_dates_arrive(bench: Bench, label: str) -> None:
    bench.intake.write(batch_of([make_fire("s", label)]))
    assert bench.states() == {"s": "pending"}


def test_a_shadow_is_never_queued(bench: Bench) -> None:
    written = bench.intake.write(batch_of([make_fire("s", mode=Mode.SHADOW), make_fire("l")]))
    assert written.begun == {"shadowed": 1, "pending": 1}
    assert bench.states() == {"s": "shadowed", "l": "pending"}
    assert bench.sql.execute("SELECT schedule_id FROM queue").fetchall() == [("l",)]


def test_ended_cancels_what_is_older_now_and_later(bench: Bench) -> None:
    old, kept = make_fire("s", "2026-11-01T09:00"), make_fire("s", "2026-11-01T12:00")
    deliver = make_fire("d", "2026-11-01T09:00", on_delete=OnDelete.DELIVER)
    ended = [
        make_ended("s", "2026-11-01T12:00"),
        make_ended("d", "2026-11-01T12:00"),
        make_ended("s", "2026-11-01T08:00"),
    ]
    bench.intake.write(batch_of([old, kept, deliver]))
    bench.intake.write(batch_of([], ended, offset=3))
    by_key = dict(bench.sql.execute("SELECT key, state FROM ledger").fetchall())
    assert by_key == {old.key: "cancelled", kept.key: "pending", deliver.key: "pending"}
    late = make_fire("s", "2026-10-31T09:00")
    written = bench.intake.write(batch_of([late], offset=6))
    assert written.begun == {"cancelled": 1}
    reasons = bench.sql.execute("SELECT reason FROM closed ORDER BY date").fetchall()
    assert reasons == [("the schedule was deleted before it arrived",), ("the schedule was deleted",)]


@pytest.mark.parametrize("doubted", [False, True])
@pytest.mark.parametrize("state", QUEUED)
def test_ended_agrees_with_the_state_machine(bench: Bench, state: State, doubted: bool) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    doubt = "now()" if doubted else "NULL"
    bench.sql.execute(f"UPDATE queue SET state = %s, in_doubt_since = {doubt}", (state.value,))
    bench.intake.write(batch_of([], [make_ended("s", "2026-11-02T00:00")], offset=1))
    try:
        expected = step(Standing(state, 0, 1, 1.0 if doubted else None), Event.ENDED).state
    except NotAllowed:
        expected = state
    assert bench.states() == {"s": expected.value}


def test_a_record_that_cannot_be_stored_takes_nothing_with_it(bench: Bench) -> None:
    with pytest.raises(InvalidInput, match="can't be stored"):
        bench.intake.write(batch_of([make_fire("good"), make_fire("bad", to="nul\x00here")]))
    assert bench.states() == {}
    assert bench.intake.next_offsets(TOPIC, TOPIC_ID) == {}
    bench.intake.write(batch_of([make_fire("good")]))
    assert bench.states() == {"good": "pending"}


def test_quarantine_keeps_the_record_whole_and_once(bench: Bench) -> None:
    batch = batch_of([])
    batch.quarantined.append(Quarantined(0, 7, b"k", b"\x00\xff", [("ce_id", b"x"), ("empty", None)], "no schema"))
    bench.intake.write(batch)
    bench.intake.write(batch)
    rows = bench.sql.execute("SELECT topic, partition, source_offset, key, value, headers, reason FROM quarantine")
    assert rows.fetchall() == [(TOPIC, 0, 7, b"k", b"\x00\xff", [["ce_id", "78"], ["empty", None]], "no schema")]


# --- dispatch


def test_a_life_from_pending_to_done(bench: Bench) -> None:
    fire = make_fire("s", account="A-17")
    bench.intake.write(batch_of([fire]))
    session = bench.session()

    async def life(lane: PostgresLane) -> Claimed:
        assert await lane.due(fire.due_s - 1, 10, fresh=True) == 0
        assert await lane.due(fire.due_s, 10, fresh=False) == 1
        assert await lane.claim(session, fire.due_s - 1, 10) == []
        (claimed,) = await lane.claim(session, fire.due_s, 10)
        assert await lane.claim(session, FAR_S, 10) == []
        started = await lane.begin(session, [(claimed, b"body")])
        assert set(started) == {claimed.row}
        assert await lane.settle([settled(claimed, Outcome.DONE, State.DONE)]) == 0
        assert await lane.due(FAR_S, 10, fresh=True) == 0
        return claimed

    claimed = with_lane(bench, life)
    assert claimed.fire == fire
    assert claimed.standing == Standing(State.LEASED, 1, 0, None)
    assert (claimed.body, claimed.ended, claimed.disabled) == (None, None, False)
    rows = bench.sql.execute(
        "SELECT n, fence, session, outcome, body, finished_at >= started_at FROM attempt"
    ).fetchall()
    assert rows == [(1, 1, session, "done", b"body", True)]
    assert bench.sql.execute("SELECT state, attempts FROM ledger").fetchall() == [("done", 1)]


def test_a_fire_of_an_elapsed_rule_has_no_nominal_label(bench: Bench) -> None:
    fire = make_fire("pulse", nominal=None)
    bench.intake.write(batch_of([fire]))
    session = bench.session()

    async def claim(lane: PostgresLane) -> Claimed:
        (claimed,) = await lane.claim(session, fire.due_s, 10)
        return claimed

    assert with_lane(bench, claim).fire == fire
    assert bench.sql.execute("SELECT nominal FROM ledger").fetchall() == [(None,)]


def test_a_retry_keeps_the_first_body_and_waits(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    session = bench.session()

    async def life(lane: PostgresLane) -> None:
        (claimed,) = await lane.claim(session, FAR_S, 1)
        await lane.begin(session, [(claimed, b"first")])
        lost = settled(claimed, Outcome.UNKNOWN, State.RETRY, no_doubt=False)
        assert await lane.settle([lost]) == 0
        (again,) = await lane.claim(session, FAR_S, 1)
        assert again.body == b"first"
        assert again.standing.fence == 2
        assert again.standing.in_doubt_since_s is not None
        started = await lane.begin(session, [(again, b"second")])
        assert started[again.row] > again.standing.in_doubt_since_s
        waiting = Settled(again.row, 2, 2, Outcome.RATE_LIMITED, 429, "", State.RETRY, 3600.0, False, "429")
        assert await lane.settle([waiting]) == 0
        assert await lane.claim(session, FAR_S, 1) == []

    with_lane(bench, life)
    tries = bench.sql.execute("SELECT n, outcome, code, body FROM attempt ORDER BY n").fetchall()
    assert tries == [(1, "unknown", None, b"first"), (2, "rate_limited", 429, None)]
    row = bench.sql.execute(
        "SELECT state, attempts, in_doubt_since = (SELECT started_at FROM attempt WHERE n = 1) FROM ledger"
    ).fetchone()
    assert row == ("retry", 2, True)


@pytest.mark.parametrize("state", QUEUED)
def test_claims_agree_with_the_state_machine(bench: Bench, state: State) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    bench.sql.execute("UPDATE queue SET state = %s, fence = 5", (state.value,))
    claimed = with_lane(bench, lambda lane: lane.claim(bench.session(), FAR_S, 5))
    try:
        expected = step(Standing(state, 5), Event.CLAIMED)
    except NotAllowed:
        assert claimed == []
        assert bench.states() == {"s": state.value}
    else:
        assert [each.standing for each in claimed] == [expected]


@pytest.mark.parametrize("state", QUEUED)
def test_starts_agree_with_the_state_machine(bench: Bench, state: State) -> None:
    """A start needs the leased state, the fence and the session of its claim."""
    bench.intake.write(batch_of([make_fire("s")]))
    session = bench.session()

    async def start(lane: PostgresLane) -> list[int]:
        (claimed,) = await lane.claim(session, FAR_S, 1)
        bench.sql.execute("UPDATE queue SET state = %s", (state.value,))
        started = [len(await lane.begin(bench.session(), [(claimed, b"")]))]
        bench.sql.execute("UPDATE queue SET fence = fence + 1")
        started.append(len(await lane.begin(session, [(claimed, b"")])))
        bench.sql.execute("UPDATE queue SET fence = fence - 1")
        return [*started, len(await lane.begin(session, [(claimed, b"")]))]

    assert with_lane(bench, start) == [0, 0, 1 if state is State.LEASED else 0]


def test_a_stale_fence_can_neither_start_nor_fail_but_success_settles(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    first, second = bench.session(), bench.session()

    async def race(lane: PostgresLane) -> None:
        (mine,) = await lane.claim(first, FAR_S, 1)
        await lane.begin(first, [(mine, b"body")])
        bench.sql.execute("UPDATE worker_session SET expires_at = now() WHERE id = %s", (first,))
        assert await lane.sweep(lambda standing: (step(step(standing, Event.LEASE_LOST), Event.RESEND), "swept")) == 1
        (theirs,) = await lane.claim(second, FAR_S, 1)
        assert theirs.standing.fence > mine.standing.fence
        assert await lane.begin(first, [(mine, b"body")]) == {}
        assert await lane.settle([settled(mine, Outcome.REJECTED, State.REVIEW)]) == 1
        assert bench.states() == {"s": "leased"}
        assert await lane.settle([settled(mine, Outcome.DONE, State.DONE)]) == 0

    with_lane(bench, race)
    assert bench.states() == {"s": "done"}
    assert bench.sql.execute("SELECT n, outcome FROM attempt").fetchall() == [(1, "done")]


def test_every_attempt_has_its_outcome_though_its_row_has_moved_on(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    first, second = bench.session(), bench.session()

    async def race(lane: PostgresLane) -> None:
        (mine,) = await lane.claim(first, FAR_S, 1)
        await lane.begin(first, [(mine, b"body")])
        bench.sql.execute("UPDATE worker_session SET expires_at = now() WHERE id = %s", (first,))
        await lane.sweep(lambda standing: (step(step(standing, Event.LEASE_LOST), Event.RESEND), "swept"))
        (theirs,) = await lane.claim(second, FAR_S, 1)
        await lane.begin(second, [(theirs, b"body")])
        # ours, had it been a second attempt whose start was lost, says nothing of theirs
        assert await lane.settle([settled(mine, Outcome.UNSENT, State.RETRY, n=2)]) == 1
        assert await lane.settle([settled(mine, Outcome.DONE, State.DONE)]) == 0
        assert await lane.settle([settled(theirs, Outcome.REJECTED, State.REVIEW, n=2)]) == 1

    with_lane(bench, race)
    assert bench.states() == {"s": "done"}
    assert bench.sql.execute("SELECT n, outcome FROM attempt ORDER BY n").fetchall() == [(1, "done"), (2, "rejected")]


def test_late_success_settles_what_a_person_discarded(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    session = bench.session()

    async def race(lane: PostgresLane) -> None:
        (mine,) = await lane.claim(session, FAR_S, 1)
        await lane.begin(session, [(mine, b"body")])
        bench.sql.execute(
            "WITH q AS (DELETE FROM queue RETURNING *)"
            " INSERT INTO closed (date, key, mode, state, reason) SELECT date, key, mode, 'discarded', 'me' FROM q"
        )
        assert bench.states() == {"s": "discarded"}
        await lane.settle([settled(mine, Outcome.DONE, State.DONE)])

    with_lane(bench, race)
    assert bench.states() == {"s": "done"}


@pytest.mark.parametrize("state", QUEUED)
def test_the_sweep_agrees_with_the_state_machine(bench: Bench, state: State) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    session = bench.session()

    async def sweep(lane: PostgresLane) -> int:
        (claimed,) = await lane.claim(session, FAR_S, 1)
        await lane.begin(session, [(claimed, b"body")])
        bench.sql.execute("UPDATE queue SET state = %s", (state.value,))
        assert await lane.sweep(lambda standing: (standing, "")) == 0
        bench.sql.execute("UPDATE worker_session SET expires_at = now()")

        def lose(standing: Standing) -> tuple[Standing, str]:
            return (step(standing, Event.LEASE_LOST) if standing.state is not State.UNKNOWN else standing), "swept"

        return await lane.sweep(lose)

    moved = with_lane(bench, sweep)
    try:
        expected = step(Standing(state, 1, 1), Event.LEASE_LOST).state
    except NotAllowed:
        assert moved == 0
        expected = state
    assert bench.states() == {"s": expected.value}
    if state is State.SENDING:
        assert bench.sql.execute("SELECT outcome, detail FROM attempt").fetchall() == [
            ("unknown", "its worker stopped")
        ]


def test_claims_are_fair_between_tenants(bench: Bench) -> None:
    fires = [make_fire(f"big-{n}", tenant="big") for n in range(300)]
    fires.append(make_fire("small", "2026-11-01T09:05", tenant="small"))
    bench.intake.write(batch_of(fires))
    claimed = with_lane(bench, lambda lane: lane.claim(bench.session(), FAR_S, 20))
    assert len(claimed) == 20
    assert "small" in {each.fire.tenant for each in claimed}


@pytest.mark.parametrize("tenants", [1, 3, 40])
def test_two_claimants_never_get_the_same_row(bench: Bench, tenants: int) -> None:
    bench.intake.write(batch_of([make_fire(f"s-{n}", tenant=f"t{n % tenants}") for n in range(300)]))
    sessions = [bench.session(), bench.session()]

    async def race() -> list[bytes]:
        shared = LaneConnections(bench.dsn, bench.schema)
        lanes = [bench.lane(shared, start=start) for start in (0.0, 0.5)]

        async def drain(lane: PostgresLane, session: int) -> list[bytes]:
            keys: list[bytes] = []
            empty = 0
            while empty < 3:
                claimed = await lane.claim(session, FAR_S, 17)
                empty = 0 if claimed else empty + 1
                keys += [each.row.key for each in claimed]
            return keys

        found = await asyncio.gather(*(drain(*pair) for pair in zip(lanes, sessions, strict=True)))
        for lane in lanes:
            await lane.end()
        await shared.close()
        return [key for keys in found for key in keys]

    keys = asyncio.run(race())
    assert len(keys) == len(set(keys)) == 300


def test_an_ended_schedule_is_told_at_the_claim_and_closed(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    session = bench.session()

    async def claim_and_close(lane: PostgresLane) -> None:
        (claimed,) = await lane.claim(session, FAR_S, 1)
        bench.intake.write(batch_of([], [make_ended("s", "2026-11-02T00:00", "paused")], offset=1))
        assert bench.states() == {"s": "leased"}
        await lane.release(session, [claimed])
        (again,) = await lane.claim(session, FAR_S, 1)
        assert again.ended == "paused"
        await lane.close(session, [(again, State.CANCELLED, "the schedule was paused")])

    with_lane(bench, claim_and_close)
    assert bench.states() == {"s": "cancelled"}


def test_a_disabled_destination_is_told_at_the_claim_and_withheld(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s", to="gone@example.org"), make_fire("t")]))
    session = bench.session()

    async def withhold(lane: PostgresLane) -> None:
        await lane.disable("gone@example.org", "410")
        claimed = await lane.claim(session, FAR_S, 5)
        assert {each.fire.schedule_id: each.disabled for each in claimed} == {"s": True, "t": False}
        await lane.withhold(session, [(each, "gone") for each in claimed if each.disabled])
        assert await lane.release_all(session) == 1

    with_lane(bench, withhold)
    assert bench.states() == {"s": "review", "t": "pending"}
    assert bench.sql.execute("SELECT reason FROM queue WHERE state = 'review'").fetchall() == [("gone",)]


# --- the budget


def test_the_budget_in_the_row_is_the_domains(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    gcra = Gcra(100.0, 10)

    async def reserve(lane: PostgresLane) -> None:
        tat_us = 0
        for want in (3, 50, 500, 1, 7):
            grant = await lane.reserve(gcra, want)
            expected = gcra.reserve(tat_us, grant.now_us, want)
            assert grant.reservation == expected
            assert grant.held is None
            tat_us = expected.end_us

    with_lane(bench, reserve)


def test_a_blocked_or_held_lane_grants_nothing(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    gcra = Gcra(100.0, 10)

    async def reserve(lane: PostgresLane) -> None:
        await lane.block(30.0)
        await lane.block(5.0)
        blocked = await lane.reserve(gcra, 5)
        assert blocked.reservation.count == 0
        assert 29e6 < blocked.reservation.wait_us < 30e6
        await lane.hold("401")
        await lane.hold("another")
        assert (await lane.reserve(gcra, 5)).held == "401"

    with_lane(bench, reserve)


def test_after_a_restart_of_the_server_the_first_reservation_waits(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("s")]))
    gcra = Gcra(100.0, 10)
    bench.sql.execute("UPDATE lane SET server_started = server_started - interval '1 day'")

    async def reserve(lane: PostgresLane) -> None:
        grant = await lane.reserve(gcra, 5)
        assert (grant.reservation.count, grant.reservation.wait_us) == (0, gcra.interval_us)
        assert grant.reservation.tat_us == gcra.after_restart(grant.now_us)

    with_lane(bench, reserve)
    row = bench.sql.execute("SELECT server_started = pg_postmaster_start_time() FROM lane").fetchone()
    assert row == (True,)
