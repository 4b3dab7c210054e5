"""Backoff: bounded, with full jitter, and Retry-After within its clamp."""

from __future__ import annotations

import math

import pytest

from streams.domain.retry import Backoff

BACKOFF = Backoff(base_s=1, cap_s=60, floor_s=0.05, retry_after_cap_s=600)
ALMOST_ONE = math.nextafter(1.0, 0.0)


def test_the_ceiling_doubles_up_to_the_cap() -> None:
    assert [BACKOFF.ceiling_s(n) for n in (1, 2, 3, 6, 7, 8)] == [1, 2, 4, 32, 60, 60]
    assert BACKOFF.ceiling_s(10_000) == 60


def test_full_jitter_reaches_from_the_floor_to_the_ceiling() -> None:
    assert BACKOFF.delay_s(5, 0.0) == 0.05
    assert BACKOFF.delay_s(5, 0.5) == 8
    assert BACKOFF.delay_s(5, ALMOST_ONE) == pytest.approx(16)


@pytest.mark.parametrize(
    ("asked_s", "least_s"),
    [(30.0, 30.0), (0.0, 0.05), (-5.0, 0.05), (86400.0, 600.0), (math.inf, 600.0), (math.nan, 0.05)],
)
def test_retry_after_is_clamped_and_never_undercut(asked_s: float, least_s: float) -> None:
    assert BACKOFF.delay_s(9, 0.0, asked_s) == least_s
    assert least_s < BACKOFF.delay_s(9, 0.9, asked_s) <= least_s + BACKOFF.base_s


@pytest.mark.parametrize("uniform", [-0.1, 1.0, math.nan])
def test_a_random_number_out_of_range_is_refused(uniform: float) -> None:
    with pytest.raises(ValueError, match="uniform"):
        BACKOFF.delay_s(1, uniform)


@pytest.mark.parametrize("bounds", [{"base_s": 0}, {"cap_s": 0.5}, {"floor_s": 0}, {"retry_after_cap_s": 0.01}])
def test_bounds_that_cross_are_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="floor_s"):
        Backoff(**bounds)
