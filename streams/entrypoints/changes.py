"""Changes asked for at the command line: published, and, if one waits, answered."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event

import click

from streams.adapters.clock import SystemClock
from streams.adapters.kafka.change_publisher import publish_changes
from streams.adapters.postgres.schedule_reader import FinalAnswer, ScheduleReader
from streams.domain.change import Change
from streams.domain.errors import TownclockError
from streams.domain.registration import MAX_ACTOR_CHARS, is_plain
from streams.entrypoints.required import require_tables
from streams.entrypoints.settings import Settings
from streams.pipeline.names import Names

_POLL_S = 0.05
_ASKED_AT_ONCE = 2000


class Unanswered(TownclockError):
    """The registrar did not answer in time. Nothing is lost: it will, when it runs."""


def submit(settings: Settings, changes: Sequence[Change], *, wait_s: float | None) -> list[FinalAnswer]:
    """Publish all; with `wait_s`, their answers in the order of the changes, once accepted plans are on `schedules`.

    Raises ServiceUnreachable, BrokenPromise, or Unanswered if nothing more is answered for `wait_s`.
    """
    reader = None
    if wait_s is not None:
        require_tables(settings)  # before anything is published
        reader = ScheduleReader(settings.postgres.dsn, settings.postgres.schema)
    try:
        names, servers = Names(settings.kafka.topic_prefix), settings.kafka.bootstrap_servers
        with _progress("publishing", len(changes)) as told:
            publish_changes(servers, names, changes, told)
        if reader is None or wait_s is None:
            return []
        with _progress("answers", len(changes)) as told:
            return _await(reader, changes, wait_s, told)
    finally:
        if reader is not None:
            reader.close()


def default_actor() -> str:
    """The user's name on this machine, or the program's."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        return "townclock"
    return name if is_plain(name, MAX_ACTOR_CHARS) else "townclock"


def _await(
    reader: ScheduleReader, changes: Sequence[Change], wait_s: float, told: Callable[[int], None]
) -> list[FinalAnswer]:
    clock, pause = SystemClock(), Event()
    open_ids = {change.change_id: change.schedule_id for change in changes}
    answers: dict[str, FinalAnswer] = {}
    deadline_s = clock.boot_s() + wait_s
    while open_ids:
        asked = [change_id for change_id, _ in zip(open_ids, range(_ASKED_AT_ONCE), strict=False)]
        found = reader.answers(asked)
        for answer in found:
            answers[answer.change_id] = answer
            del open_ids[answer.change_id]
        told(len(found))
        if found:
            deadline_s = clock.boot_s() + wait_s
            continue
        if clock.boot_s() > deadline_s:
            first = next(iter(open_ids.values()))
            raise Unanswered(
                f"{len(answers)} of {len(changes)} changes were answered, then none for {wait_s:g} s (the next one is "
                f"for {first}). All are published and will be answered: see that townclock registrar and townclock "
                "relay run; to watch again, run this again"
            )
        pause.wait(_POLL_S)
    return [answers[change.change_id] for change in changes]


@contextmanager
def _progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if a person looks at it."""
    with click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty()) as bar:
        yield bar.update
