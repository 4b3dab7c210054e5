"""The port to an outside provider: one attempt at one side effect, told as an outcome.

What an adapter promises: `render` is pure, so the bytes of the first attempt can be kept and sent again; `send` makes
at most one attempt, takes at most `traits.timeout_s`, and never claims more than it can prove. `UNSENT` and
`RATE_LIMITED` mean that nothing took effect. Whatever the adapter can't tell is `UNKNOWN`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from streams.domain.minutes import format_label, format_tick
from streams.domain.occurrence import Fire
from streams.domain.outcome import AttemptResult


@dataclass(frozen=True, slots=True)
class ProviderTraits:
    """What delivery may rely on: it decides what becomes of an `UNKNOWN` attempt.

    With `honours_idempotency`, the same bytes under the same key within `idempotency_window_s` of the first attempt
    (none: for ever) have one effect. `timeout_s` is the longest that one send may take, connecting included.
    """

    honours_idempotency: bool
    idempotency_window_s: float | None
    has_lookup: bool
    timeout_s: float


@dataclass(frozen=True, slots=True)
class SendRequest:
    """One attempt. `body` is what `render` gave at the first attempt; every later one sends it byte for byte."""

    key: str
    idempotency_key: str
    to: str
    body: bytes


class Provider(Protocol):
    """A named provider. `start` before the first send and `close` after the last, in one event loop."""

    @property
    def name(self) -> str:
        """The name under `[providers.NAME]`."""
        ...

    @property
    def traits(self) -> ProviderTraits:
        """Fixed for the provider's life."""
        ...

    def render(self, occurrence: Fire) -> bytes:
        """The body for an occurrence. Pure: the same occurrence gives the same bytes."""
        ...

    async def start(self) -> None:
        """Open what sends need. Raises InvalidInput where the options can't work on this machine."""
        ...

    async def send(self, request: SendRequest) -> AttemptResult:
        """Make one attempt. Raises nothing but CancelledError; a cancelled attempt is an unknown one."""
        ...

    async def close(self) -> None:
        """Let go of connections and files. Twice is harmless."""
        ...


def render_json(occurrence: Fire) -> bytes:
    """The occurrence as canonical JSON: sorted keys, no spaces, UTF-8.

    The payload is canonical JSON text already and goes in as it stands: parsing it again could change its numbers.
    """
    fire = occurrence
    members = {
        "account": _text(fire.account),
        "instant": _text(format_tick(fire.instant)),
        "key": _text(fire.key),
        "nominal": _text(None if fire.nominal is None else format_label(fire.nominal)),
        "payload": fire.payload,
        "schedule_id": _text(fire.schedule_id),
        "tenant": _text(fire.tenant),
        "to": _text(fire.to),
        "zone": _text(fire.zone),
    }
    return ("{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}").encode()


def _text(value: str | None) -> str:
    return "null" if value is None else _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False)  # made once: `json.dumps` would make one for every text
