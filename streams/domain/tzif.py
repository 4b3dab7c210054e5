"""Reading TZif bytes (RFC 9636, versions 1 to 4). Pure: bytes in, transitions out."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

from streams.domain.errors import InvalidInput
from streams.domain.posix_tz import PosixRule, parse_posix_tz

_HEADER_BYTES = 44
_TYPE_BYTES = 6
_MOST_OFFSET_S = 26 * 3600


@dataclass(frozen=True, slots=True)
class TzifData:
    """A zone as its file gives it, in UTC seconds and seconds east of UTC.

    `first_offset_s` holds before the first transition, `transitions` are (instant, offset from then on) ascending, and
    `tail` says what happens after the last of them; without it the last offset stays.
    """

    first_offset_s: int
    transitions: tuple[tuple[int, int], ...]
    tail: PosixRule | None


@dataclass(frozen=True, slots=True)
class _Header:
    version: int
    isut: int
    isstd: int
    leaps: int
    times: int
    types: int
    chars: int

    def body_bytes(self, time_bytes: int) -> int:
        return (
            self.times * (time_bytes + 1)
            + self.types * _TYPE_BYTES
            + self.chars
            + self.leaps * (time_bytes + 4)
            + self.isstd
            + self.isut
        )


def parse_tzif(data: bytes) -> TzifData:
    """The transitions of a TZif file; of a version 2 or later file the 64-bit block. Raises InvalidInput on anything
    that is not TZif: cut short, counts that don't fit, transitions out of order, a type that isn't there, a bad footer.
    """
    header = _header(data, 0)
    if header.version == 1:
        first, transitions = _body(data, _HEADER_BYTES, header, 4)
        return TzifData(first, transitions, None)
    second = _HEADER_BYTES + header.body_bytes(4)
    header = _header(data, second)
    first, transitions = _body(data, second + _HEADER_BYTES, header, 8)
    footer = data[second + _HEADER_BYTES + header.body_bytes(8) :]
    return TzifData(first, transitions, _tail(footer))


def _header(data: bytes, at: int) -> _Header:
    if data[at : at + 4] != b"TZif":
        raise InvalidInput(f"not a TZif file: no 'TZif' at byte {at}")
    if len(data) < at + _HEADER_BYTES:
        raise InvalidInput(f"the TZif file ends inside the header at byte {at}")
    version_byte = data[at + 4 : at + 5]
    if version_byte not in (b"\0", b"2", b"3", b"4"):
        raise InvalidInput(f"the TZif file has an unknown version {version_byte!r}")
    counts = struct.unpack_from(">6L", data, at + 20)
    header = _Header(int(version_byte) if version_byte != b"\0" else 1, *counts)
    if header.types == 0 or header.types > 256:
        raise InvalidInput(f"the TZif file has {header.types} local time types; 1 to 256 are possible")
    return header


def _body(data: bytes, at: int, header: _Header, time_bytes: int) -> tuple[int, tuple[tuple[int, int], ...]]:
    if len(data) < at + header.body_bytes(time_bytes):
        raise InvalidInput(f"the TZif file ends inside its data block: {len(data)} bytes")
    times = struct.unpack_from(f">{header.times}{'q' if time_bytes == 8 else 'l'}", data, at)
    at += header.times * time_bytes
    indexes = data[at : at + header.times]
    at += header.times
    offsets = [struct.unpack_from(">l", data, at + n * _TYPE_BYTES)[0] for n in range(header.types)]
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise InvalidInput("the TZif file's transitions are not in ascending order")
    if indexes and max(indexes) >= header.types:
        raise InvalidInput(f"the TZif file uses local time type {max(indexes)}, but has {header.types}")
    if any(abs(offset) > _MOST_OFFSET_S for offset in offsets):
        raise InvalidInput("the TZif file has an offset of more than 26 hours")
    return offsets[0], tuple((time, offsets[index]) for time, index in zip(times, indexes, strict=True))


def _tail(footer: bytes) -> PosixRule | None:
    if len(footer) < 2 or footer[:1] != b"\n" or footer[-1:] != b"\n":
        raise InvalidInput("the TZif file has no footer between two newlines after its data")
    try:
        text = footer[1:-1].decode("ascii")
    except UnicodeDecodeError:
        raise InvalidInput("the TZif file's footer is not ASCII") from None
    return parse_posix_tz(text) if text else None
