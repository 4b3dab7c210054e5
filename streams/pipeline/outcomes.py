"""Outcomes of attempts on their way into the ledger: gathered for 50 ms or 200 rows, then settled together.

None is dropped while the ledger is away: they are kept and tried again. Settling twice is harmless, for the row has
moved on by then.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from streams.domain.delivery import Decision, Standing, follow
from streams.domain.errors import ServiceUnreachable
from streams.domain.outcome import AttemptResult
from streams.pipeline.ledger import Claimed, LaneLedger, Settled

MOST_ROWS: Final = 200
GATHER_S: Final = 0.05
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 5.0
_SAID_CHARACTERS: Final = 1000

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Told:
    """One attempt's outcome, with what else its decision asks for."""

    settled: Settled
    decision: Decision
    destination: str


def told(claimed: Claimed, sending: Standing, result: AttemptResult, decision: Decision) -> Told:
    """The outcome of the attempt in flight of `sending`."""
    after = follow(sending, decision.events)
    settled = Settled(
        row=claimed.row,
        fence=sending.fence,
        n=sending.attempts,
        outcome=result.outcome,
        code=result.code,
        detail=_storable(result.detail),
        state=after.state,
        wait_s=decision.wait_s,
        no_doubt=after.in_doubt_since_s is None,
        reason=_storable(decision.reason),
    )
    return Told(settled, decision, claimed.fire.to)


def _storable(said: str) -> str:
    """What an adapter says of a foreign answer, as text that any database takes: one bad row would stop its batch."""
    return said[:_SAID_CHARACTERS].replace("\0", " ").encode("utf-8", "replace").decode()


class Outcomes:
    """One lane's buffer. `run` settles until cancelled; `drain` settles what is left."""

    def __init__(self, ledger: LaneLedger, lane: str) -> None:
        """Empty."""
        self._ledger = ledger
        self._lane = lane
        self._waiting: list[Told] = []
        self._turn = asyncio.Lock()  # `run` and `drain` must not both settle, and then both take away, the first rows
        self._some = asyncio.Event()
        self._many = asyncio.Event()

    def add(self, outcome: Told) -> None:
        """Settle it soon."""
        self._waiting.append(outcome)
        self._some.set()
        if len(self._waiting) >= MOST_ROWS:
            self._many.set()

    async def run(self) -> None:
        """For ever."""
        wait_s = _FIRST_WAIT_S
        while True:
            await self._some.wait()
            await self._gather()
            try:
                await self._settle()
                wait_s = _FIRST_WAIT_S
            except ServiceUnreachable as error:
                _log.warning("outcomes_wait", lane=self._lane, waiting=len(self._waiting), problem=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)

    async def drain(self) -> None:
        """Settle everything now. Raises ServiceUnreachable; the rows are then swept when the session is over."""
        while self._waiting:
            await self._settle()

    async def _gather(self) -> None:
        try:
            async with asyncio.timeout(GATHER_S):
                await self._many.wait()
        except TimeoutError:
            return

    async def _settle(self) -> None:
        """Settle the first rows; they leave the buffer only after that."""
        async with self._turn:
            batch = self._waiting[:MOST_ROWS]
            await self._act(batch)
            stale = await self._ledger.settle([outcome.settled for outcome in batch])
            if stale:
                _log.info("stale_failures_left_alone", lane=self._lane, rows=stale)
            del self._waiting[: len(batch)]
            if len(self._waiting) < MOST_ROWS:
                self._many.clear()
            if not self._waiting:
                self._some.clear()

    async def _act(self, batch: list[Told]) -> None:
        """What concerns the whole lane or a destination."""
        block_s = max((each.decision.block_lane_s or 0.0 for each in batch), default=0.0)
        if block_s:
            await self._ledger.block(block_s)
        for outcome in batch:
            decision = outcome.decision
            if decision.hold_lane:
                _log.error("alarm_lane_held", lane=self._lane, reason=decision.reason)
                await self._ledger.hold(decision.reason)
            if decision.disable_destination:
                _log.error("alarm_destination_disabled", lane=self._lane, reason=decision.reason)
                await self._ledger.disable(outcome.destination, decision.reason)
