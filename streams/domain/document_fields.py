"""Reading one mapping of a schedule document, field by field: every problem is kept, none hides the next."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Final, TypeVar

from streams.domain.errors import Problem
from streams.domain.minutes import parse_day, parse_tick

T = TypeVar("T")

Path = tuple[str | int, ...]

_SHOWN_CHARS = 80
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_DATE_SHAPE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class _Absent:
    """The value of a field that is not there; written as null in JSON and left out of text."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


def shown(value: object) -> str:
    """A value as an error shows it: JSON, on one line, printable, cut at 80 characters."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        text = type_name(value)
    return printable(text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…")


def printable(text: str) -> str:
    """The text with every character that could upset a terminal, or can't be written as UTF-8, escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)


def describe(problem: Problem) -> str:
    """`FIELD: what is wrong (the value); what is allowed or what to do`, on one line."""
    value = "" if problem.value is ABSENT else f" ({shown(problem.value)})"
    return f"{printable(problem.field)}: {printable(problem.problem)}{value}; {printable(problem.fix)}"


def type_name(value: object) -> str:
    """What a document's author calls a value of this type."""
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)


def text_fix(value: object) -> str:
    """What to do with a value that should have been text."""
    return "write it in quotes" if isinstance(value, bool | int | float) else "write text"


@lru_cache(maxsize=4096)
def nearest(word: str, allowed: frozenset[str]) -> str | None:
    """The allowed word that `word` was most likely meant to be, or none; letter case does not matter."""
    if len(word) > _SHOWN_CHARS:
        return None
    by_fold = {name.casefold(): name for name in sorted(allowed, reverse=True)}
    found = difflib.get_close_matches(word.casefold(), by_fold, 1, 0.6)
    return by_fold[found[0]] if found else None


def one_of(allowed: Collection[str]) -> str:
    """`a, b or c`"""
    words = list(allowed)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def suggestion(word: str, allowed: Collection[str]) -> str:
    """`did you mean X?`, or what is allowed."""
    near = nearest(word, frozenset(allowed))
    return f"did you mean {near}?" if near else f"allowed: {one_of(allowed)}"


