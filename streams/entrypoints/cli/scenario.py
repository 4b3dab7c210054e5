"""`townclock scenario NAME`: a shipped scenario, end to end, verified."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from streams.domain.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console


@click.group()
def scenario() -> None:
    """Run a shipped scenario end to end: real services, real processes, its result verified."""


def examples_folder(name: str) -> Path:
    """`examples/NAME` of the checkout, or the copy inside an installed wheel."""
    package = Path(__file__).resolve().parents[2]
    checkout = package.parent / "examples" / name
    return checkout if checkout.is_dir() else package / "_examples" / name


@scenario.command()
@click.option(
    "--sabotage", type=click.Choice(["drop", "double"]), help="Remove or repeat one delivery behind its back."
)
@click.option("--window", "windows", multiple=True, metavar="NAME", help="Only this window; may be given again.")
@click.option(
    "--keep", metavar="DIR", type=click.Path(path_type=Path), help="Work in DIR, a new one, and leave everything there."
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON on stdout.")
def demo(sabotage: str | None, windows: tuple[str, ...], keep: Path | None, as_json: bool) -> None:
    """Four clock-change weekends in two regions, with kills, quota dips and lost answers; then everything is verified.

    Exit status 0 only if every promise was kept once, and every kind of trouble really came.
    """
    from rich.console import Console

    from streams.adapters.clock import SystemClock
    from streams.entrypoints.scenarios.demo import run_demo
    from streams.entrypoints.scenarios.progress import demo_progress
    from streams.verifier import table
    from streams.verifier.report import combine, last_line

    folder = keep or Path(tempfile.mkdtemp(prefix="townclock-demo-"))
    errors = Console(stderr=True)
    wanted = False
    _heed_signals(errors)
    try:
        with demo_progress(errors) as report:
            result = run_demo(
                examples_folder("demo"),
                folder,
                windows,
                sabotage,
                keep is not None,
                SystemClock(),
                errors.print,
                report,
            )
    except KeyboardInterrupt:
        errors.print("stopped before the end, without a verdict; nothing is left running", highlight=False)
        sys.exit(130)
    except Exception as error:
        wanted = not isinstance(error, InvalidInput)
        if wanted:
            errors.print(f"what was written is kept in {folder}", highlight=False, soft_wrap=True)
        raise
    finally:
        if keep is None and not wanted:
            shutil.rmtree(folder, ignore_errors=True)
    extra = result.extra()
    failed = table.shortfalls(result.reports, extra)
    line = last_line(combine(result.reports))
    if as_json:
        found = {**table.to_json(result.reports, extra), "elapsed_s": round(result.elapsed_s, 1), "line": line}
        click.echo(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 120)
        table.render(result.reports, extra, console, result.demo.regions)
        click.echo(f"{result.elapsed_s:.0f} s, services included")
        click.echo(line)
    sys.exit(1 if failed else 0)


def _heed_signals(errors: Console) -> None:
    """The first SIGINT or SIGTERM raises KeyboardInterrupt; while everything is being stopped, more change nothing."""
    both = (signal.SIGINT, signal.SIGTERM)

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        for each in both:
            signal.signal(each, signal.SIG_IGN)
        errors.print("stopping", highlight=False)
        raise KeyboardInterrupt

    for each in both:
        signal.signal(each, stop)
