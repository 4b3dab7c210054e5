"""The relay's step: rows of the outbox onto their topics, deleted once the broker has them.

In this order: take shards (nobody else has them until the end) and their oldest rows; publish them in the order of ids;
await every acknowledgement; delete what was acknowledged and give the shards back. Killed in between, the rows are
published again: twice, never not at all, and for each key in an order that ends with its newest row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.pipeline.outbox import OutboxRow


class Outbox(Protocol):
    """Rows to be published. Errors of the service are retriable, and give up what is taken."""

    def take(self, most: int) -> list[OutboxRow]:
        """Hold some shards and give up to `most` of their oldest rows, each shard's in the order of ids; [] if none."""
        ...

    def settle(self, ids: Collection[int]) -> None:
        """Delete these rows and give the shards back."""
        ...

    def release(self) -> None:
        """Give the shards back; the rows stay."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Until rows may have come, or the time is over."""
        ...


@dataclass(frozen=True, slots=True)
class Published:
    """What became of the rows. `refused`: why the broker will never take one; `failed`: why one was not taken now."""

    acknowledged: frozenset[int]
    failed: str | None = None
    refused: str | None = None


class Publisher(Protocol):
    """Sends records. Order per partition is kept."""

    def publish(self, rows: Sequence[OutboxRow]) -> Published:
        """Send all, in this order, and return when each was acknowledged or has failed. Raises Interrupted."""
        ...


def relay_once(outbox: Outbox, publisher: Publisher, most: int) -> int:
    """One round; returns how many rows are done.

    Raises, after settling the rest, ServiceUnreachable where rows failed, and BrokenPromise where the broker will never
    take one: a person has to look.
    """
    rows = outbox.take(most)
    if not rows:
        return 0
    try:
        published = publisher.publish(rows)
    except BaseException:
        outbox.release()
        raise
    done = in_order(rows, published.acknowledged)
    outbox.settle(done)
    if published.refused is not None:
        raise BrokenPromise(published.refused)
    if published.failed is not None:
        raise ServiceUnreachable(published.failed)
    return len(done)


def in_order(rows: Sequence[OutboxRow], acknowledged: Collection[int]) -> list[int]:
    """The rows that may be deleted: acknowledged, and none of their key before them that was not.

    A later row stays with an earlier one that failed: both are published again, so that the newest lands last.
    """
    stuck: set[tuple[str, bytes]] = set()
    done = []
    for row in rows:
        key = (row.record.topic, row.record.key)
        if key in stuck or row.id not in acknowledged:
            stuck.add(key)
        else:
            done.append(row.id)
    return done
