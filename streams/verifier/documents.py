"""The demo's YAML, as the verifier reads it: schedules, the windows, and each window's edits and deletes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from streams.verifier.minutes import day_of, minute_of_day, tick_of

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ALWAYS = -(1 << 60)
NEVER_ENDS = 1 << 60


class VerifierError(Exception):
    """An input the verifier can't read, or one that contradicts itself. The message says which."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One schedule document and the ticks it counts for, `since <= tick < until`. Days are day numbers, inclusive."""

    schedule_id: str
    tenant: str
    account: str | None
    region: str
    zone: str
    weekdays: frozenset[int] | None  # none: every day
    at: tuple[int, ...]  # minutes of the day, ascending
    gap: str
    overlap: str
    starts_on: int | None
    ends_on: int | None
    except_days: frozenset[int]
    paused: bool
    on_delete: str
    provider: str
    to: str
    payload: object
    since: int = ALWAYS
    until: int = NEVER_ENDS


@dataclass(frozen=True, slots=True)
class History:
    """One id's revisions through a window, ascending. `ended_at` is the last tick before a delete or pause counted."""

    schedule_id: str
    revisions: tuple[Revision, ...]
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """One window of a demo: ticks `start <= tick < end`; changes count for every tick above `halt_at`."""

    name: str
    start: int
    end: int
    halt_at: int
    edits: str
    deletes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Demo:
    """`demo.yaml`. `regions` maps a region to its provider's name; `kill_at_percent` is of all ticks, none: no kill."""

    schedules: str
    partitions: int
    regions: Mapping[str, str]
    providers: Mapping[str, Mapping[str, Any]]
    windows: tuple[Window, ...]
    kill_at_percent: int | None = None

    def window(self, name: str) -> Window:
        """The window of that name. Raises VerifierError if there is none."""
        for window in self.windows:
            if window.name == name:
                return window
        raise VerifierError(f"no window {name!r} in demo.yaml; there are {', '.join(w.name for w in self.windows)}")


def load_demo(examples: Path) -> Demo:
    """Read `demo.yaml` of a folder. Raises VerifierError if it lacks something or a window's edge is no UTC minute."""
    path = examples / "demo.yaml"
    raw = _load(path)
    try:
        windows = tuple(
            Window(
                name=entry["name"],
                start=tick_of(entry["from"]),
                end=tick_of(entry["to"]),
                halt_at=tick_of(entry["halt_at"]),
                edits=entry["edits"],
                deletes=tuple(entry["deletes"]),
            )
            for entry in raw["windows"]
        )
        regions = {name: entry["provider"] for name, entry in raw["regions"].items()}
        kill_at_percent = raw["kill"]["at_percent"] if "kill" in raw else None
        return Demo(raw["schedules"], int(raw["partitions"]), regions, raw["providers"], windows, kill_at_percent)
    except (KeyError, TypeError, ValueError) as error:
        raise VerifierError(f"{path}: {error!r}") from error


def load_histories(examples: Path, demo: Demo, window: Window) -> list[History]:
    """Every schedule's revisions through a window: the first document, then what the window's edits and deletes made.

    A change counts from `halt_at + 1`: the ticker stands still after `halt_at`, the changes are made, and the
    next tick's watermark includes them.
    """
    edits = {revision.schedule_id: revision for revision in load_schedules(examples / window.edits)}
    originals = load_schedules(examples / demo.schedules)
    unknown = (edits.keys() | set(window.deletes)) - {revision.schedule_id for revision in originals}
    if unknown:
        raise VerifierError(f"window {window.name}: changes to ids that {demo.schedules} lacks: {sorted(unknown)}")
    return [_history(r, edits.get(r.schedule_id), r.schedule_id in window.deletes, window.halt_at) for r in originals]


def _history(original: Revision, edit: Revision | None, deleted: bool, halt_at: int) -> History:
    """One id's revisions; `ended_at` is set by a delete, and by an edit that pauses."""
    changes_at = halt_at + 1
    if deleted and edit:
        raise VerifierError(f"{original.schedule_id}: both edited and deleted in one window")
    if deleted:
        return History(original.schedule_id, (replace(original, until=changes_at),), halt_at)
    if edit:
        if edit.region != original.region:
            raise VerifierError(f"{original.schedule_id}: an edit changes its region; an id's region never changes")
        revisions = (replace(original, until=changes_at), replace(edit, since=changes_at))
        return History(original.schedule_id, revisions, halt_at if edit.paused and not original.paused else None)
    return History(original.schedule_id, (original,))


def load_schedules(path: Path) -> tuple[Revision, ...]:
    """The schedule documents of a file, each as a revision that always counts. An id may stand there once."""
    documents = _load(path)
    try:
        revisions = tuple(revision_of(document) for document in documents)
    except (KeyError, TypeError, ValueError) as error:
        raise VerifierError(f"{path}: {error!r}") from error
    if len({revision.schedule_id for revision in revisions}) != len(revisions):
        raise VerifierError(f"{path}: an id stands there twice")
    return revisions


def revision_of(document: Mapping[str, Any]) -> Revision:
    """A schedule document with the documented defaults filled in. Daily and weekly rules and labels only."""
    rule = document["rule"]
    if rule["kind"] not in ("daily", "weekly") or document.get("promise", "label") != "label":
        raise VerifierError(f"{document['id']}: the verifier knows daily and weekly rules, promised by label")
    at = tuple(sorted({minute_of_day(text) for text in rule["at"]}))
    every_hour = len({minute // 60 for minute in at}) == 24
    deliver = document["deliver"]
    return Revision(
        schedule_id=document["id"],
        tenant=document.get("tenant", "default"),
        account=document.get("account"),
        region=document["region"],
        zone=document["zone"],
        weekdays=frozenset(map(WEEKDAYS.index, rule["weekdays"])) if rule["kind"] == "weekly" else None,
        at=at,
        gap=document.get("gap", "skip"),
        overlap=document.get("overlap", "both" if every_hour else "first"),
        starts_on=_day(document.get("starts_on")),
        ends_on=_day(document.get("ends_on")),
        except_days=frozenset(_some_day(value) for value in document.get("except_dates") or ()),
        paused=document.get("paused", False),
        on_delete=document.get("on_delete", "cancel"),
        provider=deliver["provider"],
        to=deliver["to"],
        payload=deliver.get("payload"),
    )


def _day(value: date | str | None) -> int | None:
    return None if value is None else _some_day(value)


def _some_day(value: date | str) -> int:
    """YAML reads a bare `2027-01-01` as a date; JSON brings it as text."""
    return day_of(date.fromisoformat(value) if isinstance(value, str) else value)


def _load(path: Path) -> Any:
    """A YAML file's value. Raises VerifierError if it can't be read."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with path.open("rb") as file:
            return yaml.load(file, Loader=loader)  # noqa: S506 - a safe loader, the C one where it was built
    except (OSError, yaml.YAMLError) as error:
        raise VerifierError(f"{path}: {error}") from error


def ids_of(histories: Sequence[History]) -> dict[str, History]:
    """Histories by schedule id."""
    return {history.schedule_id: history for history in histories}
