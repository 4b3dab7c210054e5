"""Benchmarks: `python -m benchmarks pipeline --json`, on real services that it starts and removes, and `calendar`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import click
from rich.console import Console

from benchmarks import calendar as index
from benchmarks.figures import render, to_markdown
from benchmarks.pipeline import PARTS, PipelineBenchmark
from benchmarks.sizes import FULL, QUICK
from streams.adapters.clock import SystemClock
from streams.domain.errors import TownclockError

_WIDTH = 160


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def benchmarks() -> None:
    """Measure this machine. Run them on a quiet one: every figure is of what else ran, too."""


@benchmarks.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--markdown", is_flag=True, help="The table of docs/figures.md.")
@click.option("--quick", is_flag=True, help="Small sizes: whether it works, not how fast it is.")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Only this part and those it needs."
)
def pipeline(as_json: bool, markdown: bool, quick: bool, parts: tuple[str, ...]) -> None:
    """Rates of registering, evaluating, intake and delivery, and the time from a minute's edge to the provider."""
    if as_json and markdown:
        raise click.UsageError("--json or --markdown, not both")
    errors = Console(stderr=True)
    if errors.is_terminal:
        with errors.status("") as status:
            found = _run(quick, parts, status.update)
    else:
        found = _run(quick, parts, lambda text: None)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    elif markdown:
        click.echo(to_markdown(found.figures, found.machine))
    else:
        render(found.figures, found.machine, Console(width=None if sys.stdout.isatty() else _WIDTH))


def _run(quick: bool, parts: tuple[str, ...], say: Callable[[str], None]) -> PipelineBenchmark:
    benchmark = PipelineBenchmark(QUICK if quick else FULL, parts, SystemClock(), say)
    benchmark.run()
    return benchmark


@benchmarks.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
@click.option("--quick", is_flag=True, help="Small sizes: whether it works, not how fast it is.")
@click.option("--huge", is_flag=True, help="Ten million schedules, too: some minutes and 10 GiB of memory.")
def calendar(as_json: bool, quick: bool, huge: bool) -> None:
    """The index: building it, its ticks, its plan of the coming days, at sizes that grow tenfold; and its peers."""
    if quick and huge:
        raise click.UsageError("--quick or --huge, not both")
    sizes = index.QUICK if quick else (*index.SIZES, index.HUGE) if huge else index.SIZES
    headline, sampled = (sizes[-1], 100) if quick else (index.SIZES[-1], 2_000)
    errors = Console(stderr=True)
    benchmark = index.CalendarBenchmark(sizes, headline, sampled, errors.print if errors.is_terminal else _say_nothing)
    benchmark.run()
    if as_json:
        click.echo(json.dumps(benchmark.to_json(), indent=2))
    else:
        render(benchmark.figures, benchmark.machine, Console(width=None if sys.stdout.isatty() else _WIDTH))


def _say_nothing(text: str) -> None:
    pass


def main() -> None:
    """The command line. What a person can act on is said without a traceback."""
    try:
        benchmarks(prog_name="python -m benchmarks")
    except TownclockError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
