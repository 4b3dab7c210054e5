"""How far a demo is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_LINES = 20


@contextmanager
def demo_progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """Gives `report(window, delivered, promised)`."""
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting the broker and the database", total=None)

        def report(window: str, delivered: int, promised: int) -> None:
            bar.update(task, description=f"{window}: delivered", completed=delivered, total=promised)

        yield report


class _Lines:
    """Twenty lines from beginning to end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = -1

    def __call__(self, window: str, delivered: int, promised: int) -> None:
        step = delivered * _LINES // promised if promised else 0
        if step > self._told:
            self._told = step
            self._console.print(f"{window}: {delivered} of {promised} delivered", highlight=False)
