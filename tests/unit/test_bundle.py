"""Bundles: the wheel's version and bytes, names, digests, and unknown zones."""

from __future__ import annotations

from hashlib import sha256

import pytest
import tzdata

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.bundle import ZoneBundle
from streams.domain.errors import InvalidInput


def test_the_wheel_and_nothing_else() -> None:
    bundle = wheel_bundle()
    assert bundle.version == tzdata.IANA_VERSION
    assert "Europe/Berlin" in bundle
    assert "UTC" in bundle
    assert "Mars/Olympus" not in bundle
    assert list(bundle.names) == sorted(bundle.names)


def test_tables_are_parsed_once() -> None:
    bundle = wheel_bundle()
    assert bundle.table("Europe/Berlin") is bundle.table("Europe/Berlin")


@pytest.mark.parametrize(
    ("zone", "nearest"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("america/new york", "America/New_York"),
        ("America/NewYork", "America/New_York"),
        ("Berlin", "Europe/Berlin"),
        ("utc", "UTC"),
    ],
)
def test_an_unknown_zone_comes_with_the_nearest_name(zone: str, nearest: str) -> None:
    with pytest.raises(InvalidInput, match=f"unknown zone '{zone}' in tzdata .*; did you mean {nearest}?"):
        wheel_bundle().table(zone)


def test_a_zone_like_no_other() -> None:
    with pytest.raises(InvalidInput, match="use a name such as Europe/Berlin"):
        wheel_bundle().table("qqqqqqqqqqq")


def test_the_digest_is_over_names_and_bytes() -> None:
    one = ZoneBundle("2026f", {"B": b"22", "A": b"1"})
    assert one.sha256 == sha256(b"A\n1\n1B\n2\n22").hexdigest()
    assert ZoneBundle("other", {"A": b"1", "B": b"22"}).sha256 == one.sha256
    assert ZoneBundle("2026f", {"A": b"12", "B": b"2"}).sha256 != one.sha256
