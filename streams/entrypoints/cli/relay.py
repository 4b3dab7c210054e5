"""`townclock relay`: see `streams.entrypoints.relay`."""

from __future__ import annotations

import click

from streams.entrypoints.cli.common import settings_of


@click.command()
@click.pass_context
def relay(ctx: click.Context) -> None:
    """Publish the outbox, in order per key. Runs until SIGTERM; several share the work."""
    from streams.entrypoints import logs
    from streams.entrypoints.relay import run

    logs.configure("relay")
    run(settings_of(ctx))
