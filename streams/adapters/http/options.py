"""A provider's options from its table in the settings, checked one by one. Each error names the key and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping

from streams.domain.errors import InvalidInput


class Options:
    """The table `[providers.NAME]` without its adapter and quota. Every getter raises InvalidInput on a wrong type."""

    def __init__(self, name: str, options: Mapping[str, object], allowed: Collection[str]) -> None:
        self._where = f"providers.{name}"
        self._options = options
        for key in options:
            if key not in allowed:
                near = difflib.get_close_matches(key, allowed, 1)
                hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(sorted(allowed))}"
                raise self.wrong(key, f"there is no such setting for this adapter; {hint}")

    def wrong(self, key: str, problem: str) -> InvalidInput:
        """An error about one key; its value is left out, for it may be a secret."""
        return InvalidInput(f"{self._where}.{key}: {problem}")

    def text(self, key: str, *, token: bool = False) -> str | None:
        """A text, or none. With `token`, one that can stand in a header: printable ASCII without spaces."""
        value = self._options.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "this is a text in quotes, not empty")
        if token and not all("!" <= c <= "~" for c in value):
            raise self.wrong(key, "only printable ASCII without spaces or line ends can stand in a header")
        return value

    def seconds(self, key: str, default: float | None, at_most: float) -> float | None:
        """A number of seconds above 0, or the default."""
        value = self._options.get(key, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= at_most:
            raise self.wrong(key, f"{value!r} is not a number of seconds; write one above 0, up to {at_most:g}")
        return float(value)

    def count(self, key: str, default: int, at_most: int) -> int:
        """A whole number from 1, or the default."""
        value = self._options.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= at_most:
            raise self.wrong(key, f"{value!r} is not a count; write a whole number from 1 to {at_most}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """true or false."""
        value = self._options.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, f"{value!r}; write true or false")
        return value
