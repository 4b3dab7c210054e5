"""`townclock schedules`: apply documents, pause, resume and delete. Reading is in `schedules_read`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from streams.domain.errors import InvalidInput
from streams.entrypoints.cli.common import settings_of
from streams.entrypoints.cli.documents import validate, warn
from streams.entrypoints.cli.schedules_read import get, list_schedules

if TYPE_CHECKING:
    from streams.adapters.documents import Accepted
    from streams.adapters.postgres.schedule_reader import FinalAnswer
    from streams.domain.change import Change, ChangeKind
    from streams.entrypoints.settings import Settings

# One step of a field's path: a name, or an index.
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


@click.group()
def schedules() -> None:
    """Apply, show, pause and delete schedules."""


schedules.add_command(validate)
schedules.add_command(get)
schedules.add_command(list_schedules)

_IDS = click.argument("ids", nargs=-1, required=True, metavar="ID...")
_COMMON = (
    click.option("--wait", is_flag=True, help="Until each is answered and, if accepted, on its way to the processors."),
    click.option(
        "--timeout", "timeout_s", type=click.FloatRange(0.1), default=60.0, show_default=True,
        help="With --wait: give up when nothing is answered for so many seconds.",
    ),
    click.option("--actor", help="Who asks, for the history; default: your user name."),
    click.option("--json", "as_json", is_flag=True, help="One JSON object; problems of files as a JSON list."),
    click.pass_context,
)  # fmt: skip


def _with_common(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_COMMON):
        command = option(command)
    return command


@schedules.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--if-revision", type=click.IntRange(0), help="Only if this is the newest revision; 0: only new ids.")
@_with_common
def apply(
    ctx: click.Context,
    files: Sequence[str],
    if_revision: int | None,
    wait: bool,
    timeout_s: float,
    actor: str | None,
    as_json: bool,
) -> None:
    """Publish the schedules in FILE... (YAML or JSON; - is standard input); nothing at all if one of them is not valid.

    A schedule that is there gets a new revision; the same document again changes nothing. A document speaks of
    everything: one without `paused: true` resumes what was paused. To only look, use validate or preview.
    """
    from streams.adapters.clock import new_id
    from streams.adapters.documents import load_documents
    from streams.adapters.tz.wheel import wheel_bundle
    from streams.domain.change import Change, ChangeKind
    from streams.entrypoints.changes import default_actor, submit
    from streams.entrypoints.registrar import document_context

    settings = _with_regions(settings_of(ctx))
    documents = load_documents(files).accept(document_context(settings, wheel_bundle()))
    warn(documents, as_json)
    who = actor or default_actor()
    changes = [
        Change(new_id(), ChangeKind.PUT, item.schedule.id, item.document.text, if_revision, None, None, who)
        for item in documents
    ]
    answers = submit(settings, changes, wait_s=timeout_s if wait else None)
    by_change = {change.change_id: item for change, item in zip(changes, documents, strict=True)}
    _tell(ctx, changes, answers, lambda answer, field: _place(by_change[answer.change_id], field), as_json)


@schedules.command()
@_IDS
@click.option("--yes", is_flag=True, help="Pause several; without it, several are only looked at.")
@_with_common
def pause(ctx: click.Context, ids: Sequence[str], yes: bool, **options: Any) -> None:
    """Stop schedules from firing until they are resumed. What is unsent ends as their on_delete says.

    One is paused at once; several only with --yes, else it is told what would happen.
    """
    from streams.domain.change import ChangeKind

    _change(ctx, ChangeKind.PAUSE, ids, act=yes or len(set(ids)) == 1, **options)


@schedules.command()
@_IDS
@click.option("--yes", is_flag=True, help="Resume several; without it, several are only looked at.")
@_with_common
def resume(ctx: click.Context, ids: Sequence[str], yes: bool, **options: Any) -> None:
    """Let paused schedules fire again. One is resumed at once; several only with --yes."""
    from streams.domain.change import ChangeKind

    _change(ctx, ChangeKind.RESUME, ids, act=yes or len(set(ids)) == 1, **options)


@schedules.command()
@_IDS
@click.option("--yes", is_flag=True, help="Do it; without it, it is told what would happen.")
@_with_common
def delete(ctx: click.Context, ids: Sequence[str], yes: bool, **options: Any) -> None:
    """End schedules. What is unsent ends as their on_delete says. Without --yes, it is only told what would happen."""
    from streams.domain.change import ChangeKind

    _change(ctx, ChangeKind.DELETE, ids, act=yes, **options)


def _change(
    ctx: click.Context,
    kind: ChangeKind,
    ids: Sequence[str],
    *,
    act: bool,
    wait: bool,
    timeout_s: float,
    actor: str | None,
    as_json: bool,
) -> None:
    from streams.adapters.clock import new_id
    from streams.domain.change import Change
    from streams.domain.document import MAX_ID_CHARS
    from streams.domain.registration import is_plain
    from streams.entrypoints.changes import default_actor, submit

    for schedule_id in ids:
        if not is_plain(schedule_id, MAX_ID_CHARS):
            raise InvalidInput(f"ID: {schedule_id!r} is no schedule's id; townclock schedules list shows them")
    settings, distinct = settings_of(ctx), list(dict.fromkeys(ids))
    if not act:
        _dry_run(ctx, settings, kind, distinct, as_json)
        return
    who = actor or default_actor()
    changes = [Change(new_id(), kind, schedule_id, None, None, None, None, who) for schedule_id in distinct]
    answers = submit(settings, changes, wait_s=timeout_s if wait else None)
    _tell(ctx, changes, answers, lambda answer, _: answer.schedule_id, as_json)


def _dry_run(ctx: click.Context, settings: Settings, kind: ChangeKind, ids: Sequence[str], as_json: bool) -> None:
    from streams.adapters.postgres.schedule_reader import ScheduleReader
    from streams.entrypoints.required import require_tables

    require_tables(settings)
    reader = ScheduleReader(settings.postgres.dsn, settings.postgres.schema)
    try:
        states = reader.states(ids)
    finally:
        reader.close()
    unknown = [schedule_id for schedule_id in ids if schedule_id not in states]
    if as_json:
        found = [
            {"schedule_id": schedule_id, "state": state, "revision": revision}
            for schedule_id, (state, revision) in ((i, states.get(i, (None, None))) for i in ids)
        ]
        click.echo(json.dumps({"dry_run": True, "kind": kind.value, "schedules": found}))
    else:
        for schedule_id in ids:
            state, revision = states.get(schedule_id, (None, None))
            known = f"{state}, revision {revision}" if state else "there is no such schedule"
            click.echo(
                f"{schedule_id}: {known}; would be asked to {kind.value}" if state else f"{schedule_id}: {known}"
            )
        click.echo("nothing was changed; with --yes it is done", err=True)
    ctx.exit(1 if unknown else 0)


def _with_regions(settings: Settings) -> Settings:
    if not settings.regions:
        raise InvalidInput(f"{settings.source}: regions: there is none; add a table such as [regions.eu]")
    return settings


def _place(item: Accepted, field: str) -> str:
    """FILE:LINE of a field as the registrar names it, `rule.at[0]`."""
    path = tuple(int(index) if index else name for index, name in _STEP.findall(field))
    return f"{item.document.file}:{item.document.line_of(path)}"


def _tell(
    ctx: click.Context,
    changes: Sequence[Change],
    answers: Sequence[FinalAnswer],
    place: Callable[[FinalAnswer, str], str],
    as_json: bool,
) -> None:
    """Each answer, and exit 1 if one is a refusal; without answers, how many changes were published."""
    refused = [answer for answer in answers if answer.problems]
    if as_json:
        found = [
            {
                "schedule_id": answer.schedule_id,
                "change_id": answer.change_id,
                "outcome": answer.outcome.value,
                "revision": answer.revision,
                "problems": answer.problems,
            }
            for answer in answers
        ]
        click.echo(json.dumps({"published": len(changes), "answers": found}))
    elif not answers:
        what = "change is" if len(changes) == 1 else "changes are"
        click.echo(f"{len(changes)} {what} published; with --wait it is told what the registrar answers")
    for answer in () if as_json else answers:
        revision = "" if answer.problems else f", revision {answer.revision}"
        click.echo(f"{answer.schedule_id}: {answer.outcome.value}{revision}")
        for problem in answer.problems:
            value = "" if problem["value"] == "null" else f" ({problem['value']})"
            text = f"{problem['field']}: {problem['problem']}{value}; {problem['fix']}"
            click.echo(f"{place(answer, problem['field'])}: {text}", err=True)
    ctx.exit(1 if refused else 0)
