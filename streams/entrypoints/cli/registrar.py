"""`townclock registrar`: see `streams.entrypoints.registrar`."""

from __future__ import annotations

import click

from streams.entrypoints.cli.common import settings_of


@click.command()
@click.pass_context
def registrar(ctx: click.Context) -> None:
    """Validate and number schedule changes, and answer them. Runs until SIGTERM; several share the work."""
    from streams.entrypoints import logs
    from streams.entrypoints.registrar import run

    logs.configure("registrar")
    run(settings_of(ctx))
