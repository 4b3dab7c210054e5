"""Wires a relay: the outbox onto its topics, round by round, until asked to stop."""

from __future__ import annotations

import structlog

from streams.adapters.kafka.outbox_publisher import KafkaOutboxPublisher
from streams.adapters.postgres.outbox import PostgresOutbox
from streams.domain.errors import TownclockError
from streams.entrypoints.required import require_topics_and_tables
from streams.entrypoints.running import STOP_S, Stopping, run_with_grace, when_reachable
from streams.entrypoints.settings import Settings
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.relay import relay_once

ROWS = 2000
_POLL_S = 0.25
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0

_log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Until SIGTERM. A service that is away is waited for; rows stay in the outbox until they are acknowledged."""
    stopping = Stopping()
    if not when_reachable("Kafka and PostgreSQL", lambda: _require(settings), stopping):
        return
    _log.info("relay_starts")
    if run_with_grace(lambda: _work(settings, stopping), stopping, STOP_S):
        _log.info("relay_ends")
    else:
        _log.warning("relay_left_behind", note="a service hangs; what is not acknowledged is published again")


def _work(settings: Settings, stopping: Stopping) -> None:
    outbox = PostgresOutbox(settings.postgres.dsn, settings.postgres.schema)
    publisher = KafkaOutboxPublisher(settings.kafka.bootstrap_servers, "townclock-relay", lambda: bool(stopping))
    published, wait_s = 0, _FIRST_WAIT_S
    try:
        while not stopping:
            try:
                done = relay_once(outbox, publisher, ROWS)
                published, wait_s = published + done, _FIRST_WAIT_S
                if not done:
                    outbox.wait(_POLL_S)
            except Interrupted:
                break
            except TownclockError as error:
                if not error.retriable:
                    raise
                _log.warning("waiting", problem=str(error), again_in_s=wait_s)
                stopping.wait(wait_s)
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
    finally:
        outbox.close()
        publisher.close()
    _log.info("published", records=published)


def _require(settings: Settings) -> bool:
    require_topics_and_tables(settings)
    return True
