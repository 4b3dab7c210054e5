"""What a person sees while files arrive: a bar on a terminal, a few plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bar


class Progress(Protocol):
    """Told by several threads at once."""

    def received(self, count_bytes: int) -> None:
        """Some bytes have come in. A file tried again is counted again."""

    def arrived(self, name: str) -> None:
        """A file is whole, verified and in place."""


class _Lines:
    """A line at the start, one at each quarter, one at the end."""

    def __init__(self, files: int, total_bytes: int) -> None:
        self._files = files
        self._done = 0
        self._lock = threading.Lock()
        self._say(f"fetching {files} files of Apache Kafka, {total_bytes / 1e6:.1f} MB")

    def received(self, count_bytes: int) -> None:
        """Nothing: a log wants few lines."""

    def arrived(self, name: str) -> None:
        with self._lock:
            before, self._done = self._done, self._done + 1
            if self._done * 4 // self._files > before * 4 // self._files:
                self._say(f"{self._done} of {self._files} fetched and verified")

    @staticmethod
    def _say(text: str) -> None:
        sys.stderr.write(f"townclock: {text}\n")
        sys.stderr.flush()


@contextlib.contextmanager
def download_progress(files: int, total_bytes: int) -> Iterator[Progress]:
    """Show the arrival of `files` files."""
    if not sys.stderr.isatty():
        yield _Lines(files, total_bytes)
        return
    with Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(f"Apache Kafka (0/{files})", total=total_bytes)
        done = 0
        lock = threading.Lock()

        class _Shown:
            def received(self, count_bytes: int) -> None:
                bar.advance(task, count_bytes)

            def arrived(self, name: str) -> None:
                nonlocal done
                with lock:
                    done += 1
                    bar.update(task, description=f"Apache Kafka ({done}/{files})")

        yield _Shown()
