"""Wires a processor: the engine of joiners, and faust-streaming as its host."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

import structlog

from streams.adapters.clock import SystemClock, new_id
from streams.adapters.faust.host import FaustHost
from streams.adapters.kafka import topics
from streams.adapters.kafka.client import admin
from streams.adapters.kafka.engine import Engine
from streams.entrypoints.running import Stopping, when_reachable
from streams.entrypoints.settings import Settings
from streams.pipeline.join import Terms
from streams.pipeline.names import Names

# Plans live as long as the process, and a batch makes thousands of records that die together. By default the cycle
# collector would walk all of them again and again, and find nothing: half the time of a rebuild and of a busy minute.
_GC_THRESHOLDS: Final = (100_000, 20, 100)

_log = structlog.get_logger()


def terms_of(settings: Settings) -> Terms:
    """What ticks must agree with, from the topics as they are now. Raises if a topic breaks a promise."""
    names, servers = Names(settings.kafka.topic_prefix), settings.kafka.bootstrap_servers
    topics.require(names, settings.regions, servers)
    client = admin(servers)
    return Terms(
        scenario=settings.scenario,
        schedules_topic_id=topics.topic_id(client, names.schedules),
        partition_count=topics.partition_count(client, names.schedules),
        regions=settings.regions,
    )


def make_engine(settings: Settings, terms: Terms, failed: Callable[[BaseException], None]) -> Engine:
    """An engine of a new session, not started."""
    names = Names(settings.kafka.topic_prefix)
    return Engine(settings.kafka.bootstrap_servers, names, terms, new_id(), SystemClock(), failed)


def run(settings: Settings) -> int:
    """Until SIGTERM or SIGINT; the exit status."""
    stopping = Stopping()
    terms = when_reachable("Kafka", lambda: terms_of(settings), stopping)
    if terms is None or stopping:
        return 0
    gc.set_threshold(*_GC_THRESHOLDS)
    names = Names(settings.kafka.topic_prefix)
    host = FaustHost(settings.kafka.bootstrap_servers, names, terms.partition_count)
    host.host(make_engine(settings, terms, host.engine_failed))
    _log.info("processor_starts", scenario=settings.scenario, partitions=terms.partition_count)
    status = host.run(lambda: bool(stopping))
    _log.info("processor_ends", status=status)
    return status
