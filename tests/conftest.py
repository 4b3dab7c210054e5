"""Real services for tests: one broker and one database per session, started when first asked for.

They fail a test that needs them and can't have them; nothing is skipped. Each test gets names of its own, so that tests
share the services without meeting.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from hypothesis import settings
from psycopg import sql

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from tests.effort import FACTOR
from tests.services import unique_name

# The same examples at every `make test`, so that a failure is the change's; others at every `make proof`.
settings.register_profile("townclock", deadline=None, derandomize=FACTOR == 1)
settings.load_profile("townclock")


@pytest.fixture(scope="session")
def services_folder() -> Iterator[Path]:
    """A folder that the database's unprivileged user can enter too; pytest's own is closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="townclock-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def broker(services_folder: Path) -> Iterator[EmbeddedBroker]:
    """Apache Kafka for the whole session. A test that stops or kills it makes one of its own instead."""
    with EmbeddedBroker(services_folder / "kafka") as running:
        yield running


@pytest.fixture(scope="session")
def database(services_folder: Path) -> Iterator[EmbeddedDatabase]:
    """PostgreSQL for the whole session. A test that stops or kills it makes one of its own instead."""
    running = EmbeddedDatabase(services_folder / "postgres")
    running.start()
    try:
        yield running
    finally:
        running.destroy()


@pytest.fixture
def topic_prefix(broker: EmbeddedBroker) -> Iterator[str]:
    """A prefix for the topics (and groups) of one test; the topics are deleted after it."""
    prefix = unique_name("t") + "-"
    yield prefix
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
    for future in admin.delete_topics(names).values() if names else ():
        try:
            future.result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise


@pytest.fixture
def schema(database: EmbeddedDatabase) -> Iterator[str]:
    """The name of a PostgreSQL schema for one test, not yet created; dropped after it.

    A connection left open inside a transaction makes the drop fail, and the test with it.
    """
    name = unique_name("s")
    yield name
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("SET lock_timeout = '20s'")
        connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))
