"""Connections, named statements, migrations. Every statement has a name and lives in a file of `sql/`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, LiteralString, cast

import psycopg
from psycopg import sql

from streams.domain.errors import BrokenPromise, InvalidInput, ServiceUnreachable

_HERE = Path(__file__).resolve().parent
_SECRET = re.compile(r"(?<=:)[^:/@\s]+(?=@)|(?<=password=)[^\s&\"]+")
_NAME = re.compile(r"^-- name: ([a-z_0-9]+)$", re.MULTILINE)

# What a lost connection raises. The last three are of another family: a server that ended a transaction which stood
# idle or lasted too long, and one that has become a standby.
LOST = (
    psycopg.OperationalError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.TransactionTimeout,
    psycopg.errors.ReadOnlySqlTransaction,
)

# Stopped, or cut off, in the middle of a transaction, a process holds its locks no longer than this.
_IDLE_IN_TRANSACTION = "60s"
# A server that is gone without a word is noticed within half a minute; the system's own default is two hours.
_KEEPALIVE: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}

Connection = psycopg.Connection[tuple[Any, ...]]
AsyncConnection = psycopg.AsyncConnection[tuple[Any, ...]]


@cache
def statements(file: str) -> Mapping[str, LiteralString]:
    """The statements of `sql/FILE.sql` by name: each begins with a line `-- name: NAME`."""
    text = (_HERE / "sql" / f"{file}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: cast("LiteralString", body.strip()) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def connection_options(schema: str, application: str, **settings: str) -> dict[str, Any]:
    """What every connection says: its schema, its name in pg_stat_activity, and any further settings."""
    always = {"search_path": schema, "timezone": "UTC", "idle_in_transaction_session_timeout": _IDLE_IN_TRANSACTION}
    options = " ".join(f"-c {name}={value}" for name, value in {**always, **settings}.items())
    return {"options": options, "application_name": f"townclock {application}", **_KEEPALIVE}


def connect(dsn: str, schema: str, application: str, *, autocommit: bool = True, **settings: str) -> Connection:
    """A connection whose search path is the installation's schema. Raises ServiceUnreachable, or InvalidInput."""
    try:
        return psycopg.connect(dsn, autocommit=autocommit, **connection_options(schema, application, **settings))
    except psycopg.ProgrammingError as error:
        raise InvalidInput(f"postgres.dsn: {_first_line(error)}; write postgresql://USER@HOST/DATABASE") from None
    except psycopg.OperationalError as error:
        raise unreachable(error) from None


async def connect_async(dsn: str, schema: str, application: str, **settings: str) -> AsyncConnection:
    """`connect`, for asyncio."""
    try:
        return await psycopg.AsyncConnection.connect(
            dsn, autocommit=True, **connection_options(schema, application, **settings)
        )
    except psycopg.OperationalError as error:
        raise unreachable(error) from None


def unreachable(error: psycopg.Error) -> ServiceUnreachable:
    """The error that a lost or refused connection becomes."""
    return ServiceUnreachable(
        f"PostgreSQL can't be reached ({_first_line(error)}); start it, or set postgres.dsn in townclock.toml"
    )


def refusal(error: Exception) -> BrokenPromise | None:
    """The error that a server's refusal becomes where the installation is to be mended; none for mistakes of ours."""
    if isinstance(
        error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedFunction | psycopg.errors.UndefinedColumn
    ):
        return BrokenPromise(
            f"PostgreSQL: {_first_line(error)}; run: townclock db migrate, with the right postgres.schema"
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return BrokenPromise(f"PostgreSQL: {_first_line(error)}; grant it to the user of postgres.dsn, or use another")
    if isinstance(
        error, psycopg.errors.DuplicateTable | psycopg.errors.DuplicateObject | psycopg.errors.DuplicateFunction
    ):
        return BrokenPromise(
            f"PostgreSQL: {_first_line(error)}; the schema holds tables of others: set postgres.schema"
        )
    return None


def _first_line(error: Exception) -> str:
    """What it says, without a password: a dsn that can't be parsed is quoted whole."""
    return _SECRET.sub("***", (str(error).strip() or type(error).__name__).splitlines()[0])


def migrations() -> list[tuple[int, str, str]]:
    """(number, name, SQL) of `migrations/NNN_name.sql`, in order."""
    found = []
    for file in sorted((_HERE / "migrations").glob("[0-9][0-9][0-9]_*.sql")):
        number, _, name = file.stem.partition("_")
        found.append((int(number), name, file.read_text(encoding="utf-8")))
    return found


def migrate(dsn: str, schema: str) -> list[str]:
    """Brings the schema up to this release; returns what was applied. Several at once wait for each other.

    Raises BrokenPromise if an applied migration differs from this release's file of the same number.
    """
    applied = []
    with connect(dsn, schema, "migrate", autocommit=False) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"townclock migrate {schema}",))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migration"
            " (number int PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
        )
        done: dict[int, str] = dict(connection.execute("SELECT number, sha256 FROM migration").fetchall())
        for number, name, text in migrations():
            digest = sha256(text.encode()).hexdigest()
            if number in done:
                if done[number] != digest:
                    raise BrokenPromise(
                        f"migration {number:03d}_{name} was applied to schema {schema} with another text; "
                        "a released migration never changes: restore its file, or use a new schema"
                    )
                continue
            connection.execute(text.encode())
            connection.execute("INSERT INTO migration VALUES (%s, %s, %s)", (number, name, digest))
            applied.append(f"{number:03d}_{name}")
    return applied


def pending_migrations(dsn: str, schema: str) -> list[str]:
    """Migrations of this release that the schema lacks; all of them where it does not exist."""
    with connect(dsn, schema, "check") as connection:
        exists = connection.execute("SELECT to_regclass('migration') IS NOT NULL").fetchone()
        done = set()
        if exists and exists[0]:
            done = {row[0] for row in connection.execute("SELECT number FROM migration").fetchall()}
    return [f"{number:03d}_{name}" for number, name, _ in migrations() if number not in done]
