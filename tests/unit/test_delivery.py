"""The state machine: every pair of state and event, doubt, and what follows from each answer."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from streams.domain.delivery import (
    OPEN,
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

# Written out by hand from the design: anything not here is not allowed.
ALLOWED: dict[tuple[State, Event], State] = {
    (State.WAITING, Event.FIRED): State.PENDING,
    (State.WAITING, Event.SHADOWED): State.SHADOWED,
    (State.PENDING, Event.SHADOWED): State.SHADOWED,
    (State.PENDING, Event.CLAIMED): State.LEASED,
    (State.RETRY, Event.CLAIMED): State.LEASED,
    (State.LEASED, Event.STARTED): State.SENDING,
    (State.LEASED, Event.WITHHELD): State.REVIEW,
    (State.LEASED, Event.LEASE_LOST): State.PENDING,
    (State.SENDING, Event.LEASE_LOST): State.UNKNOWN,
    (State.SENDING, Event.REFUSED): State.RETRY,
    (State.SENDING, Event.RECALLED): State.REVIEW,
    (State.SENDING, Event.LOST): State.UNKNOWN,
    (State.UNKNOWN, Event.RESEND): State.RETRY,
    (State.UNKNOWN, Event.GIVEN_UP): State.REVIEW,
    (State.REVIEW, Event.REQUEUED): State.PENDING,
    (State.REVIEW, Event.DISCARDED): State.DISCARDED,
    (State.REVIEW, Event.CONFIRMED): State.DONE,
    **{(state, Event.ENDED): State.CANCELLED for state in (State.WAITING, State.PENDING, State.RETRY)},
    **{(state, Event.EXPIRED): State.EXPIRED for state in (State.WAITING, State.PENDING, State.RETRY)},
    **{(state, Event.SUPERSEDED): State.SUPERSEDED for state in (State.WAITING, State.PENDING, State.RETRY)},
    **{(state, Event.SUCCEEDED): State.DONE for state in State},
}


@dataclass(frozen=True)
class Traits:
    honours_idempotency: bool = True
    idempotency_window_s: float | None = 100.0
    has_lookup: bool = False
    timeout_s: float = 10.0


SENDING = Standing(State.SENDING, 3, 1, 1000.0, True)
DOUBTED = Standing(State.SENDING, 3, 2, 900.0, False)


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_every_pair(state: State, event: Event) -> None:
    before = Standing(state, fence=4, attempts=1)
    if (state, event) not in ALLOWED:
        with pytest.raises(NotAllowed, match=f"{event.value} does not apply to a row that is {state.value}"):
            step(before, event, 50.0)
        return
    after = step(before, event, 50.0)
    assert after.state is ALLOWED[state, event]
    assert after.attempts == (2 if event is Event.STARTED else 1)
    assert after.fence in (4, 5)


@pytest.mark.parametrize("event", [Event.ENDED, Event.EXPIRED, Event.SUPERSEDED])
@pytest.mark.parametrize("state", [State.WAITING, State.PENDING, State.RETRY])
def test_in_doubt_nothing_ends_by_itself(state: State, event: Event) -> None:
    with pytest.raises(NotAllowed, match="in doubt"):
        step(Standing(state, 1, 1, in_doubt_since_s=10.0), event)


@pytest.mark.parametrize("event", [Event.CLAIMED, Event.LEASE_LOST, Event.ENDED])
def test_a_fence_rises_and_never_falls(event: Event) -> None:
    for (state, allowed), _ in ALLOWED.items():
        if allowed is event:
            assert step(Standing(state, fence=7), event).fence == 8
        elif allowed not in (Event.SUCCEEDED, Event.STARTED):
            assert step(Standing(state, fence=7), allowed).fence >= 7


def test_success_needs_an_attempt() -> None:
    with pytest.raises(NotAllowed):
        step(Standing(State.PENDING), Event.SUCCEEDED)


def test_the_first_attempt_raises_the_doubt_and_its_refusal_clears_it() -> None:
    sending = step(Standing(State.LEASED, 2), Event.STARTED, 1000.0)
    assert (sending.attempts, sending.in_doubt_since_s) == (1, 1000.0)
    assert step(sending, Event.REFUSED).in_doubt_since_s is None
    assert step(sending, Event.LOST).in_doubt_since_s == 1000.0


@pytest.mark.parametrize("at_s", [1000.0, 1060.0])
def test_a_later_refusal_does_not_clear_an_earlier_doubt(at_s: float) -> None:
    again = step(Standing(State.LEASED, 2, 1, in_doubt_since_s=1000.0), Event.STARTED, at_s)
    assert again.in_doubt_since_s == 1000.0
    for event in (Event.REFUSED, Event.RECALLED, Event.LOST):
        assert step(again, event).in_doubt_since_s == 1000.0


def test_a_lost_lease_keeps_the_doubt() -> None:
    assert step(SENDING, Event.LEASE_LOST).in_doubt_since_s == 1000.0
    assert step(Standing(State.LEASED, 1, 1, 5.0), Event.LEASE_LOST).in_doubt_since_s == 5.0


def test_a_person_may_send_whatever_the_doubt() -> None:
    assert step(Standing(State.REVIEW, 1, 1, 5.0), Event.REQUEUED).in_doubt_since_s is None


@pytest.mark.parametrize(
    ("doubt_s", "traits", "at_s", "allowed"),
    [
        (None, Traits(honours_idempotency=False), 10.0**9, True),
        (1000.0, Traits(), 1090.0, True),
        (1000.0, Traits(), 1090.1, False),
        (1000.0, Traits(idempotency_window_s=None), 10.0**9, True),
        (1000.0, Traits(honours_idempotency=False), 1000.0, False),
        (1000.0, Traits(honours_idempotency=False, has_lookup=True), 1000.0, False),
    ],
)
def test_a_send_in_doubt_ends_inside_the_window(
    doubt_s: float | None, traits: Traits, at_s: float, allowed: bool
) -> None:
    assert may_send(Standing(State.LEASED, 1, 1, doubt_s), traits, at_s) is allowed


def decide(
    result: AttemptResult, standing: Standing = SENDING, traits: Traits | None = None, now_s: float = 1001.0
) -> tuple[Standing, object]:
    decision = after_attempt(standing, result, traits or Traits(), now_s, 0.5, Limits(attempts=3))
    return follow(standing, decision.events), decision


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.DONE, State.DONE),
        (Outcome.UNSENT, State.RETRY),
        (Outcome.RATE_LIMITED, State.RETRY),
        (Outcome.UNKNOWN, State.RETRY),
        (Outcome.REJECTED, State.REVIEW),
        (Outcome.FORBIDDEN, State.RETRY),
        (Outcome.GONE, State.REVIEW),
    ],
)
def test_what_follows_from_each_outcome(outcome: Outcome, state: State) -> None:
    after, decision = decide(AttemptResult(outcome, 418, None, "said so"))
    assert after.state is state
    assert (after.in_doubt_since_s is None) is (outcome is not Outcome.UNKNOWN)
    assert decision.hold_lane is (outcome is Outcome.FORBIDDEN)
    assert decision.disable_destination is (outcome is Outcome.GONE)
    assert (decision.block_lane_s is not None) is (outcome is Outcome.RATE_LIMITED)
    assert outcome is Outcome.DONE or "said so" in decision.reason


def test_unknown_without_idempotency_goes_to_review() -> None:
    after, decision = decide(AttemptResult(Outcome.UNKNOWN), traits=Traits(honours_idempotency=False))
    assert after.state is State.REVIEW
    assert "no idempotency keys" in decision.reason


def test_unknown_with_a_lookup_waits_for_it() -> None:
    after, _ = decide(AttemptResult(Outcome.UNKNOWN), traits=Traits(honours_idempotency=False, has_lookup=True))
    assert after.state is State.UNKNOWN


def test_unknown_past_the_window_goes_to_review() -> None:
    after, decision = decide(AttemptResult(Outcome.UNKNOWN), now_s=1095.0)
    assert after.state is State.REVIEW
    assert "window is over" in decision.reason


@pytest.mark.parametrize("outcome", [Outcome.UNSENT, Outcome.UNKNOWN])
def test_attempts_are_capped(outcome: Outcome) -> None:
    after, decision = decide(AttemptResult(outcome), Standing(State.SENDING, 3, 3, 1000.0, True))
    assert after.state is State.REVIEW
    assert "3 attempts" in decision.reason


def test_a_429_is_never_capped_and_blocks_the_lane() -> None:
    after, decision = decide(
        AttemptResult(Outcome.RATE_LIMITED, 429, 7.0), Standing(State.SENDING, 3, 30, 1000.0, True)
    )
    assert after.state is State.RETRY
    assert decision.block_lane_s == 7.0
    assert decision.wait_s >= 7.0


def test_refused_with_an_earlier_doubt_past_its_window_goes_to_review() -> None:
    after, decision = decide(AttemptResult(Outcome.RATE_LIMITED, 429, 3600.0), DOUBTED)
    assert after.state is State.REVIEW
    assert after.in_doubt_since_s == 900.0
    assert "in doubt" in decision.reason
    assert decision.block_lane_s == 3600.0


def test_swept_rows_are_sent_again_or_go_to_a_person() -> None:
    unknown = step(SENDING, Event.LEASE_LOST)
    assert after_doubt(unknown, Traits(), 1010.0, Limits(), "swept").events == (Event.RESEND,)
    assert after_doubt(unknown, Traits(), 2000.0, Limits(), "swept").events == (Event.GIVEN_UP,)
    assert after_doubt(unknown, Traits(True, 1.0, True), 2000.0, Limits(), "swept").events == ()


def test_the_open_states_are_those_that_something_leads_out_of() -> None:
    assert frozenset(state for state, event in ALLOWED if event is not Event.SUCCEEDED) == OPEN
