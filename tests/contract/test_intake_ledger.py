"""Intake over a real ledger, where a record or the server is not what it should be."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from streams.adapters.codec import decode, encode
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.domain.errors import ServiceUnreachable
from streams.pipeline.intake import Intake, Record
from tests.ledger_support import TOPIC, TOPIC_ID, Bench, batch_of, make_fire
from tests.services import unique_name

LONG = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000))  # too long for an index


class Source:
    """Remembers what was committed."""

    topic, topic_id = TOPIC, TOPIC_ID

    def __init__(self) -> None:
        self.committed: dict[int, int] = {}

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        self.committed.update(next_offsets)

    def poll(self, most: int, timeout_s: float) -> list[Record]:
        return []

    def idle(self) -> None:
        return

    def resume_from(self, next_offsets: Mapping[int, int]) -> None:
        return

    def close(self) -> None:
        return


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    yield made
    made.close()


@pytest.mark.parametrize(
    "change",
    [{"region": "e\0u"}, {"scenario": "\0"}, {"tenant": "a\0b"}, {"payload": "\0"}]
    + [{name: LONG} for name in ("tenant", "provider", "schedule_id")],
    ids=lambda change: " ".join(f"{name} {value[:4]!r}" for name, value in change.items()),
)
@pytest.mark.parametrize("headers", [(), (("a\0b", b"\0"),)], ids=["", "headers"])
def test_one_bad_record_stops_nobody(
    bench: Bench, change: dict[str, str], headers: Sequence[tuple[str, bytes | None]]
) -> None:
    source = Source()
    intake = Intake(source, bench.intake, decode, "eu", None, lambda: None)
    bad = encode(replace(make_fire("bad"), **change))  # type: ignore[arg-type]
    intake.take([Record(0, 4, b"k", bad, headers), Record(0, 5, b"k", encode(make_fire("good")), ())])
    assert bench.states() == {"good": "pending"}
    assert source.committed == {0: 6}
    assert bench.sql.execute("SELECT source_offset, value FROM quarantine").fetchall() == [(4, bad)]


def test_a_restored_server_lacks_lanes_and_months(bench: Bench) -> None:
    bench.intake.write(batch_of([make_fire("before")]))
    bench.sql.execute("DROP TABLE occurrence_2026_11, attempt_2026_11, closed_2026_11; TRUNCATE lane CASCADE")
    bench.sql.execute("INSERT INTO lane (region, provider) VALUES ('eu', 'other')")
    bench.intake.close()  # as after a lost connection
    bench.intake.write(batch_of([make_fire("after")]))
    assert bench.states() == {"after": "pending"}
    assert bench.sql.execute("SELECT provider FROM ledger").fetchall() == [("eu-mail",)]


def test_a_standby_is_a_server_away(database: EmbeddedDatabase) -> None:
    name = unique_name("db")
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        bench = Bench(psycopg.conninfo.make_conninfo(database.dsn, dbname=name), "s")
        try:
            admin.execute(
                sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(sql.Identifier(name))
            )
            with pytest.raises(ServiceUnreachable, match="read-only"):
                bench.intake.write(batch_of([make_fire("s")]))
            admin.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(sql.Identifier(name)))
            bench.intake.write(batch_of([make_fire("s")]))
            assert bench.states() == {"s": "pending"}
        finally:
            bench.close()
            admin.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))
