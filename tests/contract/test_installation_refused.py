"""Where the installation is not what it should be: one line that says what to do, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from streams.adapters.clock import SystemClock
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.base import connect, migrate, statements
from streams.adapters.postgres.sessions import LeaseKeeper
from streams.domain.errors import InvalidInput
from streams.entrypoints.cli import main
from streams.pipeline.lease import Lease
from tests.ledger_support import Bench
from tests.services import unique_name, wait_for


@pytest.fixture
def settings(tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "townclock.toml"
    monkeypatch.setenv("TOWNCLOCK_CONFIG", str(path))
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    return err


@pytest.mark.parametrize(
    "arguments", [("db", "lanes"), ("db", "release", "eu", "x"), ("audit", "ab" * 32)], ids=lambda words: words[0]
)
def test_without_tables(
    arguments: tuple[str, ...],
    database: EmbeddedDatabase,
    schema: str,
    settings: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings.write_text(f'[postgres]\ndsn = {json.dumps(database.dsn)}\nschema = "{schema}"\n')
    assert "run: townclock db migrate" in refused(capsys, *arguments)


def test_without_rights(
    database: EmbeddedDatabase, schema: str, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    role = unique_name("weak")
    weak = psycopg.conninfo.make_conninfo(database.dsn, user=role, password="weak")
    settings.write_text(f'[postgres]\ndsn = {json.dumps(weak)}\nschema = "{schema}"\n')
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'weak'").format(sql.Identifier(role)))
        try:
            assert "grant it to the user of postgres.dsn" in refused(capsys, "db", "migrate")
            migrate(database.dsn, schema)
            admin.execute(
                sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), sql.Identifier(role))
            )
            assert "grant it to the user of postgres.dsn" in refused(capsys, "db", "lanes")
        finally:
            admin.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


def test_tables_of_others(
    database: EmbeddedDatabase, schema: str, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.write_text(f'[postgres]\ndsn = {json.dumps(database.dsn)}\nschema = "{schema}"\n')
    with psycopg.connect(database.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        admin.execute(sql.SQL("CREATE TABLE {} (x int)").format(sql.Identifier(schema, "outbox")))
    assert "set postgres.schema" in refused(capsys, "db", "migrate")


@pytest.mark.parametrize(
    "dsn",
    [
        "mysql://me:s3cret@host/db",
        "postgresql://me:s3cret@host/db?no=such",
        "host=nowhere.invalid password=s3cret bad=x",
    ],
)
def test_a_dsn_is_refused_without_its_password(dsn: str) -> None:
    with pytest.raises(InvalidInput, match=r"^postgres.dsn: .*; write postgresql://") as caught:
        connect(dsn, "s", "test")
    assert "s3cret" not in str(caught.value)


@pytest.fixture
def bench(database: EmbeddedDatabase, schema: str) -> Iterator[Bench]:
    made = Bench(database.dsn, schema)
    yield made
    made.close()


def test_many_starts_use_up_no_lane_numbers(bench: Bench) -> None:
    terms = {"region": "eu", "provider": "eu-mail", "rate_per_s": 5.0, "burst": 3}
    numbers = [bench.sql.execute(statements("lanes")["set_quota"], terms).fetchall() for _ in range(20)]
    assert numbers == [[(1,)]] * 20
    other = bench.sql.execute(statements("lanes")["set_quota"], {**terms, "provider": "other"}).fetchall()
    assert other == [(2,)]
    assert bench.sql.execute("SELECT rate_per_s, burst FROM lane").fetchall() == [(5.0, 3)] * 2


def test_a_lease_is_kept_whatever_the_server_said_meanwhile(bench: Bench) -> None:
    lease, clock = Lease(), SystemClock()
    keeper = LeaseKeeper(
        bench.dsn, bench.schema, "eu", lease, 1.0, clock, lambda: "00000000-0000-0000-0000-000000000001"
    )
    keeper.start()
    try:
        first = lease.session
        assert first is not None
        bench.sql.execute("ALTER TABLE worker_session RENAME TO away")
        wait_for(lambda: not lease.covers(first, clock.boot_s(), 0.0), 10, lambda: "the lease goes on")
        bench.sql.execute("DELETE FROM away")
        bench.sql.execute("ALTER TABLE away RENAME TO worker_session")
        wait_for(lambda: lease.covers(lease.session or 0, clock.boot_s(), 0.2), 10, lambda: "no lease any more")
        assert lease.session != first
    finally:
        keeper.stop()
