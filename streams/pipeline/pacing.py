"""Spends one lane's reservations at their time. Slots not spent in time are thrown away, never used late."""

from __future__ import annotations

from collections import deque
from typing import Final

from streams.domain.budget import Gcra, Reservation
from streams.pipeline.ledger import Grant

_FIRST_ANSWER_S: Final = 0.1
_WEIGHT: Final = 0.1
_LEAST: Final = 4


def leave_room(rate_per_s: float, burst: int) -> Gcra:
    """The quota to pace by: a quarter of the burst is left to what jitters between here and the provider's meter."""
    return Gcra(rate_per_s, max(1, burst - burst // 4))


class Pacer:
    """Reservations in the order of their slots, on the worker's own boot clock.

    A slot is spent before its start is recorded, and the send begins after that. Where recording stalls, sends begin
    late, and those of the next slots must keep the distance from *them*: so what has really begun is metered as well.
    """

    def __init__(self, gcra: Gcra) -> None:
        self.gcra = gcra
        self._held: deque[Reservation] = deque()
        self._begun_us = 0  # GCRA's number over what has really begun

    def add(self, grant: Grant, now_us: int) -> None:
        """Take a grant that arrived at `now_us`: by then the database's clock had moved on, so slots come late here,
        never early.
        """
        shift_us = now_us - grant.now_us
        granted = grant.reservation
        if granted.count:
            self._held.append(
                Reservation(granted.count, granted.tat_us + shift_us, granted.end_us + shift_us, granted.wait_us)
            )

    def drop(self) -> None:
        """Throw away everything reserved."""
        self._held.clear()

    def available(self, now_us: int) -> int:
        """How many slots are left to spend, now or later."""
        interval_us = self.gcra.interval_us
        return sum(
            min(held.count, max(0, held.end_us - max(now_us, held.tat_us)) // interval_us) for held in self._held
        )

    def spend(self, now_us: int, most: int) -> int:
        """How many sends may start now."""
        started, most = 0, min(most, -self._early_us(now_us) // self.gcra.interval_us)
        while self._held and started < most:
            wait_us, left = self.gcra.spend(self._held[0], now_us)
            if wait_us is None:
                self._held.popleft()
                continue
            self._held[0] = left
            if wait_us > 0:
                break
            started += 1
        return started

    def begun(self, now_us: int, count: int) -> None:
        """So many sends begin now: when they were spent, or later."""
        self._begun_us = max(now_us, self._begun_us) + count * self.gcra.interval_us

    def wait_us(self, now_us: int) -> int | None:
        """Until the next slot may be spent; none where nothing is reserved."""
        while self._held:
            wait_us, _ = self.gcra.spend(self._held[0], now_us)
            if wait_us is not None:
                return max(wait_us, self._early_us(now_us) + self.gcra.interval_us)
            self._held.popleft()
        return None

    def _early_us(self, now_us: int) -> int:
        """By how much what has begun is ahead of the burst; below 0: room for as much more."""
        return max(now_us, self._begun_us) - self.gcra.burst_us - now_us


class Window:
    """How many sends may be in flight: by Little's law twice what the quota and the usual answer time come to, and half
    the burst. A provider that stalls so finds no pile of requests when it goes on, which it would count as a burst.
    """

    def __init__(self, gcra: Gcra, most: int) -> None:
        self._gcra = gcra
        self._most = most
        self._answer_s = _FIRST_ANSWER_S

    def answered(self, took_s: float) -> None:
        """An answer came, or was given up, after so long."""
        self._answer_s += (took_s - self._answer_s) * _WEIGHT

    @property
    def size(self) -> int:
        """The most in flight now."""
        usual = 2 * self._gcra.rate_per_s * self._answer_s + self._gcra.burst / 2
        return min(self._most, max(_LEAST, int(usual)))
