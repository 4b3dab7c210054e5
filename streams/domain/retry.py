"""When to try again: exponential backoff, bounded, with full jitter; a provider's own Retry-After, clamped.

Full jitter is the second formula of M. Brooker, "Exponential Backoff And Jitter" (AWS Architecture Blog, 2015):
`random_between(0, min(cap, base * 2 ** attempt))`. It spreads a crowd that failed together better than any other.
"""

from __future__ import annotations

from dataclasses import dataclass

_MAX_DOUBLINGS = 62  # beyond it every cap is reached, and a float power could overflow


@dataclass(frozen=True, slots=True)
class Backoff:
    """The bounds, in seconds. Retry-After is taken between `floor_s` and `retry_after_cap_s`."""

    base_s: float = 1.0
    cap_s: float = 300.0
    floor_s: float = 0.05
    retry_after_cap_s: float = 3600.0

    def __post_init__(self) -> None:
        if not 0 < self.floor_s <= self.base_s <= self.cap_s:
            raise ValueError("a backoff needs 0 < floor_s <= base_s <= cap_s")
        if self.retry_after_cap_s < self.floor_s:
            raise ValueError("retry_after_cap_s is below floor_s")

    def ceiling_s(self, attempts: int) -> float:
        """The longest wait after `attempts` attempts (1 or more): base, twice base, … up to the cap."""
        doublings = min(max(attempts - 1, 0), _MAX_DOUBLINGS)
        return min(self.cap_s, self.base_s * float(2**doublings))

    def delay_s(self, attempts: int, uniform: float, retry_after_s: float | None = None) -> float:
        """Seconds to wait after the `attempts`-th attempt. `uniform` is a random number in [0, 1).

        With Retry-After the wait is never shorter than it asks (within the clamp), and jitter of up to `base_s` is
        added, so that what was refused together does not come back together.
        """
        if not 0.0 <= uniform < 1.0:
            raise ValueError("uniform is a number in [0, 1)")
        if retry_after_s is not None:
            return self.clamp_retry_after_s(retry_after_s) + uniform * self.base_s
        return max(self.floor_s, uniform * self.ceiling_s(attempts))

    def clamp_retry_after_s(self, retry_after_s: float) -> float:
        """A Retry-After brought between the floor and its cap: a date in the past, or one in the year 9999, is both."""
        if retry_after_s != retry_after_s:  # not a number: as if it had said now
            return self.floor_s
        return min(max(retry_after_s, self.floor_s), self.retry_after_cap_s)
