"""What a process asks of its services before it starts: topics as promised, tables of this release."""

from __future__ import annotations

from streams.adapters.kafka import topics
from streams.adapters.postgres.base import pending_migrations
from streams.domain.errors import BrokenPromise
from streams.entrypoints.settings import Settings
from streams.pipeline.names import Names


def require_topics_and_tables(settings: Settings) -> None:
    """Raises BrokenPromise naming what breaks a promise, or ServiceUnreachable."""
    topics.require(Names(settings.kafka.topic_prefix), settings.regions, settings.kafka.bootstrap_servers)
    require_tables(settings)


def require_tables(settings: Settings) -> None:
    """Raises BrokenPromise if migrations are pending, or ServiceUnreachable."""
    pending = pending_migrations(settings.postgres.dsn, settings.postgres.schema)
    if pending:
        raise BrokenPromise(
            f"schema {settings.postgres.schema} lacks migrations {', '.join(pending)}; run: townclock db migrate"
        )
