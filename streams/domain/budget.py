"""A lane's budget: GCRA on one integer, the theoretical arrival time in microseconds since the epoch.

Source: the Generic Cell Rate Algorithm, virtual scheduling form, of ITU-T I.371 (Annex A). With emission interval
`T = 1/rate` and tolerance `tau = (burst - 1) * T`, a cell at `now` conforms if `now >= tat - tau`, and then
`tat = max(now, tat) + T`. For n cells at once both sides move by n: `max(now, tat) + n*T <= now + burst*T`.

Workers share the number through a row and reserve about a second of it at a time. Every admission at `t` then owns a
slot `[s, s + T)` with `t <= s <= t + tau`, and no two slots overlap, whoever reserved them. So in any window of length
w at most `(w + tau)/T + 1` sends start, which is the bound that a GCRA meter of the same rate and burst accepts. A slot
whose time has gone by is thrown away, never used late: the whole can under-admit, and can't over-admit.
"""

from __future__ import annotations

from dataclasses import dataclass

_MICRO = 1_000_000
RESERVATION_US = _MICRO


@dataclass(frozen=True, slots=True)
class Admission:
    """Admitted where `wait_us` is 0: then `tat_us` is the new state. Else nothing changed: ask again after the wait."""

    tat_us: int
    wait_us: int

    @property
    def admitted(self) -> bool:
        """Whether the send may start now."""
        return self.wait_us == 0


@dataclass(frozen=True, slots=True)
class Reservation:
    """`count` slots from `tat_us` up to `end_us`, to be spent by one worker. `count` 0: ask again after `wait_us`.

    `end_us` is the shared row's new theoretical arrival time.
    """

    count: int
    tat_us: int
    end_us: int
    wait_us: int


@dataclass(frozen=True, slots=True)
class Gcra:
    """A quota of `rate_per_s` with up to `burst` at once."""

    rate_per_s: float
    burst: int

    def __post_init__(self) -> None:
        if self.burst < 1:
            raise ValueError(f"a burst of {self.burst} admits nothing; it is a whole number from 1")
        if not _MICRO >= self.rate_per_s >= 1 / _MICRO:
            raise ValueError(f"a rate of {self.rate_per_s} a second; it is a number from 0.000001 to 1000000")

    @property
    def interval_us(self) -> int:
        """The emission interval T, rounded up: the rate is never exceeded by rounding."""
        return -(-_MICRO * _MICRO // int(self.rate_per_s * _MICRO))

    @property
    def burst_us(self) -> int:
        """The whole burst as time; the tolerance tau is one interval less."""
        return self.burst * self.interval_us

    @property
    def longest_reservation_us(self) -> int:
        """How far ahead of now a reservation can reach."""
        return RESERVATION_US + self.burst_us

    def admit(self, tat_us: int, now_us: int, count: int = 1) -> Admission:
        """Admit `count` sends at `now_us`, or say how long to wait. More than `burst` at once is never admitted."""
        if not 1 <= count <= self.burst:
            raise ValueError(f"{count} at once of a burst of {self.burst}")
        after_us = max(now_us, tat_us) + count * self.interval_us
        early_us = after_us - self.burst_us - now_us
        return Admission(tat_us, early_us) if early_us > 0 else Admission(after_us, 0)

    def reserve(self, tat_us: int, now_us: int, want: int) -> Reservation:
        """Up to `want` slots, none later than about a second of refill and the burst from now.

        It only moves the shared row; each send is admitted by `spend`, at its own time. Want no more than is due.
        """
        start_us = max(now_us, tat_us)
        room_us = now_us + self.longest_reservation_us - start_us
        count = min(want, room_us // self.interval_us)
        if count < 1:
            return Reservation(0, start_us, start_us, max(self.interval_us - room_us, 1))
        return Reservation(count, start_us, start_us + count * self.interval_us, 0)

    def spend(self, held: Reservation, now_us: int) -> tuple[int | None, Reservation]:
        """Start one send from a reservation: microseconds to wait (0: start now), and what is left.

        Slots that have gone by are dropped first. None instead of a wait: nothing is left, reserve again.
        """
        tat_us = max(now_us, held.tat_us)
        left = min(held.count, max(held.end_us - tat_us, 0) // self.interval_us)
        if left < 1:
            return None, Reservation(0, tat_us, held.end_us, 0)
        step = self.admit(tat_us, now_us)
        return step.wait_us, Reservation(left - step.admitted, step.tat_us, held.end_us, 0)

    def after_restart(self, now_us: int) -> int:
        """The state to assume when the row may have lost its last writes.

        It is as far ahead as any reservation can have been, so that no slot is given twice.
        """
        return now_us + self.longest_reservation_us
