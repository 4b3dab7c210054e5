"""A lane's budget where PostgreSQL crashes and recovers under the same postmaster: its last writes may be lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.base import Connection, connect, migrate, statements
from streams.domain.budget import Gcra
from streams.domain.errors import ServiceUnreachable
from tests.services import wait_for

GCRA = Gcra(100.0, 300)
ASK = {"lane": 1, "interval_us": GCRA.interval_us, "longest_us": GCRA.longest_reservation_us, "want": 400}


@pytest.fixture
def own(services_folder: Path) -> Iterator[EmbeddedDatabase]:
    running = EmbeddedDatabase(services_folder / "crash-postgres")
    running.start()
    yield running
    running.destroy()


def reserve(own: EmbeddedDatabase, *, crash: bool) -> tuple[int, int]:
    """A reservation's slots, start and end; with `crash` a backend is killed right after it."""
    with connect(own.dsn, "s", "budget", synchronous_commit="off") as asker, connect(own.dsn, "s", "victim") as victim:
        started = asker.execute("SELECT pg_postmaster_start_time()").fetchone()
        row = asker.execute(statements("lanes")["reserve"], ASK).fetchone()
        if crash:
            os.kill(victim.info.backend_pid, signal.SIGKILL)
            wait_for(lambda: not lives(asker), 30)
    assert row is not None
    if crash:
        wait_for(lambda: answers(own), 30)
        with connect(own.dsn, "s", "look") as again:
            assert again.execute("SELECT pg_postmaster_start_time()").fetchone() == started
    return row[1], row[1] + row[0] * GCRA.interval_us


def lives(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def answers(own: EmbeddedDatabase) -> bool:
    try:
        with connect(own.dsn, "s", "look") as connection:
            return lives(connection)
    except ServiceUnreachable:
        return False


def test_no_slot_is_given_twice(own: EmbeddedDatabase) -> None:
    migrate(own.dsn, "s")
    with connect(own.dsn, "s", "test") as connection:
        connection.execute("INSERT INTO lane (region, provider) VALUES ('eu', 'eu-mail')")
    reserve(own, crash=False)
    with connect(own.dsn, "s", "test") as connection:
        connection.execute("UPDATE lane SET burst = 1")  # waited for, and with it what came before
    ended_us = 0
    for _ in range(3):
        _, ended_us = reserve(own, crash=True)
        begins_us, _ = reserve(own, crash=False)
        assert begins_us >= ended_us
