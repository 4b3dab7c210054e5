"""Whatever workers do with their reservations, a meter of the same quota never says that it was exceeded."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.domain.budget import Gcra, Reservation
from tests.effort import examples

RATES = st.sampled_from([0.5, 2 / 60, 1.0, 7.3, 120.0, 300.0, 4999.0])
START_US = 1_800_000_000_000_000


class Bucket:
    """A token bucket in exact fractions: another formula for the same quota."""

    def __init__(self, rate_per_s: float, burst: int) -> None:
        self.rate, self.burst = Fraction(rate_per_s) / 1_000_000, Fraction(burst)
        self.level, self.at_us = self.burst, START_US

    def conforms(self, now_us: int) -> bool:
        self.level = min(self.burst, self.level + (now_us - self.at_us) * self.rate) - 1
        self.at_us = now_us
        return self.level >= 0


@settings(max_examples=examples(150), deadline=None)
@given(
    rate=RATES,
    burst=st.integers(1, 60),
    steps=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 500), st.floats(0, 3)), min_size=5, max_size=200),
)
def test_workers_sharing_a_row_never_exceed_the_quota(
    rate: float, burst: int, steps: list[tuple[int, int, float]]
) -> None:
    gcra, meter = Gcra(rate, burst), Bucket(rate, burst)
    row_us, now_us = 0, START_US
    held: dict[int, Reservation] = {}
    for worker, want, idle in steps:
        now_us += int(idle**4 * gcra.interval_us)  # mostly short pauses, now and then one of many intervals
        mine = held.get(worker)
        if mine is None or mine.count == 0:
            mine = gcra.reserve(row_us, now_us, want)
            row_us = mine.end_us
        for _ in range(want):
            wait_us, mine = gcra.spend(mine, now_us)
            if wait_us != 0:
                break
            assert meter.conforms(now_us)
        held[worker] = mine


@settings(max_examples=examples(60), deadline=None)
@given(rate=st.sampled_from([5.0, 120.0, 300.0]), burst=st.integers(1, 60), count=st.integers(200, 600))
def test_a_worker_with_a_backlog_uses_its_quota_up(rate: float, burst: int, count: int) -> None:
    gcra, row_us, now_us, sent = Gcra(rate, burst), 0, START_US, 0
    held = Reservation(0, 0, 0, 0)
    while sent < count:
        wait_us, held = gcra.spend(held, now_us)
        if wait_us is None:
            held = gcra.reserve(row_us, now_us, count - sent)
            row_us, wait_us = held.end_us, held.wait_us
        elif wait_us == 0:
            sent += 1
        now_us += wait_us
    assert now_us - START_US <= (count - burst) / rate * 1_000_000 * 1.002


@settings(max_examples=examples(100), deadline=None)
@given(
    rate=RATES,
    burst=st.integers(1, 60),
    tat=st.integers(-(10**8), 10**8),
    now=st.integers(0, 10**6),
    n=st.integers(1, 60),
)
def test_admitted_after_exactly_the_wait_it_names(rate: float, burst: int, tat: int, now: int, n: int) -> None:
    gcra, n = Gcra(rate, burst), min(n, burst)
    step = gcra.admit(tat, now, n)
    if not step.admitted:
        assert not gcra.admit(tat, now + step.wait_us - 1, n).admitted
        assert gcra.admit(tat, now + step.wait_us, n).admitted
