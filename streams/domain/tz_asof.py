"""Which tzdata bundle is in force at a tick, from the records of `tzdata` below the tick's watermark."""

from __future__ import annotations

from streams.domain.bundle import ZoneBundle
from streams.domain.errors import BrokenPromise


class TzBook:
    """The records of `tzdata` in offset order. Keys are never reused: the first record of an activation counts.

    The first activation counts at every minute. A second one is refused when a tick's watermark reaches it: splices of
    two versions are not evaluated by this release.
    """

    def __init__(self) -> None:
        self.position = 0
        self._bundles: dict[str, ZoneBundle] = {}
        self._activations: list[tuple[int, str, int]] = []
        self._invalid: tuple[int, str] | None = None
        self._answer: tuple[int, ZoneBundle] | None = None

    def add_bundle(self, bundle: ZoneBundle) -> None:
        """A release of tzdata; one that is there already stays."""
        self._bundles.setdefault(bundle.version, bundle)

    def add_activation(self, offset: int, version: str, since: int) -> None:
        """The next activation record."""
        if all((version, since) != (known, from_minute) for _, known, from_minute in self._activations):
            self._activations.append((offset, version, since))

    def add_invalid(self, offset: int, problem: str) -> None:
        """A record that can't be read: no tick whose watermark passes it is evaluated."""
        if self._invalid is None:
            self._invalid = (offset, problem)

    def in_force(self, watermark: int) -> ZoneBundle:
        """The bundle for ticks with this watermark of tzdata, which must have been read to it.

        Raises BrokenPromise if there is none, more than one activation, or an invalid record.
        """
        if self._answer is not None and self._answer[0] == watermark:
            return self._answer[1]
        if self._invalid is not None and self._invalid[0] < watermark:
            raise BrokenPromise(f"tzdata, offset {self._invalid[0]}: {self._invalid[1]}; see townclock topics check")
        active = [(version, since) for offset, version, since in self._activations if offset < watermark]
        if not active:
            raise BrokenPromise(
                f"tzdata holds no activation below offset {watermark}; townclock topics create publishes the first"
            )
        if len(active) > 1:
            listed = ", ".join(f"{version} from minute {since}" for version, since in active)
            raise BrokenPromise(
                f"tzdata holds several activations ({listed}); tz activations after the first come later than this "
                "release: run the release that made them"
            )
        version, since = active[0]
        bundle = self._bundles.get(version)
        if bundle is None or since > 0:
            raise BrokenPromise(
                f"tzdata activates {version} from minute {since}, but the first activation is of a bundle before it, "
                "from minute 0; townclock topics create publishes both"
            )
        self._answer = (watermark, bundle)
        return bundle
