"""One hierarchy of errors. Each class says whether trying again can help, and with what status a command exits."""

from __future__ import annotations

from dataclasses import dataclass


class TownclockError(Exception):
    """Something a person can act on. The message says what is wrong and what to do; it is shown without a traceback."""

    retriable = False
    exit_code = 1


class InvalidInput(TownclockError, ValueError):
    """A value, file or setting that can't be accepted as it stands."""

    exit_code = 2


class ServiceUnreachable(TownclockError, ConnectionError):
    """Kafka, PostgreSQL or a port can't be reached; trying again later can help."""

    retriable = True
    exit_code = 3


class BrokenPromise(TownclockError):
    """The log, a topic or the ledger is not what the design promises; going on could lose or double something."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in one place of a document: the letter of the error format, without its file and line.

    `path` leads to the value inside the document, for instance `("rule", "at", 0)`; a loader turns it into a line.
    """

    path: tuple[str | int, ...]
    value: object
    problem: str
    fix: str

    @property
    def field(self) -> str:
        """The path as people write it: `rule.at[0]`."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text or "(document)"
