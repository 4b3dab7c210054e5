"""The sweep of one lane: rows that a dead session left, and rows of which nothing is known.

It looks every second whether another session has ended, and sweeps if so; every ten seconds it sweeps anyway.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog

from streams.domain.delivery import Event, Limits, Standing, State, after_doubt, follow, step
from streams.domain.errors import ServiceUnreachable
from streams.pipeline.ledger import LaneLedger
from streams.pipeline.provider import ProviderTraits

_LOOK_S: Final = 1.0
_SWEEP_LOOKS: Final = 10
_MANY_ROWS: Final = 500
_STUCK_S: Final = 60.0

_log = structlog.get_logger()


class Clock(Protocol):
    """Real time."""

    def now_s(self) -> float: ...


class Sweep:
    """Decides by the state machine what becomes of each row."""

    def __init__(self, lane: str, ledger: LaneLedger, traits: ProviderTraits, clock: Clock, limits: Limits) -> None:
        """`lane` is its name for people."""
        self._lane = lane
        self._ledger = ledger
        self._traits = traits
        self._clock = clock
        self._limits = limits

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`."""
        seen: object = None
        looks = 0
        while not stop.is_set():
            try:
                now = await self._ledger.sessions_over()
                if now != seen or looks % _SWEEP_LOOKS == 0:
                    await self.once()
                    seen = now
                looks += 1
            except ServiceUnreachable as error:
                _log.warning("sweep_waits", lane=self._lane, problem=str(error))
            try:
                async with asyncio.timeout(_LOOK_S):
                    await stop.wait()
            except TimeoutError:
                continue

    async def once(self) -> int:
        """Sweep all there is. Returns how many rows were moved."""
        moved = 0
        while True:
            rows = await self._ledger.sweep(self.decide, _STUCK_S + 4 * self._traits.timeout_s)
            moved += rows
            if rows < _MANY_ROWS:
                break
        if moved:
            _log.info("swept", lane=self._lane, rows=moved)
        return moved

    def decide(self, standing: Standing) -> tuple[Standing, str]:
        """Where a row goes: leased → pending; sending → unknown, and on from there as the provider's traits say."""
        reason = "its worker stopped before the answer came"
        if standing.state is not State.UNKNOWN:
            standing = step(standing, Event.LEASE_LOST)
            if standing.state is not State.UNKNOWN:
                return standing, "its worker stopped before sending"
        decision = after_doubt(standing, self._traits, self._clock.now_s(), self._limits, reason)
        return follow(standing, decision.events), decision.reason or reason
