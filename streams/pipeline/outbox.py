"""The outbox: records written in the transaction of what they tell, published by the relay, in order per key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

SHARDS: Final = 16


@dataclass(frozen=True, slots=True)
class OutboxRecord:
    """One record to publish. `topic` is the full name; `partition` none: by murmur2 of the key."""

    topic: str
    key: bytes
    value: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)
    partition: int | None = None

    @property
    def shard(self) -> int:
        """Which shard its row goes to: rows of one key share one. The database's `outbox_shard` gives the same."""
        return shard_of(self.key)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A record with the id that orders it within its shard."""

    id: int
    record: OutboxRecord


def shard_of(key: bytes) -> int:
    """The low four bits of the first byte of the key's sha256."""
    return sha256(key).digest()[0] & (SHARDS - 1)
