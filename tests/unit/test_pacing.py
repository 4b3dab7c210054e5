"""Spending reservations on the worker's own clock: never early, never twice, never late."""

from __future__ import annotations

from streams.domain.budget import Gcra, Reservation
from streams.pipeline.lease import Lease
from streams.pipeline.ledger import Grant
from streams.pipeline.pacing import Pacer, Window, leave_room

GCRA = Gcra(100.0, 10)  # a slot every 10 ms, 100 ms of burst


def grant(count: int, tat_us: int, now_us: int = 0) -> Grant:
    return Grant(Reservation(count, tat_us, tat_us + count * GCRA.interval_us, 0), now_us, None)


def test_slots_are_shifted_to_the_own_clock_and_never_come_early() -> None:
    pacer = Pacer(GCRA)
    pacer.add(grant(5, tat_us=1_000_000, now_us=900_000), now_us=50_900_000)
    # the first slot is at 51.0 s here; up to 90 ms before it, it may be spent out of the burst
    assert pacer.spend(50_900_000, 5) == 0
    assert pacer.wait_us(50_900_000) == 10_000
    assert pacer.spend(50_910_000, 5) == 1


def test_a_burst_and_then_one_a_slot() -> None:
    pacer = Pacer(GCRA)
    pacer.add(grant(30, tat_us=0), now_us=0)
    assert pacer.spend(0, 100) == 10
    assert pacer.wait_us(0) == 10_000
    assert pacer.spend(10_000, 100) == 1
    assert pacer.available(10_000) == 19


def test_what_went_by_is_not_used() -> None:
    pacer = Pacer(GCRA)
    pacer.add(grant(30, tat_us=0), now_us=0)
    assert pacer.available(250_000) == 5
    assert pacer.spend(250_000, 100) == 5
    assert pacer.wait_us(250_000) is None


def test_reservations_follow_each_other_and_can_be_dropped() -> None:
    pacer = Pacer(GCRA)
    pacer.add(grant(3, tat_us=0), now_us=0)
    pacer.add(grant(3, tat_us=50_000), now_us=0)
    assert pacer.spend(0, 100) == 6
    pacer.add(grant(3, tat_us=100_000), now_us=0)
    pacer.drop()
    assert (pacer.available(0), pacer.wait_us(0)) == (0, None)


def test_a_quarter_of_the_burst_is_left_to_jitter() -> None:
    assert [leave_room(10.0, burst).burst for burst in (1, 2, 3, 4, 12, 60)] == [1, 2, 3, 3, 9, 45]


def test_the_window_follows_the_usual_answer_time() -> None:
    window = Window(GCRA, 256)
    for _ in range(100):
        window.answered(0.02)
    assert window.size == 9
    for _ in range(100):
        window.answered(1.0)
    assert window.size == 204
    for _ in range(100):
        window.answered(10.0)
    assert window.size == 256
    assert Window(Gcra(0.1, 1), 256).size == 4


def test_a_lease_covers_its_own_session_until_its_end() -> None:
    lease = Lease()
    assert lease.session is None
    assert not lease.covers(1, 0.0, 1.0)
    lease.renewed(1, 20.0)
    assert lease.covers(1, 9.0, 11.0)
    assert not lease.covers(1, 9.1, 11.0)
    assert not lease.covers(2, 0.0, 1.0)
    lease.renewed(2, 30.0)
    assert not lease.covers(1, 0.0, 1.0)
