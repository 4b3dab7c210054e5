"""What the readers of YAML and JSON share: a document's value, what is wrong with its form, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.domain.document_fields import ABSENT, Path

__all__ = ["ABSENT", "Fault", "Path", "Place", "RawDocument", "nested_too_deep"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the form of a file, before what it means is looked at. Lines are counted from 1."""

    line: int
    path: Path
    value: object
    problem: str
    fix: str


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One document of a file: plain values, and the faults found on the way to them."""

    raw: object
    faults: tuple[Fault, ...]


@dataclass(slots=True)
class Place:
    """The line of a value, and the places of what it holds."""

    line: int
    children: dict[str | int, Place] = field(default_factory=dict)

    def line_of(self, path: Path) -> int:
        """The line of the value at `path`, or of the innermost mapping or list where the path ends early."""
        place = self
        for part in path:
            below = place.children.get(part)
            if below is None:
                break
            place = below
        return place.line


def nested_too_deep(line: int, path: Path, levels: int) -> Fault:
    """The fault of a value inside too many others."""
    return Fault(line, path, ABSENT, "nested too deep", f"keep it to {levels} levels")
