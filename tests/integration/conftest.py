"""An installation of its own for a test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.pipeline.names import Names
from tests.installation import SETTINGS, Installation


@pytest.fixture
def installation(
    broker: EmbeddedBroker, database: EmbeddedDatabase, topic_prefix: str, schema: str, tmp_path: Path
) -> Iterator[Installation]:
    """Topics, tables and settings of its own on the shared services; its processes end with the test."""
    (tmp_path / "townclock.toml").write_text(SETTINGS)
    made = Installation(tmp_path, broker.bootstrap_servers, database.dsn, schema, Names(topic_prefix))
    made.prepare()
    yield made
    made.close()
