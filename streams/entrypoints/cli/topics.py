"""`townclock topics`: create the installation's topics, and check what they promise."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from streams.domain.errors import InvalidInput
from streams.entrypoints.cli.common import settings_of
from streams.pipeline.names import Names

if TYPE_CHECKING:
    from streams.adapters.kafka.topics import Created


@click.group()
def topics() -> None:
    """Create and check the topics."""


@topics.command()
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    help="Of every topic but tzdata; default: as many as schedules has, else 24.",
)
@click.option("--replication", type=click.IntRange(1, 100), help="Default: 3, or the number of brokers if fewer.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def create(ctx: click.Context, partitions: int | None, replication: int | None, as_json: bool) -> None:
    """Make the topics that are missing, their first cursors, and publish the installed tzdata. Safe to repeat."""
    from streams.adapters.kafka import topics as adapter

    names, regions, servers = _installation(ctx)
    made = adapter.create(names, regions, servers, partitions=partitions, replication=replication)
    click.echo(json.dumps(asdict(made)) if as_json else _told(names, made))


@topics.command()
@click.option("--json", "as_json", is_flag=True, help="A list of {topic, setting, found, wanted}.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Name each setting that differs from what the pipeline promises; exit 1 if one does."""
    from streams.adapters.kafka import topics as adapter

    differences = adapter.check(*_installation(ctx))
    if as_json:
        click.echo(json.dumps([asdict(difference) for difference in differences]))
    elif not differences:
        click.echo("every topic is as promised")
    for difference in () if as_json else differences:
        click.echo(str(difference))
    ctx.exit(1 if differences else 0)


def _installation(ctx: click.Context) -> tuple[Names, frozenset[str], str]:
    settings = settings_of(ctx)
    if not settings.regions:
        raise InvalidInput(f"{settings.source}: regions: there is none; add a table such as [regions.eu]")
    return Names(settings.kafka.topic_prefix), settings.regions, settings.kafka.bootstrap_servers


def _told(names: Names, made: Created) -> str:
    lines = [f"created {topic}" for topic in made.topics]
    if made.cursors:
        lines.append(f"{names.processor_group}: first cursor on {len(made.cursors)} partitions of {names.ticks}")
    lines += [f"published {key} on {names.tzdata}" for key in made.tzdata_keys]
    return "\n".join(lines or ["nothing to do: every topic is there and as promised"])
