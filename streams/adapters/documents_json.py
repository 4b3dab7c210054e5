"""JSON text into plain values, with the line of each. The C parser reads; lines are looked for when they are needed."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # there since Python 2.6, and in no type stub
from typing import Final

from streams.adapters.documents_places import ABSENT, Fault, Path, Place, RawDocument, nested_too_deep

MAX_DEPTH: Final = 100

_SPACE = re.compile(r"[ \t\n\r]*")
_ATOM = re.compile(r"[^ \t\n\r,\]}]+")


def read_json(text: str) -> RawDocument | Fault:
    """The text's value and its faults (keys that stand twice), or the fault that stops it from being JSON."""
    doubled = False

    def mapping(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal doubled
        found = dict(pairs)
        doubled = doubled or len(found) != len(pairs)
        return found

    try:
        raw: object = json.loads(text, object_pairs_hook=mapping)
    except json.JSONDecodeError as error:
        source = text.split("\n")[error.lineno - 1].strip()
        what = f"not JSON: {error.msg[0].lower()}{error.msg[1:]} at column {error.colno}"
        return Fault(error.lineno, (), source or ABSENT, what, "mend it, or write YAML in a file that ends in .yaml")
    except RecursionError:
        return nested_too_deep(1, (), MAX_DEPTH)
    except ValueError as error:  # a whole number beyond the digits Python converts
        return Fault(1, (), ABSENT, f"not readable: {error}", "write so large a number as text")
    return RawDocument(raw, tuple(_Scan(text).doubled) if doubled else ())


def json_place(text: str) -> Place:
    """Where each value of a text that `read_json` could read stands."""
    return _Scan(text).root


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end is not yet reached."""

    place: Place
    path: Path
    closes: str
    count: int = 0


class _Scan:
    """One pass over text known to be JSON, without recursion: the place of each value, and each key that repeats."""

    def __init__(self, text: str) -> None:
        self.doubled: list[Fault] = []
        self._text = text
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self.root = self._scan()

    def _line(self, at: int) -> int:
        return bisect_right(self._ends, at - 1) + 1

    def _scan(self) -> Place:
        text = self._text
        root: Place | None = None
        stack: list[_Open] = []
        at = self._after_space(0)
        while root is None or stack:
            if stack and text[at] in ",]}":
                if text[at] != ",":
                    stack.pop()
                at = self._after_space(at + 1)
                continue
            part: str | int | None = None
            line = self._line(at)
            if stack and stack[-1].closes == "}":
                part, at = scanstring(text, at + 1, False)
                at = self._after_space(self._after_space(at) + 1)
            elif stack:
                part = stack[-1].count
                stack[-1].count += 1
            place = Place(line if text[at] in "{[" else self._line(at))
            path = self._enter(stack, part, place, line)
            root = root or place
            if text[at] in "{[":
                stack.append(_Open(place, path, "}" if text[at] == "{" else "]"))
                at = self._after_space(at + 1)
            else:
                at = self._after_space(self._after_atom(at))
        return root

    def _enter(self, stack: list[_Open], part: str | int | None, place: Place, line: int) -> Path:
        """Hang the place under its mapping or list; note the key if it is there already."""
        if part is None:
            return ()
        path = (*stack[-1].path, part)
        children = stack[-1].place.children
        if part in children:
            fix = "keep one of the two"
            self.doubled.append(Fault(line, path, ABSENT, "the key stands twice in one mapping", fix))
        children[part] = place
        return path

    def _after_space(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def _after_atom(self, at: int) -> int:
        if self._text[at] == '"':
            return int(scanstring(self._text, at + 1, False)[1])
        found = _ATOM.match(self._text, at)
        return found.end() if found else at + 1
