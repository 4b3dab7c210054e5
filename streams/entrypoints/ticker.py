"""Wires a ticker: live, on the machine's clock; or over a scenario's minutes, as fast as the broker takes them."""

from __future__ import annotations

import structlog

from streams.adapters.clock import SystemClock
from streams.adapters.kafka import topics
from streams.adapters.kafka.client import admin
from streams.adapters.kafka.tick_log import KafkaTickLog
from streams.domain.errors import InvalidInput, TownclockError
from streams.domain.minutes import format_tick
from streams.entrypoints.running import Stopping, when_reachable
from streams.entrypoints.settings import Settings
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.names import Names
from streams.pipeline.tick import Stamp, Ticker, tick_live

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0

_log = structlog.get_logger()


def run(settings: Settings, first: int | None, end: int | None) -> None:
    """Live until SIGTERM; or the scenario minutes `first` up to, not including, `end`."""
    window = _window(settings, first, end)
    stopping = Stopping()
    stamp = when_reachable("Kafka", lambda: _stamp(settings), stopping)
    if stamp is None or stopping:
        return
    names, clock = Names(settings.kafka.topic_prefix), SystemClock()
    log = KafkaTickLog(settings.kafka.bootstrap_servers, names, stamp.partition_count, lambda: bool(stopping))

    def now_ms() -> int:
        return int(clock.now_s() * 1000)

    ticker = Ticker(log, stamp, now_ms)
    _log.info("ticker_starts", scenario=settings.scenario, partitions=stamp.partition_count)
    wait_s = _FIRST_WAIT_S
    while not stopping:
        try:
            pause_s = tick_live(ticker, now_ms) if window is None else _tick_window(ticker, *window)
            wait_s = _FIRST_WAIT_S
        except Interrupted:
            break
        except TownclockError as error:
            if not error.retriable:
                raise
            _log.warning("waiting", what="Kafka", problem=str(error), again_in_s=wait_s)
            pause_s, wait_s = wait_s, min(wait_s * 2, _LONGEST_WAIT_S)
        if pause_s is None:
            break
        stopping.wait(pause_s)
    _log.info("ticker_ends", asked=bool(stopping))


def _window(settings: Settings, first: int | None, end: int | None) -> tuple[int, int] | None:
    if settings.scenario is None:
        if first is not None or end is not None:
            raise InvalidInput(
                "--from and --to are for a scenario, and these settings are of a live installation; leave them out, or "
                "set scenario = NAME with a topic_prefix of its own"
            )
        return None
    if first is None or end is None:
        raise InvalidInput(
            f"scenario {settings.scenario} has no clock of its own; give its minutes: --from UTC --to UTC"
        )
    if end <= first:
        raise InvalidInput(f"--to {format_tick(end)} is not after --from {format_tick(first)}")
    return first, end


def _tick_window(ticker: Ticker, first: int, end: int) -> float | None:
    """One batch; None once the last minute is acknowledged on every partition."""
    return 0.0 if ticker.append_missing(first, end - 1) else None


def _stamp(settings: Settings) -> Stamp:
    names, servers = Names(settings.kafka.topic_prefix), settings.kafka.bootstrap_servers
    topics.require(names, settings.regions, servers)
    client = admin(servers)
    return Stamp(
        scenario=settings.scenario,
        schedules_topic_id=topics.topic_id(client, names.schedules),
        partition_count=topics.partition_count(client, names.schedules),
    )
