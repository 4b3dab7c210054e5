"""`townclock processor`: join ticks with schedules."""

from __future__ import annotations

import sys

import click

from streams.entrypoints.cli.common import settings_of


@click.command()
@click.pass_context
def processor(ctx: click.Context) -> None:
    """Join ticks with schedules: what is due at each minute goes to occurrences.REGION. Runs until SIGTERM.

    Start as many as you like; they share the partitions of ticks. A partition that breaks a promise stops alone, and
    the log says why.
    """
    from streams.entrypoints import logs
    from streams.entrypoints.processor import run

    logs.configure("processor")
    sys.exit(run(settings_of(ctx)))
