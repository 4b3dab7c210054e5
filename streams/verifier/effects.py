"""The provider's own log: what took effect, and what else the lanes answered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streams.verifier.documents import VerifierError

EVENTS = frozenset(
    {"accepted", "replayed", "rate_limited", "in_progress", "lost_answer", "answered", "control"},
)


@dataclass(frozen=True, slots=True)
class Effect:
    """One side effect: an `accepted` line. `line` is its number in the log, `at_s` the provider's clock."""

    line: int
    lane: str
    key: str
    at_s: float
    body: Mapping[str, Any]


@dataclass(slots=True)
class ProviderLog:
    """Effects in the order they took place, and how often each lane wrote each event."""

    effects: list[Effect] = field(default_factory=list)
    events: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, event: str) -> int:
        """How often an event stands in the log, over all lanes."""
        return sum(counts[event] for counts in self.events.values())


def read_log(path: Path) -> ProviderLog:
    """Read a window's log. Raises VerifierError for a line it can't read: none is passed over in silence."""
    log = ProviderLog()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise VerifierError(f"{path}: {error.strerror}; a window needs the provider's log") from error
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            event, lane = entry["event"], entry["lane"]
            if event not in EVENTS:
                raise ValueError(f"unknown event {event!r}")
            log.events.setdefault(lane, Counter())[event] += 1
            if event == "accepted":
                log.effects.append(_effect(number, entry))
        except (KeyError, TypeError, ValueError) as error:
            raise VerifierError(f"{path}:{number}: not a line of the provider's log: {error!r}") from error
    return log


def _effect(number: int, entry: Mapping[str, Any]) -> Effect:
    """An accepted line. One without a key or without an object as its body is refused."""
    key, body = entry["idempotency_key"], entry["body"]
    if not isinstance(key, str) or not isinstance(body, dict):
        raise ValueError("an accepted line has no key or no body")
    return Effect(number, entry["lane"], key, float(entry["at"]), body)
