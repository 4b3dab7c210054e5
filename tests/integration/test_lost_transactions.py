"""A process that stands still, or is cut off, inside a transaction does not hold up those who take over from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from threading import Event
from typing import LiteralString

import pytest

from streams.adapters.postgres import base
from streams.adapters.postgres.base import connect
from streams.adapters.postgres.outbox import PostgresOutbox, insert_outbox
from streams.adapters.postgres.registry import PostgresRegistry
from streams.adapters.postgres.schedule_reader import ScheduleReader
from streams.domain.errors import ServiceUnreachable
from streams.pipeline.outbox import OutboxRecord
from streams.pipeline.registry import Source
from tests.installation import Installation
from tests.registry_support import change, registrar, source
from tests.services import wait_for


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_IDLE_IN_TRANSACTION", "400ms")


@pytest.fixture
def outboxes(installation: Installation) -> Iterator[tuple[PostgresOutbox, PostgresOutbox]]:
    first, second = (PostgresOutbox(installation.dsn, installation.schema, most_shards=16) for _ in range(2))
    with closing(first), closing(second):
        yield first, second


def write(installation: Installation, *keys: bytes) -> None:
    with closing(connect(installation.dsn, installation.schema, "test")) as connection, connection.transaction():
        insert_outbox(connection, [OutboxRecord("t", key, b"v") for key in keys])


def test_the_shards_of_a_relay_that_stands_still_are_taken_over(
    short: None, installation: Installation, outboxes: tuple[PostgresOutbox, PostgresOutbox]
) -> None:
    frozen, heir = outboxes
    write(installation, b"a", b"b")
    ids = [row.id for row in frozen.take(10)]
    assert len(ids) == 2
    assert heir.take(10) == []
    taken = wait_for(lambda: heir.take(10), 10, "the shards stay held")
    assert {row.id for row in taken} == set(ids)
    with pytest.raises(ServiceUnreachable):
        frozen.settle(ids)
    heir.release()
    assert installation.one("SELECT count(*) FROM outbox") == 2
    assert {row.id for row in frozen.take(10)} == set(ids)  # it has a connection again
    frozen.settle(ids)
    assert installation.one("SELECT count(*) FROM outbox") == 0


def test_a_registrar_that_stands_still_is_overtaken_and_writes_nothing(short: None, installation: Installation) -> None:
    batch = [source(0, change())]

    def stand_still(frozen: PostgresRegistry, heir: PostgresRegistry) -> None:
        with frozen.transaction() as transaction:
            assert transaction.lock_offsets([Source.of(batch[0])]) == {Source.of(batch[0]): 0}
            assert registrar(heir).handle(batch).accepted == 1  # waits for the lock

    first, second = (PostgresRegistry(installation.dsn, installation.schema) for _ in range(2))
    with closing(first), closing(second):
        with pytest.raises(ServiceUnreachable):
            stand_still(first, second)
        assert registrar(first).handle(batch).duplicates == 1


def test_a_round_that_finds_its_rows_gone_holds_nothing(
    installation: Installation, outboxes: tuple[PostgresOutbox, PostgresOutbox]
) -> None:
    """Another relay published them after the shards were seen to have some, and before they were locked."""
    late, other = outboxes

    class Meanwhile(dict[str, LiteralString]):
        def __getitem__(self, name: str) -> LiteralString:
            if name == "rows":
                with closing(connect(installation.dsn, installation.schema, "test")) as connection:
                    connection.execute("DELETE FROM outbox")
            return super().__getitem__(name)

    statements: Mapping[str, LiteralString] = late._sql
    write(installation, b"a")
    late._sql = Meanwhile(statements)
    assert late.take(10) == []
    write(installation, b"a")
    assert len(other.take(10)) == 1
    other.release()


def test_a_list_that_a_person_pages_through_stands_still_as_long_as_they_read(
    short: None, installation: Installation
) -> None:
    with closing(PostgresRegistry(installation.dsn, installation.schema)) as registry:
        registrar(registry).handle([source(n, change(schedule_id=f"s{n}", change_id=f"c{n}")) for n in range(3)])
    with closing(ScheduleReader(installation.dsn, installation.schema)) as reader:
        rows = reader.find(tenant=None, region=None, zone=None, state=None)
        assert next(rows).id == "s0"
        Event().wait(1.0)  # longer than a transaction of anybody else may stand still here
        assert [row.id for row in rows] == ["s1", "s2"]
