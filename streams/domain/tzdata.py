"""Records of `tzdata`: bundles, and from which minute each counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TzBundle:
    """One release of tzdata; `block` is its compressed zones, and `sha256` speaks of the zones inside."""

    version: str
    sha256: str
    block: bytes


@dataclass(frozen=True, slots=True)
class TzActivation:
    """Bundle `version` counts from UTC minute `since`; the first activation has 0."""

    version: str
    since: int
    actor: str
