"""The outbox table: rows written beside what they tell, and taken by relays, a shard at a time."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, Final

import psycopg

from streams.adapters.postgres.base import LOST, Connection, connect, statements, unreachable
from streams.adapters.postgres.link import WORKER_SETTINGS
from streams.pipeline.outbox import OutboxRecord, OutboxRow

# Of one shard in one round, so that many large rows at once don't fill the memory.
_SHARD_BYTES: Final = 4 << 20


def insert_outbox(connection: Connection, records: Sequence[OutboxRecord]) -> None:
    """Write rows in the caller's transaction, in the order given, and wake the relays when it commits.

    The caller holds a lock on what each key names (a row it changed, for instance), or rows of one key written by two
    transactions could be published in the other order.
    """
    if not records:
        return
    sql = statements("outbox")
    columns: dict[str, list[Any]] = {
        "shard": [record.shard for record in records],
        "topic": [record.topic for record in records],
        "partition": [record.partition for record in records],
        "key": [record.key for record in records],
        "value": [record.value for record in records],
        "headers": [json.dumps(dict(record.headers)) for record in records],
    }
    connection.execute(sql["insert"], columns)
    connection.execute(sql["notify"])


class PostgresOutbox:
    """One relay's connection: see `streams.pipeline.relay.Outbox`. For one thread."""

    def __init__(self, dsn: str, schema: str, *, most_shards: int = 8) -> None:
        """Connects when first used."""
        self._where = (dsn, schema)
        self._most_shards = most_shards
        self._sql = statements("outbox")
        self._connection: Connection | None = None

    def take(self, most: int) -> list[OutboxRow]:
        """See Outbox."""
        try:
            connection = self._open()
            connection.execute("BEGIN")
            taken = connection.execute(self._sql["take_shards"], {"most": self._most_shards}).fetchall()
            if not taken:
                connection.execute("ROLLBACK")
                return []
            shards = [row[0] for row in taken]
            limits = {"shards": shards, "most": max(1, most // len(shards)), "most_bytes": _SHARD_BYTES}
            found = connection.execute(self._sql["rows"], limits, binary=True).fetchall()
            if not found:  # another relay published them between the two statements
                connection.execute("ROLLBACK")
        except LOST as error:
            raise self._lost(error) from None
        return [
            OutboxRow(row_id, OutboxRecord(topic, bytes(key), value, headers, partition))
            for row_id, topic, partition, key, value, headers in found
        ]

    def settle(self, ids: Collection[int]) -> None:
        """See Outbox."""
        try:
            connection = self._open()
            if ids:
                connection.execute(self._sql["delete"], {"ids": list(ids)})
            connection.execute("COMMIT")
        except LOST as error:
            raise self._lost(error) from None

    def release(self) -> None:
        """See Outbox."""
        try:
            if self._connection is not None:
                self._connection.execute("ROLLBACK")
        except LOST:
            self.close()

    def wait(self, timeout_s: float) -> None:
        """See Outbox."""
        try:
            for _ in self._open().notifies(timeout=timeout_s, stop_after=1):
                pass
        except LOST as error:
            raise self._lost(error) from None

    def close(self) -> None:
        """Give up what is taken, and the connection. Again: nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(*self._where, "relay", autocommit=True, **WORKER_SETTINGS)
            channel = self._connection.execute(self._sql["channel"]).fetchone()
            if channel is not None:
                self._connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(channel[0])))
        return self._connection

    def _lost(self, error: psycopg.Error) -> Exception:
        self.close()
        return unreachable(error)
