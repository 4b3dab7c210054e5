"""`townclock embedded`: Apache Kafka and PostgreSQL on this machine, with nothing installed beforehand."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import click

from streams.domain.errors import InvalidInput, TownclockError


@click.group()
def embedded() -> None:
    """A broker and a database on this machine."""


@embedded.command()
def fetch() -> None:
    """Fetch and verify the broker's files; quick when all are there."""
    from streams.adapters.embedded.jars import ensure_jars, read_lock

    folder = ensure_jars()
    click.echo(f"Apache Kafka: {len(read_lock())} files verified in {folder}")


@embedded.command()
@click.option(
    "--data", "data_dir", required=True, metavar="DIR", type=click.Path(path_type=Path), help="Kept between runs."
)
@click.option("--kafka-port", type=click.IntRange(1, 65535), help="Default: the last one used, else a free one.")
@click.option("--postgres-port", type=click.IntRange(1, 65535), help="Default: the last one used, else a free one.")
@click.option("--json", "as_json", is_flag=True, help="Print where they are as one JSON object.")
def run(data_dir: Path, kafka_port: int | None, postgres_port: int | None, *, as_json: bool) -> None:
    """Run both in the foreground until Ctrl-C.

    Prints the bootstrap servers and the DSN (with its password) when both answer.
    """
    from streams.adapters.embedded.services import EmbeddedServices
    from streams.entrypoints.running import Stopping

    if kafka_port is not None and kafka_port == postgres_port:
        raise InvalidInput(f"port {kafka_port} was asked for both Apache Kafka and PostgreSQL; name two ports")
    with EmbeddedServices(data_dir, broker_port=kafka_port, database_port=postgres_port) as services:
        stopping = Stopping((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        where = {
            "bootstrap_servers": services.bootstrap_servers,
            "cluster_id": services.broker.cluster_id,
            "dsn": services.dsn,
            "data": str(services.data_dir),
        }
        if as_json:
            click.echo(json.dumps(where))
        else:
            click.echo(f"bootstrap servers: {where['bootstrap_servers']}\ndsn: {where['dsn']}")
            click.echo(f"running on {where['data']}; Ctrl-C stops both", err=True)
        while not stopping.wait(0.5):
            if (failure := services.failure()) is not None:
                raise TownclockError(failure)
