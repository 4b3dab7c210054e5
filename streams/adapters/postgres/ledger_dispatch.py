"""One lane of the ledger for dispatch: see `streams.pipeline.ledger.LaneLedger`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streams.adapters.postgres.base import statements
from streams.adapters.postgres.claims import Ring, claimed_of
from streams.adapters.postgres.link import WORKER_SETTINGS, Link
from streams.domain.budget import Gcra, Reservation
from streams.domain.delivery import Standing, State
from streams.domain.outcome import Outcome
from streams.pipeline.ledger import Claimed, Grant, RowKey, Settled, Swept

_SWEEP_ROWS = 500


class LaneConnections:
    """The connections that the lanes of one worker share, beside each lane's own for claims."""

    def __init__(self, dsn: str, schema: str) -> None:
        """They connect when first used."""
        self.outcomes = Link(dsn, schema, "outcomes", WORKER_SETTINGS)
        # The budget's row is locked by every worker in turn: its commit is not waited for (see reserve_budget).
        self.budget = Link(dsn, schema, "budget", {"synchronous_commit": "off"})
        self.sweep = Link(dsn, schema, "sweep")

    async def close(self) -> None:
        """End them."""
        for link in (self.outcomes, self.budget, self.sweep):
            await link.close()


class PostgresLane:
    """See LaneLedger. `start` is where its ring of tenants begins, so that several workers don't begin together."""

    def __init__(
        self, lane: int, region: str, provider: str, work: Link, shared: LaneConnections, start: float
    ) -> None:
        self.lane = lane
        self._names = (region, provider)
        self._sql = statements("ledger_dispatch")
        self._lane_sql = statements("lanes")
        self._work = work
        self._shared = shared
        self._ring = Ring(lane, work, start)

    async def end(self) -> None:
        """Close the lane's own connection; the shared ones are their owner's."""
        await self._work.close()

    async def due(self, now_s: float, most: int, *, fresh: bool) -> int:
        """See LaneLedger."""
        return await self._ring.due(now_s, most, fresh=fresh)

    async def reserve(self, gcra: Gcra, want: int) -> Grant:
        """See LaneLedger."""
        terms = {
            "lane": self.lane,
            "interval_us": gcra.interval_us,
            "longest_us": gcra.longest_reservation_us,
            "want": want,
        }
        rows = await self._shared.budget.rows(self._lane_sql["reserve"], terms)
        granted, tat_us, wait_us, now_us, held = rows[0]
        return Grant(Reservation(granted, tat_us, tat_us + granted * gcra.interval_us, wait_us), now_us, held)

    async def claim(self, session: int, now_s: float, want: int) -> list[Claimed]:
        """See LaneLedger."""
        return [claimed_of(row, *self._names) for row in await self._ring.claim(session, now_s, want)]

    async def begin(self, session: int, starts: Sequence[tuple[Claimed, bytes]]) -> dict[RowKey, float]:
        """See LaneLedger."""
        starts = sorted(starts, key=lambda start: start[0].row)
        columns = {
            **_guards([claimed for claimed, _ in starts]),
            "body": [None if claimed.standing.attempts else body for claimed, body in starts],
            "session": session,
        }
        rows = await self._work.rows(self._sql["begin"], columns)
        return {RowKey(day, key, mode): at_s for day, key, mode, at_s in rows}

    async def settle(self, outcomes: Sequence[Settled]) -> int:
        """See LaneLedger."""
        outcomes = sorted(outcomes, key=lambda settled: settled.row)
        done = [settled for settled in outcomes if settled.outcome is Outcome.DONE]
        others = [settled for settled in outcomes if settled.outcome is not Outcome.DONE]
        if done:
            rows = await self._shared.outcomes.rows(self._sql["settle_done"], _done_columns(done))
            settled_rows = {RowKey(*row) for row in rows}
            late = [settled for settled in done if settled.row not in settled_rows]
            if late:
                await self._shared.outcomes.run(self._sql["settle_late"], _done_columns(late))
        if not others:
            return 0
        rows = await self._shared.outcomes.rows(self._sql["settle_open"], _open_columns(others))
        moved = {RowKey(*row) for row in rows}
        stale = [settled for settled in others if settled.row not in moved]
        if stale:
            await self._shared.outcomes.run(self._sql["note_stale"], _open_columns(stale))
        return len(stale)

    async def release(self, session: int, rows: Sequence[Claimed]) -> None:
        """See LaneLedger."""
        if rows:
            await self._work.run(self._sql["release"], {**_guards(_sorted(rows)), "session": session})

    async def release_all(self, session: int) -> int:
        """See LaneLedger. Not on the lane's own connection, whose settings are for walks along an index."""
        return await self._shared.sweep.run(self._sql["release_all"], {"lane": self.lane, "session": session})

    async def withhold(self, session: int, rows: Sequence[tuple[Claimed, str]]) -> None:
        """See LaneLedger."""
        rows = sorted(rows, key=lambda each: each[0].row)
        columns = {**_guards([row for row, _ in rows]), "reason": [reason for _, reason in rows], "session": session}
        await self._work.run(self._sql["withhold"], columns)

    async def close(self, session: int, rows: Sequence[tuple[Claimed, State, str]]) -> None:
        """See LaneLedger."""
        rows = sorted(rows, key=lambda each: each[0].row)
        columns = {
            **_guards([row for row, _, _ in rows]),
            "state": [state.value for _, state, _ in rows],
            "reason": [reason for _, _, reason in rows],
            "session": session,
        }
        await self._work.run(self._sql["close_leased"], columns)

    async def block(self, wait_s: float) -> None:
        """See LaneLedger."""
        await self._shared.budget.run(self._lane_sql["block_lane"], {"lane": self.lane, "wait_s": wait_s})

    async def hold(self, reason: str) -> None:
        """See LaneLedger."""
        await self._shared.outcomes.run(self._lane_sql["hold_lane"], {"lane": self.lane, "reason": reason})

    async def disable(self, destination: str, reason: str) -> None:
        """See LaneLedger."""
        terms = {"lane": self.lane, "destination": destination, "reason": reason}
        await self._shared.outcomes.run(self._sql["disable_destination"], terms)

    async def sessions_over(self) -> object:
        """See LaneLedger."""
        return await self._shared.sweep.rows(self._lane_sql["sessions_over"], {})

    async def sweep(self, decide: Swept, stuck_s: float = 600.0) -> int:
        """See LaneLedger. One transaction; what another worker is sweeping is left to it."""
        moved = 0
        async with self._shared.sweep.transaction() as connection:
            for name in ("abandoned", "unresolved"):
                terms = {"lane": self.lane, "most": _SWEEP_ROWS, "stuck_s": stuck_s}
                rows = await (await connection.execute(self._lane_sql[name], terms, binary=True)).fetchall()
                decided = [(*row[:3], standing_of(row), *decide(standing_of(row))) for row in rows]
                changed = [each for each in decided if each[4].state is not each[3].state]
                if not changed:
                    continue
                sending = [each for each in changed if each[3].state is State.SENDING]
                if sending:
                    columns = {**_keys(sending), "n": [each[3].attempts for each in sending]}
                    await connection.execute(self._lane_sql["close_attempts"], columns)
                columns = {
                    **_keys(changed),
                    "fence": [each[4].fence for each in changed],
                    "state": [each[4].state.value for each in changed],
                    "reason": [each[5] for each in changed],
                }
                await connection.execute(self._lane_sql["move"], columns)
                moved += len(changed)
        return moved


