"""`townclock sandbox`: a provider to try things on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 takes a free one.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Each event, one JSON object a line.")
@click.option("--lane", "lanes", multiple=True, metavar="NAME:rate=300,burst=60,latency=0.02,lost=0.003,window=86400")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides which answers are lost.")
def sandbox(host: str, port: int, log: Path | None, lanes: tuple[str, ...], seed: int) -> None:
    """A provider to try things on: a real HTTP server with a quota, latency, lost answers and an idempotency window.

    Prints {"port": N} and runs until Ctrl-C. POST /lanes/NAME delivers; POST /control/lanes/NAME changes a lane;
    GET /control/stats counts.
    """
    from streams.adapters.http.sandbox import serve

    asyncio.run(serve(lanes, log, host, port, seed))
