"""What one attempt at a provider came to. Every adapter answers in these words; `delivery` says what follows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """`UNSENT` and `RATE_LIMITED` prove that nothing took effect, `DONE` that it did; `UNKNOWN` proves nothing."""

    DONE = "done"  # 2xx: the provider has accepted it
    UNSENT = "unsent"  # DNS, connect or TLS failed, or a refusal the adapter vouches for: nothing took effect
    RATE_LIMITED = "rate_limited"  # 429: nothing took effect, and the lane is to wait
    UNKNOWN = "unknown"  # 408, 425, 5xx, 409 "in progress", or the line lost after the first byte
    REJECTED = "rejected"  # other 4xx: a person decides
    FORBIDDEN = "forbidden"  # 401, 403: the lane's credentials; the lane is held
    GONE = "gone"  # 410: this destination is disabled


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """An outcome with what was seen. `code` is the provider's status if it answered, `detail` one line for people."""

    outcome: Outcome
    code: int | None = None
    retry_after_s: float | None = None
    detail: str = ""
