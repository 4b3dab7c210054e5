"""`townclock preview` and `townclock schedules validate`: documents alone, with no broker and no database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from streams.domain.minutes import MINUTES_PER_DAY, format_tick, parse_tick

if TYPE_CHECKING:
    from streams.adapters.documents import Accepted
    from streams.domain.bundle import ZoneBundle
    from streams.domain.preview import Preview
    from streams.domain.schedule import Schedule

_SCHEDULE_DAYS_A_CHUNK = 50_000
_FILES = click.argument("files", nargs=-1, required=True, metavar="FILE...")


class UtcMinute(click.ParamType):
    """A UTC minute on the command line, `2027-03-14T00:00Z`; converts to a tick."""

    name = "UTC"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The tick, or a usage error."""
        try:
            return value if isinstance(value, int) else parse_tick(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a UTC minute; write YYYY-MM-DDTHH:MMZ", param, ctx)


@click.command()
@_FILES
@click.option("--from", "from_tick", type=UtcMinute(), required=True, help="First minute of the window.")
@click.option("--to", "to_tick", type=UtcMinute(), required=True, help="The minute after its last.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line; problems as a JSON list.")
def preview(files: Sequence[str], from_tick: int, to_tick: int, as_json: bool) -> None:
    """Every occurrence and every non-fire of the schedules in FILE... (YAML or JSON; - is standard input).

    Ordered by the instant concerned. Any region and provider name will do here; `schedules validate` checks them.
    """
    from streams.adapters.documents import load_documents
    from streams.adapters.tz.wheel import wheel_bundle
    from streams.domain.document import DocumentContext

    if from_tick > to_tick:
        raise click.UsageError("--to is before --from; the window is from <= instant < to")
    bundle = wheel_bundle()
    accepted = load_documents(files).accept(DocumentContext(frozenset(bundle.names)))
    schedules = [each.schedule for each in accepted]
    lines = _preview_lines(schedules, bundle, from_tick, to_tick)
    if as_json:
        for line in lines:
            click.echo(json.dumps(line.as_json()))
    else:
        _print_table(schedules, lines)


def _preview_lines(
    schedules: Sequence[Schedule], bundle: ZoneBundle, from_tick: int, to_tick: int
) -> Iterator[Preview]:
    """The window's lines in order, computed some days at a time so that a long window is printed as it is found."""
    from streams.domain.preview import preview as preview_window

    step = max(1, _SCHEDULE_DAYS_A_CHUNK // len(schedules)) * MINUTES_PER_DAY
    for start in range(from_tick, to_tick, step):
        yield from preview_window(schedules, bundle, start, min(start + step, to_tick))


def _print_table(schedules: Sequence[Schedule], lines: Iterator[Preview]) -> None:
    id_chars = max(8, *(len(schedule.id) for schedule in schedules))
    zone_chars = max(4, *(len(schedule.zone) for schedule in schedules))

    def row(instant: str, nominal: str, decision: str, schedule: str, zone: str, key: str) -> str:
        return f"{instant:<20}  {nominal:<16}  {decision:<18}  {schedule:<{id_chars}}  {zone:<{zone_chars}}  {key}"

    click.echo(row("INSTANT", "NOMINAL", "DECISION", "SCHEDULE", "ZONE", "KEY"))
    for line in lines:
        instant = "-" if line.instant is None else format_tick(line.instant)
        click.echo(row(instant, line.nominal or "-", line.decision, line.schedule_id, line.zone, line.key))


@click.command()
@_FILES
@click.option("--json", "as_json", is_flag=True, help="The result, or the list of problems, as JSON.")
@click.pass_context
def validate(ctx: click.Context, files: Sequence[str], as_json: bool) -> None:
    """Check schedules in FILE... (YAML or JSON; - is standard input) and report every problem; nothing is published.

    Regions and providers are checked against the settings, if these have any.
    """
    from streams.adapters.documents import load_documents
    from streams.adapters.tz.wheel import wheel_bundle
    from streams.domain.document import DocumentContext
    from streams.entrypoints.cli.common import settings_of

    settings = settings_of(ctx)
    context = DocumentContext(
        zone_names=frozenset(wheel_bundle().names),
        regions=settings.regions or None,
        providers=frozenset(settings.providers) or None,
    )
    accepted = load_documents(files).accept(context)
    warn(accepted, as_json)
    count = len(accepted)
    if as_json:
        click.echo(json.dumps({"files": len(files), "schedules": count}))
    else:
        click.echo(f"{count} {'schedule is' if count == 1 else 'schedules are'} valid")


def warn(accepted: Sequence[Accepted], as_json: bool) -> None:
    """Tell on stderr what in valid documents looks like a mistake: `FILE:LINE: warning: ...`, or a JSON list."""
    from streams.adapters.clock import SystemClock
    from streams.adapters.tz.wheel import wheel_bundle
    from streams.domain.schedule_warnings import warnings_of

    bundle, now_tick = wheel_bundle(), int(SystemClock().now_s()) // 60
    found = [
        each.document.located(warning)
        for each in accepted
        for warning in warnings_of(each.schedule, bundle.table(each.schedule.zone), now_tick)
    ]
    if as_json and found:
        click.echo(json.dumps([{**each.as_json(), "warning": True} for each in found]), err=True)
    for each in () if as_json else found:
        click.echo(f"{each.place}: warning: {each.text}", err=True)
