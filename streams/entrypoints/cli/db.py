"""`townclock db`: the ledger's tables, and its lanes."""

from __future__ import annotations

import json
import sys

import click

from streams.domain.errors import InvalidInput
from streams.entrypoints.cli.common import settings_of


@click.group()
def db() -> None:
    """Create and check the ledger's tables; see its lanes."""


@db.command()
@click.pass_context
def migrate(ctx: click.Context) -> None:
    """Bring the schema up to this release. Running it again changes nothing."""
    from streams.adapters.postgres.base import migrate as apply

    postgres = settings_of(ctx).postgres
    applied = apply(postgres.dsn, postgres.schema)
    for name in applied:
        click.echo(f"applied {name}")
    if not applied:
        click.echo(f"schema {postgres.schema} is up to date")


@db.command()
@click.option("--json", "as_json", is_flag=True, help="One object: the schema and what it lacks.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Exit 1 and name the migrations that the schema lacks, if any."""
    from streams.adapters.postgres.base import pending_migrations

    postgres = settings_of(ctx).postgres
    pending = pending_migrations(postgres.dsn, postgres.schema)
    if as_json:
        click.echo(json.dumps({"schema": postgres.schema, "pending": pending}))
    elif pending:
        click.echo(f"schema {postgres.schema} lacks {', '.join(pending)}; run: townclock db migrate")
    else:
        click.echo(f"schema {postgres.schema} is up to date")
    sys.exit(1 if pending else 0)


@db.command()
@click.option("--json", "as_json", is_flag=True, help="One object a lane.")
@click.pass_context
def lanes(ctx: click.Context, as_json: bool) -> None:
    """Each lane's quota, and what keeps it from sending."""
    from streams.adapters.postgres.base import connect, statements

    postgres = settings_of(ctx).postgres
    with connect(postgres.dsn, postgres.schema, "lanes") as connection:
        rows = connection.execute(statements("lanes")["lanes_for_people"]).fetchall()
    for region, provider, rate, burst, held, since, blocked in rows:
        if as_json:
            row = {
                "region": region,
                "provider": provider,
                "rate_per_s": rate,
                "burst": burst,
                "held": held,
                "held_since": since and since.isoformat(),
                "blocked_until": blocked and blocked.isoformat(),
            }
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            quota = "no worker yet" if rate is None else f"{rate:g}/s, burst {burst}"
            click.echo(f"{region}/{provider}: {quota}{f'; held since {since:%F %T}: {held}' if held else ''}")


@db.command()
@click.argument("region")
@click.argument("provider")
@click.pass_context
def release(ctx: click.Context, region: str, provider: str) -> None:
    """Let a held lane send again, once what it was held for (a refused credential) is mended."""
    from streams.adapters.postgres.base import connect, statements

    postgres = settings_of(ctx).postgres
    with connect(postgres.dsn, postgres.schema, "release") as connection:
        terms = {"region": region, "provider": provider}
        released = connection.execute(statements("lanes")["release_lane"], terms).rowcount
    if not released:
        raise InvalidInput(f"there is no held lane {region}/{provider}; townclock db lanes lists them")
    click.echo(f"{region}/{provider} sends again")
