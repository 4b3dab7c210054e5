"""What a benchmark reports: figures that were measured, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number. `of` says over how much: counts, and seconds where it is a rate."""

    key: str
    value: float
    unit: str
    what: str
    of: Mapping[str, float | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spent:
    """Processor time that the measured processes used meanwhile, over so many records. None: it can't be told."""

    cpu_s: float | None
    records: int

    @classmethod
    def between(cls, before_s: float | None, after_s: float | None, records: int) -> Spent:
        """What was used from one reading to the next."""
        return cls(None if before_s is None or after_s is None else after_s - before_s, records)


def rate(key: str, what: str, count: int, seconds: float, spent: Spent | None = None, **more: float) -> Figure:
    """So many a second. Raises ValueError where nothing, or no time, was measured.

    What a record cost in processor time tells more than the rate where others use the machine too.
    """
    if count <= 0 or seconds <= 0:
        raise ValueError(f"{key}: {count} in {seconds:g} s is no rate; choose a larger size")
    of: dict[str, float | int] = {"count": count, "seconds": round(seconds, 4), **more}
    if spent is not None and spent.cpu_s is not None and spent.records > 0:
        of["cpu_us_each"] = round(spent.cpu_s / spent.records * 1e6, 1)
    return Figure(key, count / seconds, "/s", what, of)


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest rank: the least value that `percent` of the values do not exceed. Never one between two measured."""
    if not values or not 0 < percent <= 100:
        raise ValueError(f"no percentile {percent:g} of {len(values)} values")
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def to_json(
    figures: Sequence[Figure], keys: Sequence[str], sizes: Mapping[str, object], machine: Mapping[str, object]
) -> dict[str, object]:
    """One object: every key, null where it was not measured in this run; then what was measured over how much."""
    known = {figure.key: figure for figure in figures}
    if unknown := known.keys() - set(keys):
        raise ValueError(f"figures that no list of keys has: {', '.join(sorted(unknown))}")
    return {
        **{key: rounded(known[key].value) if key in known else None for key in keys},
        "measured_over": {figure.key: dict(figure.of) for figure in figures},
        "sizes": dict(sizes),
        "machine": dict(machine),
    }


def render(figures: Sequence[Figure], machine: Mapping[str, object], console: Console) -> None:
    """A table for people, and the machine in one line."""
    table = Table(box=None, pad_edge=False)
    for heading in ("FIGURE", "VALUE", "", "WHAT", "MEASURED OVER"):
        table.add_column(heading, justify="right" if heading == "VALUE" else "left", no_wrap=heading != "WHAT")
    for figure in figures:
        table.add_row(figure.key, shown(figure), figure.unit, figure.what, _over(figure))
    console.print(table)
    console.print(f"machine: {_machine(machine)}", highlight=False)


def to_markdown(figures: Sequence[Figure], machine: Mapping[str, object]) -> str:
    """The same for a page of the documentation."""
    lines = ["| figure | value | what | measured over |", "|---|---|---|---|"]
    for figure in figures:
        value = f"{shown(figure)}{figure.unit if figure.unit.startswith('/') else ' ' + figure.unit}"
        lines.append(f"| `{figure.key}` | {value} | {figure.what} | {_over(figure)} |")
    return "\n".join([*lines, "", f"Machine: {_machine(machine)}."])


def _over(figure: Figure) -> str:
    return ", ".join(f"{amount:,} {name}" for name, amount in figure.of.items())


def _machine(machine: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in machine.items())


def shown(figure: Figure) -> str:
    """The value as far as it means something: whole numbers for rates, milliseconds for times."""
    return f"{figure.value:,.0f}" if figure.unit == "/s" else f"{figure.value:.3f}"


def rounded(value: float) -> float:
    """To four digits: the rest is noise."""
    return float(f"{value:.4g}")
