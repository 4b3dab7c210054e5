"""YAML 1.2 (core schema) text into plain values, with the line of each.

PyYAML's C composer finds the structure; scalars are resolved here, since its own rules are YAML 1.1, where `02:30` is
150, `no` is false and `2027-01-01` is a date object. Aliases may stand for values, within bounds; keys must be unique
text; a tag other than the core ones is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml
from yaml.cyaml import CParser  # type: ignore[attr-defined]  # the stub does not re-export it

from streams.adapters.documents_places import ABSENT, Fault, Path, Place, RawDocument, nested_too_deep

MAX_DEPTH: Final = 100
MAX_ALIASED_VALUES: Final = 1_000_000

_PLAIN = "?"
_UNTAGGED = "!"
_CORE = "tag:yaml.org,2002:"
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_INT = re.compile(r"[-+]?[0-9]{1,4000}|0o[0-7]{1,1000}|0x[0-9a-fA-F]{1,1000}")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_MAYBE_NUMBER = frozenset("+-.0123456789")
_HINTS = {
    "mapping values are not allowed in this context": 'quote a value that holds ": ", or mend the indentation',
    "could not find expected ':'": "write KEY: VALUE",
    "found undefined alias": "define it before with &NAME",
    "found unexpected end of stream": "close the quotation mark",
    "did not find expected key": "mend the indentation: the keys of a mapping start in one column",
    "did not find expected node content": "write a value, or close what is open with ] or }",
    "did not find expected ',' or ']'": "close the list with ]",
    "did not find expected ',' or '}'": "close the mapping with }",
}
# errors found after the place to mend
_BEGUN_EARLIER = ("found unexpected end of stream", "could not find expected ':'")


class _Composer(CParser):
    """The C composer, with tags left for `_Values` to resolve."""

    def descend_resolver(self, parent: object, index: object) -> None:
        """No paths to resolve by."""

    def ascend_resolver(self) -> None:
        """No paths to resolve by."""

    def resolve(self, kind: type[yaml.Node], value: object, implicit: object) -> str:
        """Whether an untagged node is a plain scalar, whose text says its type."""
        del value
        return _PLAIN if kind is yaml.ScalarNode and isinstance(implicit, tuple) and implicit[0] else _UNTAGGED


def read_yaml(text: str) -> Iterator[RawDocument | Fault]:
    """Each YAML document's value and faults; last a fault without a path where the text can't be read on."""
    budget = _AliasBudget()
    for root in _roots(text):
        if isinstance(root, Fault):
            yield root
            continue
        values = _Values(budget)
        raw = values.of(root, (), 0)
        yield RawDocument(raw, tuple(values.faults))


def yaml_places(text: str) -> list[Place]:
    """Where each value of each document stands, in the order of `read_yaml`."""
    return [_place(root, root.start_mark.line + 1, {}, 0) for root in _roots(text) if not isinstance(root, Fault)]


def _roots(text: str) -> Iterator[yaml.Node | Fault]:
    """The node of each document that is not empty, and a fault at the place where the text stops being YAML."""
    try:
        composer = _Composer(text)
        while composer.check_node():
            root = composer.get_node()
            if root is not None and not (root.tag == _PLAIN and root.value == ""):
                yield root
    except yaml.reader.ReaderError as error:
        before = text.encode("utf-8", "surrogatepass")[: error.position]
        fix = "remove the character, or write it as an escape in double quotes"
        yield Fault(
            before.count(b"\n") + 1, (), ABSENT, f"not YAML: it holds the character {error.character:#06x}", fix
        )
    except yaml.MarkedYAMLError as error:
        yield _syntax_fault(text, error)


def _syntax_fault(text: str, error: yaml.MarkedYAMLError) -> Fault:
    """The error at the line a person has to mend, with that line's text as the value."""
    what = error.problem or "it can't be read"
    lines = text.split("\n")
    mark = error.problem_mark
    begun = error.context_mark
    if begun is not None and (mark is None or what in _BEGUN_EARLIER or not "".join(lines[mark.line :]).strip()):
        mark = begun
    if what == "second occurrence":
        what = "an anchor of this name is there already"
    line = min(mark.line, len(lines) - 1) if mark is not None else 0
    while line and not lines[line].strip():
        line -= 1  # the text ends too early: what is open there is to be mended
    source = lines[line]
    if mark is not None and what == "found character that cannot start any token":
        char = source[mark.column : mark.column + 1]
        fix = "indent with spaces, not tabs" if char == "\t" else f"put a value that begins with {char} in quotes"
    elif "exceeded maximum nesting depth" in what:
        return nested_too_deep(line + 1, (), MAX_DEPTH)
    else:
        fix = _HINTS.get(what, f"mend it at column {mark.column + 1}" if mark is not None else "mend it")
    return Fault(line + 1, (), source.strip() or ABSENT, f"not YAML: {what}", fix)


