"""Writes the tables and the diagram of delivery.md from the functions that decide: `python docs/draw_states.py`."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from pathlib import Path

from blocks import main, table

from streams.adapters.http.outcomes import outcome_of
from streams.domain.delivery import OPEN, Event, Limits, NotAllowed, Standing, State, after_attempt, follow, step
from streams.domain.outcome import AttemptResult, Outcome

_STARTED_S = 1_000_000.0
_DAY_S = 86_400.0
_MOST_SPANS = 4


@dataclass(frozen=True)
class _Traits:
    honours_idempotency: bool
    idempotency_window_s: float | None = _DAY_S
    has_lookup: bool = False
    timeout_s: float = 10.0


def comments(kind: type[StrEnum]) -> dict[str, str]:
    """The comment beside each member, by its name."""
    return dict(re.findall(r"^    ([A-Z_]+) = .*?  # (.*)$", inspect.getsource(kind), re.MULTILINE))


def tried(state: State, event: Event, doubt_s: float | None) -> Standing | None:
    """What the event makes of a row in this state with one attempt behind it; none where it does not apply."""
    standing = Standing(state, 1, 1, doubt_s, raised_doubt=state is State.SENDING and doubt_s == _STARTED_S)
    try:
        return step(standing, event, _STARTED_S)
    except NotAllowed:
        return None


def diagram() -> str:
    """Every move as a mermaid state diagram; late success, possible from everywhere, is drawn where it is usual."""
    moves: dict[tuple[State, State], list[str]] = {}
    for event in Event:
        for state in State if event is not Event.SUCCEEDED else (State.SENDING,):
            if (after := tried(state, event, None)) is not None:
                moves.setdefault((state, after.state), []).append(event.value)
    lines = ["stateDiagram-v2", "    [*] --> pending: taken in"]
    lines += [f"    {before} --> {after}: {', '.join(events)}" for (before, after), events in sorted(moves.items())]
    lines += [f"    {state} --> [*]" for state in State if state not in OPEN]
    return "\n".join(["```mermaid", *lines, "```"])


def moves_table() -> str:
    """Each event with its moves, and what it does to fence and doubt."""
    said = comments(Event)
    rows = []
    for event in Event:
        found = [(state, after) for state in State if (after := tried(state, event, None)) is not None]
        in_doubt = [state for state, _ in found if tried(state, event, 1.0) is not None]
        by_target = groupby(sorted(found, key=lambda move: move[1].state), key=lambda move: move[1].state)
        text = "; ".join(f"{_from([state for state, _ in moves])} → {target}" for target, moves in by_target)
        rises = "+1" if all(after.fence == 2 for _, after in found) else ""
        rows.append([f"`{event.value}`", said[event.name], text, rises, "" if in_doubt else "never"])
    return table(["event", "who, and what it means", "move", "fence", "in doubt"], rows)


def _from(states: list[State]) -> str:
    return "any state, after an attempt" if len(states) == len(State) else ", ".join(states)


def outcomes_table() -> str:
    """Each outcome with the statuses that mean it, and the state it leads to."""
    rows = []
    for outcome in Outcome:
        first, last = 1, Limits().attempts
        keys, none = _Traits(True), _Traits(False, None)
        decision = after_attempt(_sending(first), AttemptResult(outcome), keys, _STARTED_S + 1, 0.5, Limits())
        also = [
            text
            for text, said in (
                ("the lane waits", decision.block_lane_s is not None),
                ("the lane is held", decision.hold_lane),
                ("the destination is disabled", decision.disable_destination),
            )
            if said
        ]
        states = (
            _state(outcome, _sending(first), keys),
            _state(outcome, _sending(first), none),
            _state(outcome, _sending(first + 1, _STARTED_S - 2 * _DAY_S), keys),
            _state(outcome, _sending(last), keys),
        )
        rows.append([f"`{outcome.value}`", _statuses(outcome), *states, "; ".join(also)])
    head = ["outcome", "HTTP", "keys honoured", "no keys", "earlier doubt", f"{Limits().attempts}th attempt", "also"]
    return table(head, rows)


def _sending(attempts: int, doubt_s: float = _STARTED_S) -> Standing:
    return Standing(State.SENDING, 1, attempts, doubt_s, raised_doubt=doubt_s == _STARTED_S)


def _state(outcome: Outcome, sending: Standing, traits: _Traits) -> str:
    decision = after_attempt(sending, AttemptResult(outcome), traits, _STARTED_S + 10, 0.5, Limits())
    return follow(sending, decision.events).state.value


def _statuses(outcome: Outcome) -> str:
    """`200 to 299` and so on, of everything an HTTP server can answer with."""
    found = [status for status in range(200, 600) if outcome_of(status) is outcome]
    spans = [[status for _, status in run] for _, run in groupby(enumerate(found), key=lambda pair: pair[1] - pair[0])]
    if len(spans) > _MOST_SPANS:
        return f"any other from {found[0]} to {found[-1]}"
    return ", ".join(f"{span[0]} to {span[-1]}" if len(span) > 2 else ", ".join(map(str, span)) for span in spans)


def blocks() -> dict[str, str]:
    """What this program writes, by name."""
    return {"states": diagram(), "moves": moves_table(), "outcomes": outcomes_table()}


if __name__ == "__main__":
    sys.exit(main(Path(__file__).with_name("delivery.md"), blocks))
