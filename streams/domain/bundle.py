"""A tzdata bundle: one version's zones as TZif bytes. Firing uses bundles only, never the machine's own copy."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from hashlib import sha256

from streams.domain.errors import InvalidInput
from streams.domain.zones import ZoneTable


class ZoneBundle:
    """`version` is IANA's (`2026f`), `zones` maps each zone to its TZif bytes. Tables are parsed when asked for."""

    __slots__ = ("_names", "_sha256", "_tables", "_zones", "version")

    def __init__(self, version: str, zones: Mapping[str, bytes]) -> None:
        self.version = version
        self._zones = dict(zones)
        self._names = tuple(sorted(self._zones))
        self._tables: dict[str, ZoneTable] = {}
        self._sha256: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every zone name, ascending."""
        return self._names

    @property
    def zones(self) -> Mapping[str, bytes]:
        """The bytes the bundle was made of, by zone."""
        return self._zones

    @property
    def sha256(self) -> str:
        """Lower-case hex over, for each zone by name: name, newline, length in decimal, newline, bytes."""
        if self._sha256 is None:
            digest = sha256()
            for name in self._names:
                data = self._zones[name]
                digest.update(f"{name}\n{len(data)}\n".encode())
                digest.update(data)
            self._sha256 = digest.hexdigest()
        return self._sha256

    def __contains__(self, zone: object) -> bool:
        return zone in self._zones

    def nearest(self, zone: str) -> str | None:
        """The zone name most like a mistyped one: the same but for case and spaces, else the closest spelling."""
        folded = {_folded(name): name for name in self._names}
        close = get_close_matches(_folded(zone), folded, 1, 0.6)
        if close:
            return folded[close[0]]
        cities = {_folded(name.rpartition("/")[2]): name for name in reversed(self._names)}
        close = get_close_matches(_folded(zone.rpartition("/")[2]), cities, 1, 0.8)
        return cities[close[0]] if close else None

    def table(self, zone: str) -> ZoneTable:
        """The zone's table. Raises InvalidInput for an unknown zone, with the nearest name, and for damaged bytes."""
        table = self._tables.get(zone)
        if table is None:
            data = self._zones.get(zone)
            if data is None:
                nearest = self.nearest(zone)
                hint = f"did you mean {nearest}?" if nearest else "use a name such as Europe/Berlin"
                raise InvalidInput(f"unknown zone {zone!r} in tzdata {self.version}; {hint}")
            table = self._tables[zone] = ZoneTable.from_tzif(zone, data)
        return table


def _folded(name: str) -> str:
    return name.strip().replace(" ", "_").casefold()
