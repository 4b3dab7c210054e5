"""`townclock ticker`: publish every UTC minute."""

from __future__ import annotations

import click

from streams.domain.errors import InvalidInput
from streams.domain.minutes import parse_tick
from streams.entrypoints.cli.common import settings_of


@click.command()
@click.option("--from", "first", metavar="UTC", help="Scenario only: the first minute, YYYY-MM-DDTHH:MMZ.")
@click.option("--to", "end", metavar="UTC", help="Scenario only: the minute after the last one.")
@click.pass_context
def ticker(ctx: click.Context, first: str | None, end: str | None) -> None:
    """Publish every UTC minute on every partition of ticks, and those that are missing. Runs until SIGTERM.

    In a scenario installation it publishes the minutes of --from up to --to as fast as it can, or goes on after the
    last one that is there, and ends.
    """
    from streams.entrypoints import logs
    from streams.entrypoints.ticker import run

    window = _minute("--from", first), _minute("--to", end)
    logs.configure("ticker")
    run(settings_of(ctx), *window)


def _minute(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_tick(text)
    except ValueError as error:
        raise InvalidInput(f"{option} {text!r}: {error}") from None
