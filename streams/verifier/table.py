"""The demo's table: what came out, by region, and by partition; and whether it passed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from streams.verifier.report import Tally, WindowReport, combine

# What a caller counts for itself: a total, or one figure a region. Known names get the labels below.
Extra = Mapping[str, int | Mapping[str, int]]

_TALLIES = (
    ("promised", "promised"),
    ("delivered", "delivered"),
    ("duplicated", "delivered more than once"),
    ("missing", "missing"),
    ("phantom", "sent but never promised"),
    ("wrong", "sent with wrong terms"),
    ("cancelled", "cancelled by a delete or pause"),
    ("in_review", "in review"),
    ("retried", "retried"),
)
_EXTRAS = {
    "suppressed": "duplicates suppressed",
    "unknown": "outcome unknown for a while",
    "in_flight_at_kill": "in flight at the kill",
}
_EVENTS = {
    "rate_limited": "429 answers",
    "lost_answer": "answers lost",
    "replayed": "answers replayed",
    "in_progress": "409 answers",
}
# A run in which these never happened has shown nothing.
_MUST_HAPPEN = ("in_flight_at_kill", "suppressed", "retried", "rate_limited", "lost_answer")


def render(reports: Sequence[WindowReport], extra: Extra, console: Console, regions: Mapping[str, str]) -> None:
    """Print the tables and the first faults. `regions` maps each region to its provider's lane in the log."""
    whole = combine(reports)
    console.print(_by_region(whole, extra, regions))
    console.print(_by_window(reports, whole))
    console.print(_by_partition(whole))
    for kind, lines in whole.examples.items():
        for line in lines:
            console.print(f"{kind.replace('_', ' ')}: {line}", markup=False, highlight=False, style="red")
    for line in shortfalls(reports, extra):
        console.print(line, markup=False, highlight=False, style="bold red")


def shortfalls(reports: Sequence[WindowReport], extra: Extra) -> list[str]:
    """Why the demo does not pass, one line each: faults of a window, or trouble that should have come and did not."""
    whole = combine(reports)
    found = [fault for report in reports for fault in report.faults]
    for name in _MUST_HAPPEN:
        if not _total(whole, extra, name):
            found.append(f"{_name(name)}: none, so this run has not shown that it is survived")
    if not whole.total.promised:
        found.append("nothing was promised")
    return found


def to_json(reports: Sequence[WindowReport], extra: Extra) -> dict[str, object]:
    """The tables as plain values, for `--json`."""
    found = shortfalls(reports, extra)
    return {
        "passed": not found,
        "shortfalls": found,
        "total": combine(reports).to_json(),
        "windows": [report.to_json() for report in reports],
        "counters": dict(extra),
    }


def _by_region(whole: WindowReport, extra: Extra, regions: Mapping[str, str]) -> Table:
    """One row a figure, one column a region, and all of them together."""
    table = Table(title="What was promised, and what came of it", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("")
    for name in (*regions, "all"):
        table.add_column(name, justify="right")

    def row(title: str, figures: Sequence[int | None], total: int | None, bad: bool = False) -> None:
        table.add_row(title, *map(_figure, figures), _figure(total), style="bold red" if bad and total else None)

    empty = Tally()
    for name, title in _TALLIES:
        figures = [getattr(whole.regions.get(region, empty), name) for region in regions]
        row(title, figures, getattr(whole.total, name), bad=name in _BAD)
    for name, value in extra.items():
        if not hasattr(empty, name):
            row(_name(name), [_share(value, region) for region in regions], _sum(value))
    for event, title in _EVENTS.items():
        figures = [whole.lanes.get(lane, {}).get(event, 0) for lane in regions.values()]
        row(title, figures, whole.lane_events.get(event, 0))
    row("same label again after an edit", [_tally(whole, r).repeated for r in regions], whole.total.repeated)
    for reason, total in whole.reasons.items():
        figures = [whole.not_fired.get(region, {}).get(reason, 0) for region in regions]
        row(f"not fired: {reason}", figures, total)
    row("ledger and provider disagree", [None] * len(regions), sum(whole.disagreements.values()), bad=True)
    return table


_BAD = ("duplicated", "missing", "phantom", "wrong", "in_review")


def _by_window(reports: Sequence[WindowReport], whole: WindowReport) -> Table:
    """One row a window."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("window")
    for title in ("promised", "delivered", "duplicated", "missing", "cancelled", "not fired", "429s", "lost"):
        table.add_column(title, justify="right")
    for report in (*reports, whole):
        tally, events = report.total, report.lane_events
        figures = [tally.promised, tally.delivered, tally.duplicated, tally.missing, tally.cancelled]
        figures += [sum(report.reasons.values()), events.get("rate_limited", 0), events.get("lost_answer", 0)]
        style = "bold red" if report.faults else None
        table.add_row(report.window, *map(_figure, figures), style=style)
    return table


def _by_partition(whole: WindowReport) -> Table:
    """One row a partition, its figures for each region side by side."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("partition", justify="right")
    regions = sorted({name.rsplit("/", 1)[0] for name in whole.partitions})
    numbers = sorted({int(name.rsplit("/", 1)[1]) for name in whole.partitions})
    columns = ("promised", "delivered", "retried", "missing")
    for region in regions:
        for title in columns:
            table.add_column(f"{region} {title}", justify="right")
    for number in numbers:
        tallies = [whole.partitions.get(f"{region}/{number}", Tally()) for region in regions]
        table.add_row(str(number), *(_figure(getattr(tally, title)) for tally in tallies for title in columns))
    return table


def _total(whole: WindowReport, extra: Extra, name: str) -> int:
    """A figure by name: the caller's if it counted it, else from the ledger's or the provider's."""
    if name in extra:
        return _sum(extra[name])
    if hasattr(whole.total, name):
        return int(getattr(whole.total, name))
    return whole.lane_events.get(name, 0)


def _tally(whole: WindowReport, region: str) -> Tally:
    return whole.regions.get(region, Tally())


def _sum(value: int | Mapping[str, int]) -> int:
    return value if isinstance(value, int) else sum(value.values())


def _share(value: int | Mapping[str, int], region: str) -> int | None:
    return None if isinstance(value, int) else value.get(region, 0)


def _name(name: str) -> str:
    return _EXTRAS.get(name) or _EVENTS.get(name) or name.replace("_", " ")


def _figure(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
