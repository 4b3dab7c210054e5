"""Where a key lives: murmur2, as Java's default partitioner, Faust and `partitioner=murmur2_random` place it."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2 (org.apache.kafka.common.utils.Utils.murmur2), unsigned."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    for at in range(0, length - 3, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    tail = data[length & ~3 :]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition of a keyed record."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
