"""Whatever happens to a row, in whatever order: the promises of the state machine hold."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from streams.domain.delivery import (
    Event,
    Limits,
    NotAllowed,
    Standing,
    State,
    after_attempt,
    after_doubt,
    follow,
    may_send,
    step,
)
from streams.domain.outcome import AttemptResult, Outcome

WINDOW_S = 50.0


@dataclass(frozen=True)
class Traits:
    honours_idempotency: bool
    idempotency_window_s: float | None = WINDOW_S
    has_lookup: bool = False
    timeout_s: float = 5.0


@given(st.lists(st.tuples(st.sampled_from(Event), st.floats(0, 1000)), max_size=60))
def test_any_events_in_any_order(events: list[tuple[Event, float]]) -> None:
    standing = Standing(State.WAITING)
    for event, at_s in events:
        before = standing
        try:
            standing = step(standing, event, at_s)
        except NotAllowed:
            assert standing == before
            continue
        assert standing.fence >= before.fence
        assert standing.attempts == before.attempts + (event is Event.STARTED)
        if standing.state in (State.CANCELLED, State.EXPIRED, State.SUPERSEDED):
            assert before.in_doubt_since_s is None or before.state is standing.state
        if standing.state is State.LEASED and before.state is not State.LEASED:
            assert standing.fence == before.fence + 1
        if standing.state is State.SENDING:
            assert standing.in_doubt_since_s is not None


@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(Outcome), st.floats(0, 30), st.booleans(), st.floats(0, 0.99)), max_size=30),
)
def test_in_doubt_no_send_starts_outside_the_window(
    honours: bool, tries: list[tuple[Outcome, float, bool, float]]
) -> None:
    """A worker's life with one row: send, be answered or swept, wait, again. An effect may have happened from the first
    attempt whose outcome is unknown; from then on every send ends inside the window, or there is none.
    """
    traits, limits = Traits(honours), Limits()
    standing, now_s = Standing(State.PENDING), 0.0
    possible_since_s: float | None = None
    for outcome, pause_s, swept, uniform in tries:
        now_s += pause_s
        if standing.state not in (State.PENDING, State.RETRY):
            break
        standing = step(standing, Event.CLAIMED)
        if not may_send(standing, traits, now_s):
            standing = step(standing, Event.WITHHELD)
            break
        if possible_since_s is not None:
            assert honours
            assert now_s + traits.timeout_s <= possible_since_s + WINDOW_S
        standing = step(standing, Event.STARTED, now_s)
        if (outcome is Outcome.UNKNOWN or swept) and possible_since_s is None:
            possible_since_s = now_s
        if swept:
            standing = step(standing, Event.LEASE_LOST)
            standing = follow(standing, after_doubt(standing, traits, now_s, limits, "swept").events)
        else:
            decision = after_attempt(standing, AttemptResult(outcome), traits, now_s, uniform, limits)
            standing = follow(standing, decision.events)
    if standing.state in (State.RETRY, State.PENDING, State.REVIEW):
        assert (standing.in_doubt_since_s is None) == (possible_since_s is None)
