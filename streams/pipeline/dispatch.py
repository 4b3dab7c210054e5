"""Dispatch of one lane: reserve budget, claim due rows, record `sending`, send, hand the outcome on.

Each turn starts what may start now. A start is recorded, with its attempt, in one statement, and only for sends that
follow at once; after it, and before the first byte, the lease must still cover the send's time-out and a margin. What
is claimed and not started goes back when the lane is blocked for long or the worker stops.

Should a statement's answer be lost, nothing is guessed: rows that may have been claimed are let go of, rows that may
have been started are settled as unsent, which they are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from streams.domain.delivery import Decision, Event, Limits, Standing, State, after_attempt, may_send, step
from streams.domain.errors import ServiceUnreachable
from streams.domain.outcome import AttemptResult, Outcome
from streams.pipeline.lease import Lease
from streams.pipeline.ledger import Claimed, LaneLedger
from streams.pipeline.outcomes import Outcomes, told
from streams.pipeline.pacing import Pacer, Window
from streams.pipeline.provider import Provider, SendRequest

MARGIN_S: Final = 1.0
_IDLE_S: Final = 0.2
_COLLIDED_S: Final = 0.02
_LOOK_FOR_LOST_S: Final = 30.0
_QUANTUM_S: Final = 0.04
_LONG_BLOCK_S: Final = 2.0
_RESERVE_S: Final = 0.25
_ANSWER_S: Final = 0.02
_MOST_AT_ONCE: Final = 64
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 5.0
_US: Final = 1_000_000
_WINDOW_OVER: Final = "an attempt is in doubt, and the idempotency window is over"

_log = structlog.get_logger()


class Clock(Protocol):
    """Real time for people and windows; boot time for leases and pacing."""

    def now_s(self) -> float: ...
    def boot_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """How a lane is served. `grace_s` is how long a stop waits for sends in flight."""

    limits: Limits = field(default_factory=Limits)
    most_in_flight: int = 256
    grace_s: float = 3.0


class LaneDispatch:
    """One lane of one worker. `run` until `stop`; `wake` when rows may have become due."""

    def __init__(
        self,
        lane: str,
        ledger: LaneLedger,
        provider: Provider,
        pacer: Pacer,
        lease: Lease,
        clock: Clock,
        delivery_now_s: Callable[[], float],
        uniform: Callable[[], float],
        terms: Terms,
    ) -> None:
        """Nothing is claimed yet. `lane` is its name for people."""
        self._lane = lane
        self._ledger = ledger
        self._provider = provider
        self._pacer = pacer
        self._lease = lease
        self._clock = clock
        self._delivery_now_s = delivery_now_s
        self._uniform = uniform
        self._terms = terms
        self._outcomes = Outcomes(ledger, lane)
        self._ready: deque[Claimed] = deque()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._window = Window(pacer.gcra, terms.most_in_flight)
        self._session: int | None = None
        self._most_want = max(1, int(pacer.gcra.rate_per_s * _RESERVE_S))
        self._gone_by = 1 + int(pacer.gcra.rate_per_s * _ANSWER_S)
        self._more_due = False
        self._woken = asyncio.Event()
        self._fresh = True
        self._blocked_until_s = float("-inf")
        self._look_for_lost_s = float("-inf")
        self._held: str | None = None

    def wake(self) -> None:
        """Rows may have become due. From the loop's own thread."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`. Then what is claimed goes back, and what is in flight has `grace_s` to end."""
        settling, waking = asyncio.create_task(self._outcomes.run()), asyncio.create_task(self._wake_at(stop))
        failing_s = 0.0
        try:
            while not stop.is_set():
                if settling.done():
                    await settling  # a mistake of ours: raised here, or sends would go on and none be settled
                try:
                    wait_s = await self._turn()
                    failing_s = 0.0
                except ServiceUnreachable as error:
                    failing_s = min(max(failing_s * 2, _FIRST_WAIT_S), _LONGEST_WAIT_S)
                    _log.warning("lane_waits", lane=self._lane, problem=str(error), again_in_s=failing_s)
                    self._forget()
                    wait_s = failing_s
                if wait_s > 0:
                    await self._pause(wait_s)
            await self._finish()
        finally:
            settling.cancel()
            waking.cancel()
            await asyncio.gather(settling, waking, return_exceptions=True)
            for task in self._in_flight:
                task.cancel()

    async def _turn(self) -> float:
        """Start what may start now; how long there is nothing to do."""
        session = self._lease.session
        if session is None:
            return _IDLE_S
        if session != self._session:
            self._ready.clear()
            self._session = session
        blocked_s = self._blocked_until_s - self._clock.boot_s()
        if blocked_s > 0:
            if blocked_s > _LONG_BLOCK_S:
                await self._give_back()
            return min(blocked_s, _IDLE_S)
        room = self._window.size - len(self._in_flight)
        if room <= 0:
            return _QUANTUM_S
        if not self._covered(session):
            return _IDLE_S
        wait_s = await self._provide(session)
        if not self._ready:
            return wait_s
        now_us = self._now_us()
        count = self._pacer.spend(now_us, min(len(self._ready), room, _MOST_AT_ONCE))
        if count:
            await self._start(session, [self._ready.popleft() for _ in range(count)])
            return _QUANTUM_S if self._ready else 0.0
        wait_us = self._pacer.wait_us(now_us)
        return wait_s if wait_us is None else max(wait_us / _US, min(_QUANTUM_S, self._pacer.gcra.burst_us / _US / 4))

    async def _provide(self, session: int) -> float:
        """See that there are rows, and slots for them. How long to wait if there are none."""
        rows, slots = len(self._ready), self._pacer.available(self._now_us())
        if rows and not (self._more_due and rows <= self._most_want // 3):
            return 0.0 if slots >= rows else await self._reserve(rows - slots)
        if not rows:
            await self._let_go_of_lost(session)
        fresh, self._fresh = self._fresh, False
        due = await self._ledger.due(self._delivery_now_s(), self._most_want, fresh=fresh)
        self._more_due = due >= self._most_want
        if not due:
            return _IDLE_S
        if slots < rows + due:
            wait_s = await self._reserve(rows + due - slots)
            slots = self._pacer.available(self._now_us())
            if slots <= rows:
                return wait_s or _COLLIDED_S
        claimed = await self._claim(session, min(slots - rows, due))
        return 0.0 if claimed else _COLLIDED_S

    async def _let_go_of_lost(self, session: int) -> None:
        """Nothing is ready, so whatever the session still has leased here was claimed by a statement whose answer was
        lost. Looked for after such a loss, and now and then, for the statement may end long after its connection.
        """
        if self._clock.boot_s() < self._look_for_lost_s:
            return
        if lost := await self._ledger.release_all(session):
            _log.info("lost_claims_let_go", lane=self._lane, rows=lost)
        self._look_for_lost_s = self._clock.boot_s() + _LOOK_FOR_LOST_S

    async def _reserve(self, want: int) -> float:
        """Ask for slots, and for as many more as go by while the answer comes. How long to wait if there are none."""
        grant = await self._ledger.reserve(self._pacer.gcra, want + self._gone_by)
        self._pacer.add(grant, self._now_us())
        if grant.held != self._held:
            self._held = grant.held
            _log.warning("lane_held" if grant.held else "lane_released", lane=self._lane, reason=grant.held)
        if grant.reservation.count:
            return 0.0
        if grant.held or grant.reservation.wait_us > _LONG_BLOCK_S * _US:
            await self._give_back()
        return min(grant.reservation.wait_us / _US, _IDLE_S)

    async def _claim(self, session: int, want: int) -> int:
        """Claim rows, and put aside those that are not to be sent. How many were claimed."""
        now_s = self._delivery_now_s()
        claimed = await self._ledger.claim(session, now_s, want)
        over, disabled = [], []
        for row in claimed:
            ending = self._over(row, now_s)
            if ending is not None:
                over.append((row, *ending))
            elif row.disabled:
                disabled.append((row, "its destination is disabled"))
            else:
                self._ready.append(row)
        if over:
            await self._ledger.close(session, over)
        if disabled:
            await self._ledger.withhold(session, disabled)
        return len(claimed)

    @staticmethod
    def _over(row: Claimed, now_s: float) -> tuple[State, str] | None:
        """How a claimed row ends without a send, if it does. In doubt it never does."""
        if row.standing.in_doubt_since_s is not None:
            return None
        if row.ended is not None:
            return State.CANCELLED, f"the schedule was {row.ended}"
        if row.fire.deliver_by_s is not None and now_s > row.fire.deliver_by_s:
            return State.EXPIRED, "deliver_by has passed"
        return None

    async def _start(self, session: int, rows: Sequence[Claimed]) -> None:
        traits, now_s = self._provider.traits, self._clock.now_s()
        starts, late = [], []
        for row in rows:
            if may_send(row.standing, traits, now_s + MARGIN_S):
                starts.append((row, self._provider.render(row.fire) if row.body is None else row.body))
            else:
                late.append((row, _WINDOW_OVER))
        if late:
            await self._ledger.withhold(session, late)
        if not starts:
            return
        asked_s = self._clock.boot_s()
        try:
            begun = await self._ledger.begin(session, starts)
        except ServiceUnreachable:
            for row, _ in starts:
                self._unsent(row, now_s, "its start may not have been recorded, so it was not sent")
            raise
        covered, took_s, count = self._covered(session), self._clock.boot_s() - asked_s, 0
        for row, body in starts:
            at_s = begun.get(row.row)
            if at_s is None:
                _log.info("stale_claim", lane=self._lane, key=row.fire.key)
            elif not covered:
                self._unsent(row, at_s, "the lease would not have covered it, so it was not sent")
            elif not may_send(row.standing, traits, at_s + took_s + MARGIN_S):
                # by the ledger's own clock, on which the doubt began: by that it is now `at_s + took_s` at the latest
                self._unsent(row, at_s, _WINDOW_OVER, Event.RECALLED)
            else:
                count += 1
                task = asyncio.create_task(self._attempt(row, body, at_s))
                self._in_flight.add(task)
                task.add_done_callback(self._in_flight.discard)
        self._pacer.begun(self._now_us(), count)

    async def _attempt(self, row: Claimed, body: bytes, at_s: float) -> None:
        sending = step(row.standing, Event.STARTED, at_s)
        began_s = self._clock.boot_s()
        try:
            result = await self._provider.send(SendRequest(row.fire.key, row.fire.key, row.fire.to, body))
        except asyncio.CancelledError:
            result = AttemptResult(Outcome.UNKNOWN, detail="the worker stopped before the answer came")
        except Exception as error:  # noqa: BLE001 - an adapter that breaks its promise proves nothing, and stops nobody
            _log.exception("adapter_failed", lane=self._lane, key=row.fire.key)
            result = AttemptResult(Outcome.UNKNOWN, detail=f"the adapter failed: {type(error).__name__}")
        self._window.answered(self._clock.boot_s() - began_s)
        self._tell(row, sending, result)

    def _tell(self, row: Claimed, sending: Standing, result: AttemptResult) -> None:
        now_s = self._clock.now_s()
        decision = after_attempt(sending, result, self._provider.traits, now_s, self._uniform(), self._terms.limits)
        pause_s = _IDLE_S if decision.hold_lane else decision.block_lane_s
        if pause_s is not None:
            self._blocked_until_s = max(self._blocked_until_s, self._clock.boot_s() + pause_s)
            self._pacer.drop()
        self._outcomes.add(told(row, sending, result, decision))

    def _unsent(self, row: Claimed, at_s: float, why: str, then: Event = Event.REFUSED) -> None:
        """An attempt that was recorded, or may have been, and was not made."""
        sending = step(row.standing, Event.STARTED, at_s)
        result = AttemptResult(Outcome.UNSENT, detail=why)
        self._outcomes.add(told(row, sending, result, Decision((then,), reason=why)))

    def _covered(self, session: int) -> bool:
        return self._lease.covers(session, self._clock.boot_s(), self._provider.traits.timeout_s + MARGIN_S)

    def _forget(self) -> None:
        """After a lost answer: what is claimed is let go of before anything else is claimed."""
        self._ready.clear()
        self._look_for_lost_s = float("-inf")

    async def _give_back(self) -> None:
        rows = list(self._ready)
        self._ready.clear()
        if rows and self._session is not None:
            await self._ledger.release(self._session, rows)

    async def _finish(self) -> None:
        try:
            await self._give_back()
            if self._in_flight:
                await asyncio.wait(self._in_flight, timeout=self._terms.grace_s)
            left = set(self._in_flight)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            await self._outcomes.drain()
        except ServiceUnreachable as error:
            _log.warning("lane_left_open", lane=self._lane, problem=str(error), note="others sweep what is left")

    async def _pause(self, wait_s: float) -> None:
        """Wait, but for pacing not longer than until somebody says that rows may be due."""
        if self._ready:
            await asyncio.sleep(min(wait_s, _IDLE_S))
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()
        self._fresh = True

    async def _wake_at(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._woken.set()

    def _now_us(self) -> int:
        return int(self._clock.boot_s() * _US)
