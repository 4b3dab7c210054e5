"""Processors with something wrong inside, run as processes by tests.

`stalled`: its Faust consumer is stopped once it has been given partitions. Prints `stalled` when it is, and `wakes N`
at the end: how many events Faust delivered after that. `failing`: its engine fails at the first tick.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from typing import Any

from streams.adapters.faust.host import FaustHost
from streams.entrypoints import logs, settings
from streams.entrypoints.processor import make_engine, terms_of
from streams.pipeline.names import Names


def failing(config: str) -> int:
    logs.configure("processor")
    loaded = settings.load(config)
    terms = terms_of(loaded)
    host = FaustHost(loaded.kafka.bootstrap_servers, Names(loaded.kafka.topic_prefix), terms.partition_count)
    engine = make_engine(loaded, terms, host.engine_failed)

    def fail() -> bool:
        raise ZeroDivisionError("a bug")

    engine._round.run = fail  # type: ignore[method-assign]
    host.host(engine)
    return host.run()


def stalled(config: str) -> int:
    logs.configure("processor")
    loaded = settings.load(config)
    terms = terms_of(loaded)
    host = FaustHost(loaded.kafka.bootstrap_servers, Names(loaded.kafka.topic_prefix), terms.partition_count)
    engine = make_engine(loaded, terms, host.engine_failed)
    host.host(engine)
    wakes = 0
    standing = asyncio.Event()
    wake = engine.wake

    def counted(partition: int, next_offset: int) -> None:
        nonlocal wakes
        wakes += standing.is_set()
        wake(partition, next_offset)

    engine.wake = counted  # type: ignore[method-assign]

    async def stall() -> None:
        await asyncio.sleep(0)
        while host.app.rebalancing or not host.app.consumer.assignment():
            await asyncio.sleep(0.1)
        host.app.flow_control.suspend()
        host.app.consumer.pause_partitions(host.app.consumer.assignment())
        await host.app._stop_fetcher()
        standing.set()
        print("stalled", flush=True)

    tasks = []

    async def assigned(app: Any, assigned: Collection[Any], **_: Any) -> None:
        del app, assigned
        tasks.append(asyncio.ensure_future(stall()))

    host.app.on_partitions_assigned.connect(assigned)
    status = host.run()
    print("wakes", wakes, flush=True)
    return status


if __name__ == "__main__":
    sys.exit({"stalled": stalled, "failing": failing}[sys.argv[2]](sys.argv[1]))
