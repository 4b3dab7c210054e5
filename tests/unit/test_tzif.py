"""TZif bytes and POSIX TZ strings: what is read, and what is refused with which words."""

from __future__ import annotations

import struct

import pytest

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.errors import InvalidInput
from streams.domain.minutes import MINUTES_PER_DAY, day_of
from streams.domain.posix_tz import parse_posix_tz
from streams.domain.tzif import parse_tzif


def block(version: bytes, times: list[int], indexes: list[int], offsets: list[int], code: str) -> bytes:
    header = b"TZif" + version + bytes(15) + struct.pack(">6L", 0, 0, 0, len(times), len(offsets), 4)
    types = b"".join(struct.pack(">lBB", offset, 0, 0) for offset in offsets)
    return header + struct.pack(f">{len(times)}{code}", *times) + bytes(indexes) + types + b"XXX\0"


def second_version(
    times: list[int], indexes: list[int], offsets: list[int], footer: bytes = b"\n\n", version: bytes = b"2"
) -> bytes:
    return block(version, [], [], [0], "l") + block(version, times, indexes, offsets, "q") + footer


def test_version_1_has_no_rule() -> None:
    data = parse_tzif(block(b"\0", [100, 200], [1, 0], [-3600, 0], "l"))
    assert data.first_offset_s == -3600
    assert data.transitions == ((100, 0), (200, -3600))
    assert data.tail is None


def test_version_2_reads_the_64_bit_block_and_the_footer() -> None:
    data = parse_tzif(second_version([-(1 << 40), 200], [1, 0], [-3600, 0], b"\nEST5EDT,M3.2.0,M11.1.0\n"))
    assert data.transitions == ((-(1 << 40), 0), (200, -3600))
    assert data.tail is not None
    assert data.tail.offsets_s == (-18000, -14400)


def test_every_file_of_the_wheel_is_read() -> None:
    zones = wheel_bundle().zones
    assert len(zones) > 590
    assert all(parse_tzif(data).tail is not None for data in zones.values())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a TZif file"),
        (b"PK\x03\x04", "not a TZif file"),
        (b"TZif2", "ends inside the header at byte 0"),
        (b"TZif9" + bytes(60), "unknown version b'9'"),
        (b"TZif2" + bytes(39), "0 local time types"),
        (block(b"\0", [1, 2], [0, 0], [0], "l")[:-6], "ends inside its data block"),
        (block(b"2", [], [], [0], "l"), "not a TZif file: no 'TZif' at byte"),
        (block(b"\0", [2, 1], [0, 0], [0], "l"), "not in ascending order"),
        (block(b"\0", [1, 2], [0, 3], [0], "l"), "uses local time type 3, but has 1"),
        (block(b"\0", [1], [0], [100_000], "l"), "offset of more than 26 hours"),
        (second_version([], [], [0], b""), "no footer between two newlines"),
        (second_version([], [], [0], b"\nUTC0"), "no footer between two newlines"),
        (second_version([], [], [0], b"\n\xff\xff\n"), "footer is not ASCII"),
        (second_version([], [], [0], b"\nnonsense\n"), "POSIX TZ string 'nonsense'"),
    ],
)
def test_garbage_is_named(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_tzif(data)


def test_no_cut_of_a_real_file_is_taken_for_a_zone() -> None:
    whole = wheel_bundle().zones["Europe/Berlin"]
    for length in range(len(whole)):
        with pytest.raises(InvalidInput):
            parse_tzif(whole[:length])


@pytest.mark.parametrize(
    ("text", "year", "changes"),
    [
        ("EST5EDT,M3.2.0,M11.1.0", 2027, [((2027, 3, 14), 7 * 60, -240), ((2027, 11, 7), 6 * 60, -300)]),
        ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", 2027, [((2027, 3, 28), 60, -60), ((2027, 10, 31), 60, -120)]),
        ("EET-2EEST,M3.4.4/50,M10.4.4/50", 2027, [((2027, 3, 27), 0, 180), ((2027, 10, 29), 23 * 60, 120)]),
        ("AAA0BBB,J60/0,J365/0", 2028, [((2028, 3, 1), 0, 60), ((2028, 12, 30), 23 * 60, 0)]),
        ("AAA0BBB,59/0,365/0", 2028, [((2028, 2, 29), 0, 60), ((2028, 12, 30), 23 * 60, 0)]),
        ("AAA0BBB-1:30,0/2:30:00,1", 2027, [((2027, 1, 1), 150, 90), ((2027, 1, 2), 30, 0)]),
    ],
)
def test_yearly_changes(text: str, year: int, changes: list[tuple[tuple[int, int, int], int, int]]) -> None:
    expected = [((day_of(*date) * MINUTES_PER_DAY + minute) * 60, offset * 60) for date, minute, offset in changes]
    assert parse_posix_tz(text).changes(year, year) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "E5",
        "EST",
        "EST5EDT",
        "EST5EDT,M3.2.0",
        "EST25",
        "EST5:60",
        "EST5EDT,M13.1.0,M11.1.0",
        "EST5EDT,M3.6.0,M11.1.0",
        "EST5EDT,M3.0.0,M11.1.0",
        "EST5EDT,M3.1.7,M11.1.0",
        "EST5EDT,J0,J365",
        "EST5EDT,366,J365",
        "EST5EDT,M3.2.0/168,M11.1.0",
        "EST5EDT,X,M11.1.0",
        "EST5EDT,M3.2.0,M11.1.0,",
    ],
)
def test_bad_rules_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="POSIX TZ string"):
        parse_posix_tz(text)
