"""The one screen of `townclock up`: each process, each lane, and how old the oldest waiting thing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from streams.entrypoints.status import Status
from streams.entrypoints.supervise import Child

_LATE_S = 90.0


def screen(children: Mapping[str, Child], status: Status, said: Sequence[str], now_boot_s: float, hint: str) -> Group:
    """Everything, top to bottom; `said` are the last things worth telling."""
    parts: list[Table | Text] = [_headline(status), _processes(children, now_boot_s), _lanes(status)]
    parts += [Text(f"! {problem}", style="bold red") for problem in status.problems]
    parts += [Text(line, style="yellow", overflow="ellipsis", no_wrap=True) for line in said[-4:]]
    parts.append(Text(hint, style="dim"))
    return Group(*parts)


def line(children: Mapping[str, Child], status: Status) -> str:
    """The same in one line, where there is no terminal."""
    running = sum(child.pid is not None for child in children.values())
    lanes = "; ".join(f"{lane.region}/{lane.provider} open {lane.open_rows} done {lane.done}" for lane in status.lanes)
    problems = "; ".join(status.problems)
    return (
        f"{running}/{len(children)} processes, {status.schedules} schedules, joined {_age(status.cursor_age_s)} behind"
        + (f"; {lanes}" if lanes else "")
        + (f"; {problems}" if problems else "")
    )


def _headline(status: Status) -> Text:
    late = status.cursor_age_s is not None and status.cursor_age_s > _LATE_S
    return Text.assemble(
        ("townclock", "bold"),
        f"   schedules {status.schedules}   outbox {status.outbox}   ",
        (f"minutes joined: {_age(status.cursor_age_s)} behind", "bold red" if late else "green"),
    )


def _processes(children: Mapping[str, Child], now_boot_s: float) -> Table:
    table = Table("process", "state", "up for", "restarts", box=None, pad_edge=False)
    for name, child in children.items():
        running = child.pid is not None
        table.add_row(
            name,
            Text("running", "green") if running else Text("restarting", "bold red"),
            _age(now_boot_s - child.started_at_s) if running else "",
            str(child.restarts) if child.restarts else "",
        )
    return table


def _lanes(status: Status) -> Table:
    table = Table("lane", "open", "oldest due", "in review", "done", box=None, pad_edge=False)
    for lane in status.lanes:
        oldest = lane.oldest_due_age_s
        table.add_row(
            f"{lane.region} / {lane.provider}" + ("  HELD" if lane.held else ""),
            str(lane.open_rows),
            Text(_age(oldest) if oldest is not None else "nothing due", "bold red" if (oldest or 0) > _LATE_S else ""),
            Text(str(lane.in_review), "bold yellow" if lane.in_review else ""),
            str(lane.done),
        )
    return table


def _age(seconds: float | None) -> str:
    if seconds is None:
        return "not yet"
    whole = int(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"
