"""The ledger as the steps see it: what intake writes, and what a lane's dispatch claims, begins and settles.

Every method is one transaction. ServiceUnreachable means that it is not known whether it took effect; each may be
called again. A guard that fails (a stale fence, a row that has moved on) is no error: the row is left alone, and what
comes back says for which rows the move was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import NamedTuple, Protocol

from streams.domain.budget import Gcra, Reservation
from streams.domain.delivery import Standing, State
from streams.domain.occurrence import Ended, Fire
from streams.domain.outcome import Outcome


class RowKey(NamedTuple):
    """A row's identity, in the order in which every batch is sorted. `mode` is 0 live, 1 shadow."""

    date: date
    key: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """A fire with where it was read."""

    row: RowKey
    fire: Fire
    partition: int
    offset: int
    traceparent: str | None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A record that can't be taken in, whole, and why."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    reason: str


@dataclass(slots=True)
class Batch:
    """What one transaction of intake makes durable. `known` are duplicates recognised, with their partitions."""

    topic: str
    topic_id: str
    next_offsets: dict[int, int] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    known: list[tuple[RowKey, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch came to: new rows by the state they began in, and duplicates."""

    begun: Mapping[str, int]
    duplicates: int


class IntakeLedger(Protocol):
    """One owner thread."""

    def next_offsets(self, topic: str, topic_id: str) -> dict[int, int]:
        """How far each partition is durably taken in."""
        ...

    def known(self, keys: Mapping[date, Sequence[bytes]]) -> set[RowKey]:
        """Which keys are in the ledger, by date."""
        ...

    def write(self, batch: Batch) -> Written:
        """All of it in one transaction. Raises InvalidInput if a record in it can't be stored: then nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Claimed:
    """A leased row with its terms. `body` is the first attempt's, if there was one.

    `ended` says why its schedule is over, if it is and the terms say to cancel. `disabled`: nothing goes there now.
    """

    row: RowKey
    standing: Standing
    fire: Fire
    body: bytes | None
    ended: str | None
    disabled: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of attempt `n`, and the row's state after it. `no_doubt`: no attempt of it is in doubt now."""

    row: RowKey
    fence: int
    n: int
    outcome: Outcome
    code: int | None
    detail: str
    state: State
    wait_s: float
    no_doubt: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A reservation on the database's clock, which said `now_us`. `held`: why the lane is held, if it is."""

    reservation: Reservation
    now_us: int
    held: str | None


Swept = Callable[[Standing], tuple[Standing, str]]


class LaneLedger(Protocol):
    """One lane's rows and budget. For one event loop."""

    async def due(self, now_s: float, most: int, *, fresh: bool) -> int:
        """How many rows could be claimed, up to `most`. Without `fresh`, what came in the last second may be missed."""
        ...

    async def reserve(self, gcra: Gcra, want: int) -> Grant:
        """Up to `want` slots of the budget; none, and a wait, where it is spent, blocked or held."""
        ...

    async def claim(self, session: int, now_s: float, want: int) -> list[Claimed]:
        """Lease up to `want` rows due at `now_s` (delivery time), fair between tenants. Their fences have risen."""
        ...

    async def begin(self, session: int, starts: Sequence[tuple[Claimed, bytes]]) -> dict[RowKey, float]:
        """leased → sending, each with its attempt. Returns the rows that may be sent, with their attempts' start."""
        ...

    async def settle(self, outcomes: Sequence[Settled]) -> int:
        """Record outcomes. Success settles past any fence. Returns how many others were stale and left alone."""
        ...

    async def release(self, session: int, rows: Sequence[Claimed]) -> None:
        """leased → pending."""
        ...

    async def release_all(self, session: int) -> int:
        """leased → pending for every row the session still holds on this lane."""
        ...

    async def withhold(self, session: int, rows: Sequence[tuple[Claimed, str]]) -> None:
        """leased → review, with the reason."""
        ...

    async def close(self, session: int, rows: Sequence[tuple[Claimed, State, str]]) -> None:
        """leased → cancelled or expired, with the reason."""
        ...

    async def block(self, wait_s: float) -> None:
        """Nobody sends on this lane for so long."""
        ...

    async def hold(self, reason: str) -> None:
        """Nobody sends on this lane until a person has released it."""
        ...

    async def disable(self, destination: str, reason: str) -> None:
        """Nothing is sent there any more."""
        ...

    async def sessions_over(self) -> object:
        """A value that changes whenever another session has ended: then a sweep is worth its while."""
        ...

    async def sweep(self, decide: Swept, stuck_s: float = 600.0) -> int:
        """Rows of sessions that are over, rows that have been `sending` for `stuck_s`, and rows of which nothing is
        known: some hundreds of them, each to what `decide` says. Returns how many were moved.
        """
        ...
