"""The life of one occurrence in the ledger: one pure function of (state, event), and what an attempt's answer leads to.

    waiting -> pending -> leased -> sending -> done | retry | unknown | review
    retry -> leased        leased -> pending (lease lost before sending: no attempt used)
    leased -> review (withheld: a send may not start)        unknown -> retry | done | review
    waiting, pending, retry -> cancelled | expired | superseded (never in doubt)
    waiting, pending -> shadowed        review -> pending | discarded | done (a person)
    evidence of success -> done, from every state in which an attempt was made

A row is *in doubt* from the start of its first attempt that is not proven to have had no effect. A later refusal proves
nothing about an earlier attempt, so only the attempt that raised a doubt can clear it. In doubt, a row is never
cancelled, expired or superseded, and a send starts only if it ends inside the provider's idempotency window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Protocol

from streams.domain.outcome import AttemptResult, Outcome
from streams.domain.retry import Backoff


class State(StrEnum):
    """Where an occurrence stands. The first seven are open; the others are how it ended."""

    WAITING = "waiting"
    PENDING = "pending"
    LEASED = "leased"
    SENDING = "sending"
    RETRY = "retry"
    UNKNOWN = "unknown"
    REVIEW = "review"
    DONE = "done"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    SHADOWED = "shadowed"
    DISCARDED = "discarded"


OPEN: Final = frozenset(
    {State.WAITING, State.PENDING, State.LEASED, State.SENDING, State.RETRY, State.UNKNOWN, State.REVIEW}
)


class Event(StrEnum):
    """What happens to a row. The comment says who makes it happen."""

    FIRED = "fired"  # intake: an obligation got its terms
    SHADOWED = "shadowed"  # intake: its schedule only shadows
    CLAIMED = "claimed"  # dispatch: leased to a session
    STARTED = "started"  # dispatch: the attempt is recorded and the send begins
    WITHHELD = "withheld"  # dispatch: no send may start (window over, destination disabled)
    REFUSED = "refused"  # the attempt had no effect; another follows
    RECALLED = "recalled"  # the attempt had no effect; a person decides
    LOST = "lost"  # nothing is known of the attempt
    SUCCEEDED = "succeeded"  # the provider has taken it, however late we hear
    LEASE_LOST = "lease_lost"  # sweep, or a clean stop: the session is over
    RESEND = "resend"  # what can't be known is sent again under the same idempotency key
    GIVEN_UP = "given_up"  # what can't be known goes to a person
    ENDED = "ended"  # the schedule was deleted or paused
    EXPIRED = "expired"  # deliver_by has passed
    SUPERSEDED = "superseded"  # a newer occurrence of its schedule is due
    REQUEUED = "requeued"  # a person: send it, whatever the doubt
    DISCARDED = "discarded"  # a person: never send it
    CONFIRMED = "confirmed"  # a person: it did take effect


@dataclass(frozen=True, slots=True)
class Standing:
    """One row's state. `fence` rises with every claim and every loss of one, and never falls.

    `attempts` rises when `sending` begins. `raised_doubt`: the attempt in flight is the one that the doubt began with.
    Times are epoch seconds.
    """

    state: State
    fence: int = 0
    attempts: int = 0
    in_doubt_since_s: float | None = None
    raised_doubt: bool = False


class NotAllowed(ValueError):
    """The event does not apply in this state: the row is left as it is."""

    def __init__(self, standing: Standing, event: Event) -> None:
        doubt = ", in doubt" if standing.in_doubt_since_s is not None else ""
        super().__init__(f"{event.value} does not apply to a row that is {standing.state.value}{doubt}")


_BEFORE_SENDING: Final = (State.WAITING, State.PENDING, State.RETRY)
_MOVES: Final[Mapping[Event, Mapping[State, State]]] = {
    Event.FIRED: {State.WAITING: State.PENDING},
    Event.SHADOWED: {State.WAITING: State.SHADOWED, State.PENDING: State.SHADOWED},
    Event.CLAIMED: {State.PENDING: State.LEASED, State.RETRY: State.LEASED},
    Event.STARTED: {State.LEASED: State.SENDING},
    Event.WITHHELD: {State.LEASED: State.REVIEW},
    Event.REFUSED: {State.SENDING: State.RETRY},
    Event.RECALLED: {State.SENDING: State.REVIEW},
    Event.LOST: {State.SENDING: State.UNKNOWN},
    Event.LEASE_LOST: {State.LEASED: State.PENDING, State.SENDING: State.UNKNOWN},
    Event.RESEND: {State.UNKNOWN: State.RETRY},
    Event.GIVEN_UP: {State.UNKNOWN: State.REVIEW},
    Event.ENDED: dict.fromkeys(_BEFORE_SENDING, State.CANCELLED),
    Event.EXPIRED: dict.fromkeys(_BEFORE_SENDING, State.EXPIRED),
    Event.SUPERSEDED: dict.fromkeys(_BEFORE_SENDING, State.SUPERSEDED),
    Event.REQUEUED: {State.REVIEW: State.PENDING},
    Event.DISCARDED: {State.REVIEW: State.DISCARDED},
    Event.CONFIRMED: {State.REVIEW: State.DONE},
}
_NEVER_IN_DOUBT: Final = frozenset({Event.ENDED, Event.EXPIRED, Event.SUPERSEDED})
_NO_EFFECT: Final = frozenset({Event.REFUSED, Event.RECALLED})
_NEW_FENCE: Final = frozenset({Event.CLAIMED, Event.LEASE_LOST, *_NEVER_IN_DOUBT})


def step(standing: Standing, event: Event, at_s: float | None = None) -> Standing:
    """What `event` makes of a row. `at_s` is the attempt's start, for STARTED only.

    Raises NotAllowed where the event does not apply, and for ENDED, EXPIRED and SUPERSEDED while the row is in doubt.
    """
    if event is Event.SUCCEEDED:
        if standing.attempts < 1:
            raise NotAllowed(standing, event)
        return replace(standing, state=State.DONE, in_doubt_since_s=None, raised_doubt=False)
    target = _MOVES[event].get(standing.state)
    if target is None or (event in _NEVER_IN_DOUBT and standing.in_doubt_since_s is not None):
        raise NotAllowed(standing, event)
    if event is Event.STARTED:
        return _started(standing, at_s)
    doubt_s = standing.in_doubt_since_s
    if event is Event.REQUEUED or target is State.DONE or (event in _NO_EFFECT and standing.raised_doubt):
        doubt_s = None
    fence = standing.fence + (event in _NEW_FENCE)
    return replace(standing, state=target, fence=fence, in_doubt_since_s=doubt_s, raised_doubt=False)


def _started(standing: Standing, at_s: float | None) -> Standing:
    if at_s is None:
        raise ValueError("an attempt starts at a time")
    since_s, raised = standing.in_doubt_since_s, standing.in_doubt_since_s is None
    since_s = at_s if since_s is None else since_s
    return Standing(State.SENDING, standing.fence, standing.attempts + 1, since_s, raised)


class Traits(Protocol):
    """What is relied on of a provider; see `streams.pipeline.provider.ProviderTraits`."""

    @property
    def honours_idempotency(self) -> bool: ...
    @property
    def idempotency_window_s(self) -> float | None: ...
    @property
    def has_lookup(self) -> bool: ...
    @property
    def timeout_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Limits:
    """How long delivery goes on by itself. After `attempts` attempts a person decides; a 429 never leads there."""

    attempts: int = 12
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True, slots=True)
class Decision:
    """What an answer leads to: the row's events in order, and what else is to be done.

    `wait_s` is the pause before the next attempt. `block_lane_s`: nobody sends on the lane for so long. `hold_lane`:
    nobody sends until a person has looked. `disable_destination`: nothing is sent there any more.
    """

    events: tuple[Event, ...]
    wait_s: float = 0.0
    reason: str = ""
    block_lane_s: float | None = None
    hold_lane: bool = False
    disable_destination: bool = False


def may_send(standing: Standing, traits: Traits, at_s: float) -> bool:
    """Whether a send that starts at `at_s` is allowed: not in doubt, or sure to end inside the idempotency window."""
    if standing.in_doubt_since_s is None:
        return True
    if not traits.honours_idempotency:
        return False
    window_s = traits.idempotency_window_s
    return window_s is None or at_s + traits.timeout_s <= standing.in_doubt_since_s + window_s


def after_attempt(
    standing: Standing, result: AttemptResult, traits: Traits, now_s: float, uniform: float, limits: Limits
) -> Decision:
    """What follows from the answer to the attempt in flight. `uniform` in [0, 1) is the jitter's random number."""
    wait_s = limits.backoff.delay_s(standing.attempts, uniform, result.retry_after_s)
    seen = result.detail or result.outcome.value
    match result.outcome:
        case Outcome.DONE:
            return Decision((Event.SUCCEEDED,))
        case Outcome.UNKNOWN:
            told = after_doubt(step(standing, Event.LOST), traits, now_s + wait_s, limits, seen)
            return replace(told, events=(Event.LOST, *told.events), wait_s=wait_s)
        case Outcome.REJECTED:
            return Decision((Event.RECALLED,), reason=seen)
        case Outcome.GONE:
            return Decision((Event.RECALLED,), reason=f"the destination is gone: {seen}", disable_destination=True)
        case Outcome.FORBIDDEN:
            return Decision((Event.REFUSED,), wait_s, reason=seen, hold_lane=True)
        case Outcome.RATE_LIMITED:
            asked_s = result.retry_after_s
            block_s = limits.backoff.base_s if asked_s is None else limits.backoff.clamp_retry_after_s(asked_s)
            refused = _refused(standing, traits, now_s, wait_s, seen)
            return replace(refused, block_lane_s=block_s)
        case Outcome.UNSENT:
            if standing.attempts >= limits.attempts:
                return Decision((Event.RECALLED,), reason=f"{standing.attempts} attempts, the last one: {seen}")
            return _refused(standing, traits, now_s, wait_s, seen)