def parse_duration_s(text: str) -> int:
    """Seconds of `90s`, `15m`, `6h`, `2d`. Raises ValueError for anything else."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError("a duration is written 90s, 15m, 6h or 2d")
    return int(found[1]) * _UNIT_S[found[2]]


def format_duration(duration_s: int) -> str:
    """The duration in the largest unit that is exact: 3600 is `1h`, 90 is `90s`, 0 is `0s`."""
    for unit in "dhm":
        if duration_s and duration_s % _UNIT_S[unit] == 0:
            return f"{duration_s // _UNIT_S[unit]}{unit}"
    return f"{duration_s}s"


class Fields:
    """One mapping of a document. Readers return the value, or none after noting a problem in the shared list."""

    def __init__(self, raw: Mapping[str, object], path: Path, problems: list[Problem]) -> None:
        self.raw = raw
        self.path = path
        self.problems = problems

    def refuse(self, key: str | Path, value: object, problem: str, fix: str) -> None:
        """Note a problem with a field of this mapping, or with something inside it."""
        below = (key,) if isinstance(key, str) else key
        self.problems.append(Problem((*self.path, *below), value, problem, fix))

    def only(self, known: Collection[str], later: Mapping[str, str]) -> None:
        """Refuse each key that is neither known nor one of `later`, which are refused by what they will be."""
        for key, value in self.raw.items():
            if key in later:
                self.refuse(key, value, f"not in this version ({later[key]})", "leave it out")
            elif key == "<<":
                self.refuse(key, value, "merge keys are not part of YAML 1.2", "write the fields out")
            elif key not in known:
                self.refuse(key, value, "there is no such field", suggestion(key, known))

    def required(self, key: str, fix: str) -> object:
        """The value of a field that must be there; ABSENT after noting that it is missing."""
        value = self.raw.get(key, ABSENT)
        if value is ABSENT:
            self.refuse(key, ABSENT, "missing", fix)
        elif value is None:
            self.refuse(key, None, "has no value", fix)
            return ABSENT
        return value

    def mapping(self, key: str, value: object, fix: str) -> Fields | None:
        """The mapping under `key`, to be read in turn."""
        if not isinstance(value, dict):
            self.refuse(key, value, f"must be a mapping, not {type_name(value)}", fix)
            return None
        return Fields(value, (*self.path, key), self.problems)

    def text(self, key: str, value: object, max_chars: int) -> str | None:
        """Text of 1 to `max_chars` characters without control characters."""
        fix = f"write 1 to {max_chars} printable characters"
        if not isinstance(value, str):
            self.refuse(key, value, f"must be text, not {type_name(value)}", text_fix(value))
        elif not value:
            self.refuse(key, value, "is empty", fix)
        elif len(value) > max_chars:
            self.refuse(key, value, f"is {len(value)} characters long", fix)
        elif not value.isprintable():
            self.refuse(key, value, "has control or unprintable characters in it", fix)
        else:
            return value
        return None

    def choice(self, key: str, default: T, members: Mapping[str, T]) -> T:
        """One of a few words; the default when the field is absent or (noted) wrong."""
        value = self.raw.get(key, ABSENT)
        if value is ABSENT:
            return default
        if not isinstance(value, str):
            self.refuse(key, value, f"must be text, not {type_name(value)}", f"allowed: {one_of(members)}")
        elif value not in members:
            self.refuse(key, value, "not a choice here", f"allowed: {one_of(members)}")
        else:
            return members[value]
        return default

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.raw.get(key, default)
        if isinstance(value, bool):
            return value
        self.refuse(key, value, f"must be true or false, not {type_name(value)}", "write true or false without quotes")
        return default

    def duration_s(self, key: str, default: int | None) -> int | None:
        """Seconds of a duration; null counts as absent where the default is none."""
        value = self.raw.get(key, ABSENT)
        if value is ABSENT or (value is None and default is None):
            return default
        try:
            return parse_duration_s(value if isinstance(value, str) else "")
        except ValueError:
            self.refuse(key, value, "not a duration", "write a whole number and a unit: 90s, 15m, 6h or 2d")
            return default

    def day(self, key: str | Path, value: object) -> int | None:
        """The day number of a date."""
        if not isinstance(value, str) or not _DATE_SHAPE.fullmatch(value):
            self.refuse(key, value, "not a date", "write YYYY-MM-DD")
            return None
        try:
            return parse_day(value)
        except ValueError:
            self.refuse(key, value, "there is no such date", "write a date of the Gregorian calendar")
            return None

    def utc_minute(self, key: str, value: object) -> int | None:
        """The tick of a UTC minute."""
        try:
            return parse_tick(value if isinstance(value, str) and value.isascii() else "")
        except ValueError:
            self.refuse(key, value, "not a UTC minute", "write YYYY-MM-DDTHH:MMZ")
            return None

    def whole(self, key: str | Path, value: object, *allowed: range) -> int | None:
        """A whole number of one of a few ranges."""
        fix = f"write {' or '.join(f'{numbers[0]} to {numbers[-1]}' for numbers in allowed)}"
        if isinstance(value, float):
            self.refuse(key, value, "not a whole number", fix)
        elif isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, value, f"must be a whole number, not {type_name(value)}", fix)
        elif not any(value in numbers for numbers in allowed):
            self.refuse(key, value, "is out of range", fix)
        else:
            return value
        return None

    def optional_day(self, key: str) -> int | None:
        """The day number of a date, or none where it is absent or null."""
        value = self.raw.get(key)
        return None if value is None else self.day(key, value)

    def distinct(self, key: str, value: object, fix: str, read: Callable[[Path, object], T | None]) -> list[T] | None:
        """A list without repetition, in the document's order; none after noting what is wrong with it or in it."""
        if not isinstance(value, list):
            self.refuse(key, value, f"must be a list, not {type_name(value)}", fix)
            return None
        items: dict[T, None] = {}
        whole = True
        for number, raw in enumerate(value):
            item = read((key, number), raw)
            if item is None:
                whole = False
            elif item in items:
                self.refuse((key, number), raw, f"stands twice in {key}", "write it once")
                whole = False
            else:
                items[item] = None
        return list(items) if whole else None
