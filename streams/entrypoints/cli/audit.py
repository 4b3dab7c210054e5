"""`townclock audit`: all that is known of one occurrence key or label."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from streams.domain.errors import InvalidInput, TownclockError
from streams.domain.keys import label_key
from streams.domain.minutes import MINUTES_PER_DAY, date_of_day, parse_label
from streams.entrypoints.cli.common import settings_of

if TYPE_CHECKING:
    from streams.adapters.postgres.ledger_audit import AuditReader
    from streams.pipeline.audit import Audited, NotInLedger

_COPIES = (0, 1)


class LocalMinute(click.ParamType):
    """A local minute on the command line, `2027-03-14T02:30`; converts to a label."""

    name = "YYYY-MM-DDTHH:MM"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The label, or a usage error."""
        try:
            return value if isinstance(value, int) else parse_label(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a local minute; write YYYY-MM-DDTHH:MM", param, ctx)


@click.command()
@click.argument("key", required=False)
@click.option("--schedule", "schedule_id", metavar="ID", help="With --label, in place of a key.")
@click.option("--label", type=LocalMinute(), help="The promised local minute, as the schedule's zone shows it.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.pass_context
def audit(ctx: click.Context, key: str | None, schedule_id: str | None, label: int | None, as_json: bool) -> None:
    """All that is known of one occurrence: KEY, or --schedule ID --label YYYY-MM-DDTHH:MM.

    For a label that did not fire it says why. A label that fires twice gives two. Exit 1 if the ledger has no such key,
    or lacks a label that was promised.
    """
    from streams.adapters.postgres.ledger_audit import AuditReader

    if (key is None) == (schedule_id is None or label is None) or (key and (schedule_id or label is not None)):
        raise click.UsageError("give a KEY, or --schedule ID and --label YYYY-MM-DDTHH:MM")
    settings = settings_of(ctx)
    reader = AuditReader(settings.postgres.dsn, settings.postgres.schema)
    try:
        if key is not None:
            _show([_of_key(reader, key)], as_json)
            return
        found = _of_label(reader, schedule_id or "", label or 0)
        if found:
            _show(found, as_json)
            return
        told = _explained(reader, schedule_id or "", label or 0, scenario=settings.scenario is not None)
    finally:
        reader.close()
    _tell(told, as_json)
    ctx.exit(1 if told.state == "not_recorded" else 0)


def _of_key(reader: AuditReader, key: str) -> Audited:
    try:
        raw = bytes.fromhex(key)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise InvalidInput(
            f"{key!r} is no occurrence key: 64 hex digits; or use --schedule ID --label YYYY-MM-DDTHH:MM"
        )
    found = reader.audited(raw)
    if found is None:
        raise TownclockError(f"the ledger has no key {key}; with --schedule and --label it can be said why")
    return found


def _of_label(reader: AuditReader, schedule_id: str, label: int) -> list[Audited]:
    day = date_of_day(label // MINUTES_PER_DAY)
    keys = [bytes.fromhex(label_key(schedule_id, label, copy)) for copy in _COPIES]
    return [found for key in keys if (found := reader.audited(key, day)) is not None]


def _explained(reader: AuditReader, schedule_id: str, label: int, *, scenario: bool) -> NotInLedger:
    from streams.adapters.tz.wheel import wheel_bundle
    from streams.pipeline.audit import explain_label

    revisions = reader.revisions(schedule_id, scenario=scenario)
    if not revisions:
        raise TownclockError(f"no schedule {schedule_id!r} was ever registered; townclock schedules list shows them")
    return explain_label(revisions, label, wheel_bundle())


def _show(found: list[Audited], as_json: bool) -> None:
    from streams.pipeline.audit import millisecond

    for each in found:
        if as_json:
            click.echo(json.dumps(each.as_json(), ensure_ascii=False))
            continue
        shown = each.as_json()
        click.echo(f"{shown['state']}: {each.schedule_id} {each.nominal or '-'} {each.zone} at {shown['instant']}")
        if each.reason:
            click.echo(f"  why        {each.reason}")
        click.echo(f"  key        {each.key}")
        click.echo(f"  revision   {each.incarnation}.{each.revision}, gap {each.gap}, overlap {each.overlap}")
        click.echo(f"  tick       partition {each.tick[0]}, offset {each.tick[1]}, watermark {each.tick[2]}")
        click.echo(f"  record     {each.source[0]}[{each.source[1]}] offset {each.source[2]}")
        click.echo(f"  lane       {each.region}/{each.provider}, due {shown['due']}, tzdata {each.tz_version}")
        if each.in_doubt_since:
            click.echo(f"  in doubt   since {shown['in_doubt_since']}")
        for attempt in each.tries:
            code = "" if attempt.code is None else f" {attempt.code}"
            click.echo(f"  attempt {attempt.n}  {millisecond(attempt.at)}  {attempt.outcome or 'in flight'}{code}")
        click.echo(f"  duplicates suppressed: {each.duplicates}")


def _tell(told: NotInLedger, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(told.as_json(), ensure_ascii=False))
        return
    what = {
        "not_fired": f"did not fire: {told.decision}",
        "never_due": "was never due: the rule has no such label",
        "not_recorded": "is promised, and the ledger does not have it (yet)",
    }[told.state]
    click.echo(
        f"{told.schedule_id} {told.nominal} {told.zone} {what} (revision {told.revision}, tzdata {told.tz_version})"
    )