def _refused(standing: Standing, traits: Traits, now_s: float, wait_s: float, seen: str) -> Decision:
    """Try again, unless an earlier attempt is in doubt and the next one could not end inside the window."""
    if not may_send(step(standing, Event.REFUSED), traits, now_s + wait_s):
        return Decision(
            (Event.RECALLED,), reason=f"an earlier attempt is in doubt, and its window is over; now: {seen}"
        )
    return Decision((Event.REFUSED,), wait_s, reason=seen)


def after_doubt(standing: Standing, traits: Traits, send_at_s: float, limits: Limits, seen: str) -> Decision:
    """What becomes of an unknown row whose next send would start at `send_at_s`. No events: it waits for a lookup."""
    if standing.attempts >= limits.attempts:
        return Decision((Event.GIVEN_UP,), reason=f"{standing.attempts} attempts, the last one unknown: {seen}")
    if may_send(standing, traits, send_at_s):
        return Decision((Event.RESEND,), reason=seen)
    if traits.has_lookup:
        return Decision((), reason=seen)
    why = "the idempotency window is over" if traits.honours_idempotency else "the provider has no idempotency keys"
    return Decision((Event.GIVEN_UP,), reason=f"it can't be known whether it took effect ({seen}), and {why}")


def follow(standing: Standing, events: tuple[Event, ...]) -> Standing:
    """The row after several events, none of which is STARTED."""
    for event in events:
        standing = step(standing, event)
    return standing