def standing_of(row: Sequence[Any]) -> Standing:
    """The standing in a row of `abandoned` or `unresolved`."""
    state, fence, attempts, doubt_s = row[3:7]
    return Standing(State(state), fence, attempts, doubt_s)


def _sorted(rows: Sequence[Claimed]) -> list[Claimed]:
    return sorted(rows, key=lambda claimed: claimed.row)


def _keys(rows: Sequence[Any]) -> dict[str, list[Any]]:
    return {"date": [row[0] for row in rows], "key": [row[1] for row in rows], "mode": [row[2] for row in rows]}


def _guards(rows: Sequence[Claimed]) -> dict[str, Any]:
    return {**_keys([claimed.row for claimed in rows]), "fence": [claimed.standing.fence for claimed in rows]}


def _done_columns(rows: Sequence[Settled]) -> dict[str, Any]:
    return {
        **_keys([settled.row for settled in rows]),
        "fence": [settled.fence for settled in rows],
        "n": [settled.n for settled in rows],
        "code": [settled.code for settled in rows],
        "detail": [settled.detail or None for settled in rows],
    }


def _open_columns(rows: Sequence[Settled]) -> dict[str, Any]:
    return {
        **_done_columns(rows),
        "outcome": [settled.outcome.value for settled in rows],
        "state": [settled.state.value for settled in rows],
        "wait_s": [float(settled.wait_s) for settled in rows],
        "no_doubt": [settled.no_doubt for settled in rows],
        "reason": [settled.reason for settled in rows],
    }
