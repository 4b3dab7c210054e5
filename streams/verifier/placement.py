"""Where Kafka puts a key: murmur2 as its Java clients compute it, written from its definition."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def partition_of(key: str, partitions: int) -> int:
    """The partition of a record's key among `partitions`."""
    return (_murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    """MurmurHash2, 32 bits, little-endian words."""
    value = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for index in range(0, whole, 4):
        word = int.from_bytes(data[index : index + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if tail := data[whole:]:
        value = (value ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15
