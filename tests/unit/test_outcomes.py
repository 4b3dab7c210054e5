"""The buffer of outcomes: none is lost or left out, whoever settles."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date

from streams.domain.delivery import Decision, Event, Standing, State
from streams.domain.errors import ServiceUnreachable
from streams.domain.outcome import AttemptResult, Outcome
from streams.pipeline.ledger import Claimed, RowKey, Settled
from streams.pipeline.outcomes import MOST_ROWS, Outcomes, Told, told
from tests.ledger_support import make_fire

ROW = RowKey(date(2026, 11, 1), b"k", 0)


class Ledger:
    """Keeps what was settled, one statement after the other; is away `away` times."""

    def __init__(self, away: int = 0) -> None:
        self.settled: list[int] = []
        self.away = away

    async def settle(self, outcomes: Sequence[Settled]) -> int:
        await asyncio.sleep(0.01)
        if self.away:
            self.away -= 1
            raise ServiceUnreachable("away")
        self.settled += [settled.n for settled in outcomes]
        return 0


def outcome(n: int) -> Told:
    settled = Settled(ROW, 1, n, Outcome.DONE, 200, "", State.DONE, 0.0, True, "")
    return Told(settled, Decision((Event.SUCCEEDED,)), "a")


def test_what_is_drained_while_a_batch_is_settled_is_settled_too() -> None:
    ledger, count = Ledger(), MOST_ROWS + 50

    async def run() -> None:
        buffer = Outcomes(ledger, "eu/eu-mail")  # type: ignore[arg-type]
        settling = asyncio.create_task(buffer.run())
        for n in range(count):
            buffer.add(outcome(n))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await buffer.drain()
        settling.cancel()

    asyncio.run(run())
    assert sorted(set(ledger.settled)) == list(range(count))


def test_outcomes_outlive_a_ledger_that_is_away() -> None:
    ledger = Ledger(away=2)

    async def run() -> None:
        buffer = Outcomes(ledger, "eu/eu-mail")  # type: ignore[arg-type]
        settling = asyncio.create_task(buffer.run())
        buffer.add(outcome(1))
        async with asyncio.timeout(10):
            while not ledger.settled:
                await asyncio.sleep(0.01)
        settling.cancel()

    asyncio.run(run())
    assert ledger.settled == [1]


def test_what_an_adapter_says_can_be_stored() -> None:
    claimed = Claimed(ROW, Standing(State.LEASED, 1), make_fire(), None, None, False)
    sending = Standing(State.SENDING, 1, 1, 5.0, True)
    said = "a\0b\udc80" + "x" * 5000
    settled = told(
        claimed, sending, AttemptResult(Outcome.REJECTED, 400, None, said), Decision((Event.RECALLED,), reason=said)
    )
    for text in (settled.settled.detail, settled.settled.reason):
        assert text.startswith("a b?xxx")
        assert len(text) == 1000
