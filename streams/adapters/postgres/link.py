"""A connection for asyncio that opens itself when it is needed and after it was lost."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg

from streams.adapters.postgres.base import LOST, AsyncConnection, connect_async, unreachable

Row = tuple[Any, ...]

# On a fresh queue the planner takes the tables for tiny and would sort or hash the whole backlog.
WORKER_SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "jit": "off",
}


class Link:
    """Statements and transactions one after the other on one connection, however many tasks ask. For one event loop.

    A failure of the connection raises ServiceUnreachable, and the next statement opens a new one. Whether the failed
    statement took effect is then not known.
    """

    def __init__(self, dsn: str, schema: str, application: str, settings: Mapping[str, str] | None = None) -> None:
        """Connects when first used."""
        self._where = (dsn, schema, application)
        self._settings = dict(settings or {})
        self._connection: AsyncConnection | None = None
        self._turn = Lock()

    async def rows(self, statement: LiteralString, parameters: Mapping[str, Any]) -> list[Row]:
        """The rows of one statement, as its own transaction."""
        async with self._turn:
            try:
                connection = await self._open()
                cursor = await connection.execute(statement, parameters, binary=True)
                return await cursor.fetchall()
            except LOST as error:
                raise await self._lost(error) from None

    async def run(self, statement: LiteralString, parameters: Mapping[str, Any]) -> int:
        """How many rows one statement touched, as its own transaction."""
        async with self._turn:
            try:
                connection = await self._open()
                return (await connection.execute(statement, parameters)).rowcount
            except LOST as error:
                raise await self._lost(error) from None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Several statements as one transaction, given on the connection itself: the link's own would wait for it."""
        async with self._turn:
            try:
                connection = await self._open()
                async with connection.transaction():
                    yield connection
            except LOST as error:
                raise await self._lost(error) from None

    async def close(self) -> None:
        """End the connection. Again: nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _open(self) -> AsyncConnection:
        if self._connection is None or self._connection.closed:
            self._connection = await connect_async(*self._where, **self._settings)
            self._connection.prepare_threshold = 0
        return self._connection

    async def _lost(self, error: psycopg.Error) -> Exception:
        if not isinstance(error, psycopg.errors.DeadlockDetected):
            await self.close()
        return unreachable(error)
