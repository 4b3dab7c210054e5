"""`townclock schedules get` and `list`: what the registry knows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from streams.domain.errors import TownclockError
from streams.entrypoints.cli.common import settings_of

if TYPE_CHECKING:
    from streams.adapters.postgres.schedule_reader import KnownSchedule, PastRevision, ScheduleReader

_STATES = ("active", "paused", "deleted")


@click.command()
@click.argument("schedule_id", metavar="ID")
@click.option("--history", is_flag=True, help="Every revision, oldest first, instead of the document.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def get(ctx: click.Context, schedule_id: str, history: bool, as_json: bool) -> None:
    """One schedule: its newest revision and document, every default filled in. It can be applied again as it is."""
    with _reader(ctx) as reader:
        if "\0" in schedule_id or (found := reader.get(schedule_id)) is None:
            raise TownclockError(f"there is no schedule {schedule_id}; townclock schedules list shows those there are")
        past = reader.history(schedule_id) if history else []
    from streams.domain.document import canonical_document

    known, schedule = found
    if as_json:
        body = {**_as_json(known), "document": canonical_document(schedule)}
        if history:
            body["history"] = [_past_as_json(item) for item in past]
        click.echo(json.dumps(body, ensure_ascii=False))
    elif history:
        _print_history(past)
    else:
        import yaml

        click.echo(f"# {known.state}, revision {known.revision} of incarnation {known.incarnation}, {_told(known)}")
        click.echo(yaml.safe_dump(canonical_document(schedule), sort_keys=False, allow_unicode=True), nl=False)


@click.command("list")
@click.option("--tenant", help="Only this tenant's.")
@click.option("--region", help="Only in this region.")
@click.option("--zone", help="Only in this time zone.")
@click.option("--state", type=click.Choice(_STATES), help="Only in this state; default: all that are not deleted.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, one object a line.")
@click.pass_context
def list_schedules(
    ctx: click.Context, tenant: str | None, region: str | None, zone: str | None, state: str | None, as_json: bool
) -> None:
    """Schedules by id, with their newest revision and state."""
    with _reader(ctx) as reader:
        found = reader.find(tenant=tenant, region=region, zone=zone, state=state)
        if as_json:
            _print_json(found)
        else:
            _print_table(found)


@contextmanager
def _reader(ctx: click.Context) -> Iterator[ScheduleReader]:
    from streams.adapters.postgres.schedule_reader import ScheduleReader
    from streams.entrypoints.required import require_tables

    settings = settings_of(ctx)
    require_tables(settings)
    reader = ScheduleReader(settings.postgres.dsn, settings.postgres.schema)
    try:
        yield reader
    finally:
        reader.close()


def _print_json(found: Iterator[KnownSchedule]) -> None:
    """As they come: a list of a million is not held in memory."""
    start = "["
    for known in found:
        click.echo(f"{start}{json.dumps(_as_json(known), ensure_ascii=False)}", nl=False)
        start = ",\n"
    click.echo("[]" if start == "[" else "]")


def _print_table(found: Iterator[KnownSchedule]) -> None:
    row = "{:<36}  {:>8}  {:<8}  {:<12}  {:<8}  {:<24}  {}"
    click.echo(row.format("ID", "REVISION", "STATE", "TENANT", "REGION", "ZONE", "CHANGED"))
    for known in found:
        click.echo(
            row.format(
                known.id, known.revision, known.state, known.tenant, known.region, known.zone, _time(known.changed_at)
            )
        )


def _print_history(past: Sequence[PastRevision]) -> None:
    row = "{:>11}  {:>8}  {:<8}  {:<20}  {:<16}  {}"
    click.echo(row.format("INCARNATION", "REVISION", "STATE", "REGISTERED", "ACTOR", "PLAN"))
    for item in past:
        lies = "-" if item.landed_offset is None else f"partition {item.landed_partition}, offset {item.landed_offset}"
        registered = _time(item.registered_at)
        click.echo(row.format(item.incarnation, item.number, item.state, registered, item.actor, lies))


def _told(known: KnownSchedule) -> str:
    landed = "published" if known.landed else "not published yet"
    return f"changed at {_time(known.changed_at)}, {landed}"


def _as_json(known: KnownSchedule) -> dict[str, object]:
    return {**asdict(known), "changed_at": _time(known.changed_at)}


def _past_as_json(item: PastRevision) -> dict[str, object]:
    landed_at = None if item.landed_at is None else _time(item.landed_at)
    return {**asdict(item), "registered_at": _time(item.registered_at), "landed_at": landed_at}


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
