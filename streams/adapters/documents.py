"""Files of schedule documents: one document, a list, or several YAML documents a file; thousands are fine.

Everything wrong, in any file, is found before anything is refused, and each finding knows its line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from streams.adapters.documents_json import json_place, read_json
from streams.adapters.documents_places import ABSENT, Fault, Path, Place, RawDocument
from streams.adapters.documents_yaml import read_yaml, yaml_places
from streams.domain.document import DocumentContext, parse_document
from streams.domain.document_fields import describe, printable, shown
from streams.domain.errors import InvalidInput, Problem
from streams.domain.schedule import Schedule

STDIN = "-"
_WHOLE_FILE: Path = ("(file)",)


@dataclass(frozen=True, slots=True)
class Located:
    """A problem, with its file and its line there (from 1; of a file that can't be read, 1)."""

    file: str
    line: int
    problem: Problem

    @property
    def place(self) -> str:
        """`FILE:LINE`"""
        return f"{printable(self.file)}:{self.line}"

    @property
    def text(self) -> str:
        """What is wrong, without the place."""
        return describe(self.problem)

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"

    def as_json(self) -> dict[str, object]:
        """The same as fields; `value` is null where there is none, and text where JSON can't hold it."""
        return {
            "file": printable(self.file),
            "line": self.line,
            "field": printable(self.problem.field),
            "value": None if self.problem.value is ABSENT else _json_value(self.problem.value),
            "problem": printable(self.problem.problem),
            "fix": printable(self.problem.fix),
        }


class InvalidDocuments(InvalidInput):
    """At least one document can't be accepted, so none is. The message is every problem, one a line."""

    def __init__(self, problems: Sequence[Located]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)

    def to_json(self) -> list[dict[str, object]]:
        """What `--json` prints."""
        return [problem.as_json() for problem in self.problems]


@dataclass(frozen=True, slots=True)
class LoadedDocument:
    """One document as it was written: `raw` is what JSON can hold. `faults` are of its form; `at` leads to it in its
    file, through the number of the YAML document and of the list item.
    """

    file: str
    raw: object
    at: Path
    faults: tuple[Located, ...]
    _places: Callable[[], Place] = field(repr=False, compare=False)

    def located(self, problem: Problem) -> Located:
        """A problem or warning of the document, with its line."""
        return Located(self.file, self.line_of(problem.path), problem)

    @property
    def text(self) -> str:
        """The document as JSON text, as it was written: no default filled in."""
        return json.dumps(self.raw, ensure_ascii=False, separators=(",", ":"))

    def line_of(self, path: Path) -> int:
        """The line of the value at `path` inside the document, or of the mapping that lacks it."""
        return self._places().line_of((*self.at, *path))


@dataclass(frozen=True, slots=True)
class Accepted:
    """A document and the schedule it means."""

    document: LoadedDocument
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class LoadedDocuments:
    """All documents of some files, in order, and what is wrong with files as a whole."""

    documents: tuple[LoadedDocument, ...]
    problems: tuple[Located, ...]
    files: tuple[str, ...]

    def accept(self, context: DocumentContext) -> list[Accepted]:
        """Every document with its schedule, in order. Raises InvalidDocuments with every problem of every file."""
        accepted: list[Accepted] = []
        problems = list(self.problems)
        for document in self.documents:
            outcome = parse_document(document.raw, context)
            if isinstance(outcome, Schedule):
                accepted.append(Accepted(document, outcome))
                problems += document.faults
            else:
                problems += _merged(document, outcome)
        problems += _repeated_ids(self.documents)
        if problems:
            place = {file: number for number, file in enumerate(self.files)}
            raise InvalidDocuments(sorted(problems, key=lambda problem: (place[problem.file], problem.line)))
        return accepted


def load_documents(paths: Iterable[str]) -> LoadedDocuments:
    """Read the files named (`-` is standard input), each as YAML or JSON. Never raises for what is in them, or for one
    that can't be read: such problems are in the result, and `accept` raises them with all others.
    """
    documents: list[LoadedDocument] = []
    problems: list[Located] = []
    files: list[str] = []
    for path in paths:
        name = "<stdin>" if path == STDIN else path
        files.append(name)
        text = _text_of(path)
        if isinstance(text, Fault):
            problems.append(_located(name, text, _WHOLE_FILE))
            continue
        found = list(_documents_of(name, text))
        documents += [each for each in found if isinstance(each, LoadedDocument)]
        problems += [each for each in found if isinstance(each, Located)]
        if not found:
            fix = "write at least one document with id, region, zone, rule and deliver"
            problems.append(Located(name, 1, Problem(_WHOLE_FILE, ABSENT, "there is no schedule in it", fix)))
    return LoadedDocuments(tuple(documents), tuple(problems), tuple(files))


def _text_of(path: str) -> str | Fault:
    """The file's text, or why there is none."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else FilePath(path).read_bytes()
    except IsADirectoryError:
        return Fault(1, _WHOLE_FILE, ABSENT, "is a directory", "name the files in it, for instance DIR/*.yaml")
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        return Fault(1, _WHOLE_FILE, ABSENT, f"can't be read: {reason}", "name a file that can be read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Fault(line, _WHOLE_FILE, f"{data[error.start]:#04x}", "not UTF-8 text", "save the file as UTF-8")


def _documents_of(name: str, text: str) -> Iterator[LoadedDocument | Located]:
    """The file's documents, the items of lists apart, and the fault that ends it early."""
    entries, places = _read(name, text)
    cache: list[Place] = []

    def root() -> Place:
        if not cache:
            cache.append(Place(1, dict(enumerate(places()))))
        return cache[0]

    for number, entry in enumerate(entries):
        if isinstance(entry, Fault):
            yield _located(name, entry, _WHOLE_FILE)
            continue
        if not isinstance(entry.raw, list):
            faults = tuple(_located(name, fault, fault.path) for fault in entry.faults)
            yield LoadedDocument(name, entry.raw, (number,), faults, root)
            continue
        for item_number, item in enumerate(entry.raw):
            faults = tuple(
                _located(name, fault, fault.path[1:]) for fault in entry.faults if fault.path[:1] == (item_number,)
            )
            yield LoadedDocument(name, item, (number, item_number), faults, root)
        yield from (_located(name, fault, ()) for fault in entry.faults if not fault.path)


def _read(name: str, text: str) -> tuple[list[RawDocument | Fault], Callable[[], list[Place]]]:
    """What is in the text, and how to find its places: JSON by its name or its look, else YAML."""
    by_name = name.endswith(".json")
    if by_name and not text.strip():
        return [], list
    if by_name or text.lstrip()[:1] in ("{", "["):
        entry = read_json(text)
        if by_name or isinstance(entry, RawDocument):
            return [entry], lambda: [json_place(text)]
    return list(read_yaml(text)), lambda: yaml_places(text)


def _located(name: str, fault: Fault, path: Path) -> Located:
    return Located(name, fault.line, Problem(path, fault.value, fault.problem, fault.fix))


def _merged(document: LoadedDocument, problems: list[Problem]) -> list[Located]:
    """Faults of form and problems of meaning; of one value with a fault, only the fault."""
    faulty = {fault.problem.path for fault in document.faults}
    meant = [problem for problem in problems if problem.path not in faulty]
    return [*document.faults, *map(document.located, meant)]


def _repeated_ids(documents: Sequence[LoadedDocument]) -> Iterator[Located]:
    """A problem at each document whose id another one has as well, naming the first of the others."""
    by_id: dict[str, list[LoadedDocument]] = {}
    for document in documents:
        if isinstance(document.raw, dict) and isinstance(document.raw.get("id"), str):
            by_id.setdefault(document.raw["id"], []).append(document)
    for schedule_id, same in by_id.items():
        for document in same if len(same) > 1 else ():
            other = same[1] if document is same[0] else same[0]
            what = f"stands twice, also at {other.file}:{other.line_of(('id',))}"
            problem = Problem(("id",), schedule_id, what, "give each schedule an id of its own")
            yield Located(document.file, document.line_of(("id",)), problem)


def _json_value(value: object) -> object:
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return shown(value)
    return value
