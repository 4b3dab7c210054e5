"""`townclock deliver`: deliver one region's occurrences."""

from __future__ import annotations

import sys

import click

from streams.entrypoints.cli.common import settings_of


@click.command()
@click.option("--region", required=True, metavar="REGION", help="Whose occurrences; one of [regions.…].")
@click.pass_context
def deliver(ctx: click.Context, region: str) -> None:
    """Take occurrences.REGION into the ledger and deliver what is due. Runs until SIGTERM.

    Start as many as you like for a region: they share its topic's partitions and its lanes' budgets, and sweep up after
    one that dies.
    """
    from streams.entrypoints import logs
    from streams.entrypoints.deliver import run

    logs.configure("deliver")
    sys.exit(run(settings_of(ctx), region))
