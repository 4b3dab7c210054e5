"""GCRA by hand: the burst, the pace after it, and slots that are thrown away rather than used late."""

from __future__ import annotations

import pytest

from streams.domain.budget import Gcra, Reservation

NOW = 1_800_000_000_000_000


def test_a_full_burst_at_once_then_one_an_interval() -> None:
    gcra, tat = Gcra(rate_per_s=10, burst=3), 0
    for _ in range(3):
        step = gcra.admit(tat, NOW)
        assert step.admitted
        tat = step.tat_us
    refused = gcra.admit(tat, NOW)
    assert (refused.admitted, refused.wait_us, refused.tat_us) == (False, 100_000, tat)
    assert not gcra.admit(tat, NOW + 99_999).admitted
    assert gcra.admit(tat, NOW + 100_000).admitted


def test_n_at_once_is_n_in_a_row() -> None:
    gcra = Gcra(rate_per_s=10, burst=5)
    at_once = gcra.admit(0, NOW, 4)
    tat = 0
    for _ in range(4):
        tat = gcra.admit(tat, NOW).tat_us
    assert at_once.tat_us == tat
    with pytest.raises(ValueError, match="6 at once of a burst of 5"):
        gcra.admit(0, NOW, 6)


def test_the_interval_is_rounded_against_the_sender() -> None:
    assert Gcra(120, 12).interval_us == 8_334
    assert Gcra(2 / 60, 1).interval_us >= 30_000_000


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (float("nan"), 1), (2e6, 1), (1, 0)])
def test_a_quota_that_admits_nothing_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(ValueError, match="it is a"):
        Gcra(rate, burst)


def test_a_reservation_is_about_a_second_of_refill_and_the_burst() -> None:
    gcra = Gcra(rate_per_s=100, burst=20)
    first = gcra.reserve(0, NOW, 1_000)
    assert first == Reservation(120, NOW, NOW + 1_200_000, 0)
    second = gcra.reserve(first.end_us, NOW, 1_000)
    assert (second.count, second.wait_us, second.end_us) == (0, 10_000, first.end_us)
    third = gcra.reserve(second.end_us, NOW + second.wait_us, 1_000)
    assert (third.count, third.tat_us) == (1, first.end_us)


def test_a_reservation_wants_no_more_than_asked() -> None:
    gcra = Gcra(100, 20)
    held = gcra.reserve(0, NOW, 7)
    assert (held.count, held.end_us - held.tat_us) == (7, 70_000)


def test_a_slow_lane_still_gets_its_slot() -> None:
    gcra = Gcra(rate_per_s=1 / 60, burst=1)
    held = gcra.reserve(0, NOW, 5)
    assert held.count == 1
    wait_us, held = gcra.spend(held, NOW)
    assert (wait_us, held.count) == (0, 0)
    again = gcra.reserve(held.end_us, NOW, 5)
    assert again.count == 0
    assert gcra.reserve(held.end_us, NOW + again.wait_us, 5).count == 1


def test_spending_paces_and_then_says_that_nothing_is_left() -> None:
    gcra = Gcra(rate_per_s=10, burst=2)
    held, now, starts = gcra.reserve(0, NOW, 5), NOW, []
    while (step := gcra.spend(held, now))[0] is not None:
        wait_us, held = step
        starts += [now - NOW] if wait_us == 0 else []
        now += wait_us
    assert starts == [0, 0, 100_000, 200_000, 300_000]


def test_slots_gone_by_are_thrown_away() -> None:
    gcra = Gcra(rate_per_s=10, burst=2)
    held = gcra.reserve(0, NOW, 5)  # slots at 0, 100, 200, 300 and 400 ms
    starts, now = 0, NOW + 300_000
    while (step := gcra.spend(held, now))[0] == 0:
        held, starts = step[1], starts + 1
    assert starts == 2
    assert gcra.spend(gcra.reserve(0, NOW, 5), NOW + 500_000)[0] is None


def test_after_a_restart_no_slot_can_be_given_twice() -> None:
    gcra = Gcra(rate_per_s=50, burst=10)
    lost = gcra.reserve(0, NOW, 10_000)
    assert gcra.after_restart(NOW) >= lost.end_us


@pytest.mark.parametrize(("rate", "spent"), [(10, 4), (20, 4), (5, 2)])
def test_a_rate_changed_since_the_reservation_never_gives_more_than_was_reserved(rate: float, spent: int) -> None:
    held, now, starts = Gcra(rate_per_s=10, burst=1).reserve(0, NOW, 4), NOW, 0
    changed = Gcra(rate, 1)
    while (step := changed.spend(held, now))[0] is not None:
        wait_us, held = step
        starts += wait_us == 0
        now += wait_us
    assert starts == spent
