"""The relay's step: what it deletes, in which cases it holds back, what it gives up."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.pipeline.outbox import SHARDS, OutboxRecord, OutboxRow, shard_of
from streams.pipeline.relay import Published, in_order, relay_once


def row(number: int, key: bytes = b"a", topic: str = "t") -> OutboxRow:
    return OutboxRow(number, OutboxRecord(topic, key, b"v"))


class MemoryOutbox:
    def __init__(self, rows: Sequence[OutboxRow]) -> None:
        self.rows = list(rows)
        self.held = False

    def take(self, most: int) -> list[OutboxRow]:
        assert not self.held
        self.held = bool(self.rows)
        return self.rows[:most]

    def settle(self, ids: Collection[int]) -> None:
        assert self.held
        self.rows = [item for item in self.rows if item.id not in ids]
        self.held = False

    def release(self) -> None:
        assert self.held
        self.held = False

    def wait(self, timeout_s: float) -> None:
        raise AssertionError("nothing here waits")


class Broker:
    """Acknowledges all but `lost`."""

    def __init__(self, *, lost: Collection[int] = (), failed: str | None = None, refused: str | None = None) -> None:
        self.log: list[int] = []
        self.lost, self.failed, self.refused = set(lost), failed, refused

    def publish(self, rows: Sequence[OutboxRow]) -> Published:
        self.log += [item.id for item in rows if item.id not in self.lost]
        acknowledged = frozenset(item.id for item in rows if item.id not in self.lost)
        return Published(acknowledged, self.failed, self.refused)


def test_rows_are_published_in_order_and_deleted() -> None:
    outbox, broker = MemoryOutbox([row(1), row(2, b"b"), row(3)]), Broker()
    assert relay_once(outbox, broker, 2) == 2
    assert relay_once(outbox, broker, 2) == 1
    assert relay_once(outbox, broker, 2) == 0
    assert broker.log == [1, 2, 3]
    assert not outbox.held


@pytest.mark.parametrize(("lost", "done"), [
    ({1}, [2, 5, 6]),  # 3 and 4 follow 1 on its key: they are published again after it
    ({2}, [1, 3, 4, 6]),
    ({3}, [1, 2, 5, 6]),
    (set(), [1, 2, 3, 4, 5, 6]),
    ({1, 2, 3, 4, 5, 6}, []),
])  # fmt: skip
def test_a_later_row_stays_with_an_earlier_one_of_its_key(lost: set[int], done: list[int]) -> None:
    rows = [row(1), row(2, b"b"), row(3), row(4), row(5, b"b"), row(6, b"a", "other topic")]
    assert in_order(rows, {item.id for item in rows} - lost) == done


def test_what_failed_is_raised_after_the_rest_was_settled() -> None:
    outbox = MemoryOutbox([row(1), row(2, b"b"), row(3)])
    with pytest.raises(ServiceUnreachable, match="away"):
        relay_once(outbox, Broker(lost={2}, failed="away"), 10)
    assert [item.id for item in outbox.rows] == [2]
    with pytest.raises(BrokenPromise, match="never"):
        relay_once(outbox, Broker(lost={2}, failed="away", refused="never"), 10)
    assert [item.id for item in outbox.rows] == [2]
    assert not outbox.held


def test_rows_are_given_back_where_publishing_raises() -> None:
    class Broken(Broker):
        def publish(self, rows: Sequence[OutboxRow]) -> Published:
            raise KeyboardInterrupt

    outbox = MemoryOutbox([row(1)])
    with pytest.raises(KeyboardInterrupt):
        relay_once(outbox, Broken(), 10)
    assert (len(outbox.rows), outbox.held) == (1, False)


def test_keys_spread_over_all_shards() -> None:
    assert {shard_of(f"schedule-{number}".encode()) for number in range(500)} == set(range(SHARDS))
    # as the database's function has it
    assert shard_of(b"abc") == 10