class _AliasBudget:
    """How many values aliases may still add to one file, so that a few lines can't stand for billions of values."""

    def __init__(self) -> None:
        self._left = MAX_ALIASED_VALUES
        self.reported = False

    def spend(self, values: int) -> bool:
        """Whether that many more values were still allowed."""
        self._left -= values
        return self._left >= 0


class _Values:
    """One document's values. A node met again is an alias: its value is shared, its size taken from the budget."""

    def __init__(self, budget: _AliasBudget) -> None:
        self.faults: list[Fault] = []
        self._budget = budget
        self._done: dict[yaml.Node, tuple[object, int]] = {}
        self._open: set[yaml.Node] = set()
        self._size = 0

    def of(self, node: yaml.Node, path: Path, depth: int) -> object:
        """The node's value; faults are noted, and what they concern becomes None."""
        if isinstance(node, yaml.ScalarNode):
            self._size += 1
            return self._scalar(node, path)
        if node in self._done:
            return self._alias(node, path)
        line = node.start_mark.line + 1
        if node in self._open:
            return self._fault(line, path, "an alias stands inside what it names", "write the value out")
        if depth >= MAX_DEPTH:
            self.faults.append(nested_too_deep(line, path[:2], MAX_DEPTH))  # the whole path fills a screen
            return None
        if node.tag not in (_UNTAGGED, f"{_CORE}seq", f"{_CORE}map"):
            return self._fault(line, path, "tags are not allowed", "leave the tag out", _tag(node))
        self._open.add(node)
        before = self._size
        self._size += 1
        value: object
        if isinstance(node, yaml.SequenceNode):
            value = [self.of(child, (*path, number), depth + 1) for number, child in enumerate(node.value)]
        else:
            value = self._mapping(node, path, depth)
        self._open.discard(node)
        self._done[node] = value, self._size - before
        return value

    def _mapping(self, node: yaml.Node, path: Path, depth: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._scalar(key_node, path) if isinstance(key_node, yaml.ScalarNode) else None
            if not isinstance(key, str):
                shown = key_node.value if isinstance(key_node, yaml.ScalarNode) else ABSENT
                self._fault(line, path, "a key must be text", "write it in quotes", shown)
                continue
            value = self.of(value_node, (*path, key), depth + 1)
            if key in found:
                self._fault(line, (*path, key), "the key stands twice in one mapping", "keep one of the two", value)
            found[key] = value
        return found

    def _alias(self, node: yaml.Node, path: Path) -> object:
        value, size = self._done[node]
        self._size += size
        if self._budget.spend(size):
            return value
        if self._budget.reported:
            return None
        self._budget.reported = True
        fix = f"keep it to {MAX_ALIASED_VALUES:,} values a file"
        return self._fault(node.start_mark.line + 1, path, "aliases make too many values of this", fix)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text: str = node.value
        if node.tag == _PLAIN:
            if not text or text[0] in _MAYBE_NUMBER or text in _NULLS or text in _TRUE or text in _FALSE:
                return _resolve(text)
            return text
        if node.tag == _UNTAGGED or node.tag == f"{_CORE}str":
            return text
        line = node.start_mark.line + 1
        return self._fault(line, path, "tags are not allowed", "leave the tag out; quote what is text", _tag(node))

    def _fault(self, line: int, path: Path, problem: str, fix: str, value: object = ABSENT) -> object:
        """Note a fault; the value that stands for what it concerns is None."""
        self.faults.append(Fault(line, path, value, problem, fix))
        return None


def _tag(node: yaml.Node) -> str:
    return f"!!{node.tag.removeprefix(_CORE)}" if node.tag.startswith(_CORE) else str(node.tag)


def _resolve(text: str) -> object:
    """A plain scalar by the core schema of YAML 1.2."""
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INT.fullmatch(text):
        return int(text[2:], 8) if text.startswith("0o") else int(text[2:], 16) if text.startswith("0x") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _place(node: yaml.Node, line: int, done: dict[yaml.Node, Place], depth: int) -> Place:
    """A collection stands where its key does, a scalar where it begins, a shared value where its anchor is."""
    if isinstance(node, yaml.ScalarNode):
        return Place(node.start_mark.line + 1)
    if (place := done.get(node)) is not None:
        return place
    place = done[node] = Place(line)
    if depth >= MAX_DEPTH:
        return place
    if isinstance(node, yaml.SequenceNode):
        for number, child in enumerate(node.value):
            place.children[number] = _place(child, child.start_mark.line + 1, done, depth + 1)
        return place
    for key_node, value_node in node.value:
        if isinstance(key_node, yaml.ScalarNode):
            place.children[key_node.value] = _place(value_node, key_node.start_mark.line + 1, done, depth + 1)
    return place
