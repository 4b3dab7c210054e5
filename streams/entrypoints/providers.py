"""Builds the providers of the settings. Adapters are found by entry point, group `townclock.providers`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from streams.domain.errors import InvalidInput
from streams.entrypoints.settings import ProviderSettings, Settings
from streams.pipeline.provider import Provider

GROUP = "townclock.providers"


def build_providers(settings: Settings) -> dict[str, Provider]:
    """Every provider by name, not started. Raises InvalidInput naming the setting and what to write."""
    adapters = {point.name: point for point in entry_points(group=GROUP)}
    return {name: _build(settings.source, each, adapters) for name, each in sorted(settings.providers.items())}


def _build(source: str, settings: ProviderSettings, adapters: Mapping[str, EntryPoint]) -> Provider:
    point = adapters.get(settings.adapter)
    where = f"{source}: providers.{settings.name}.adapter"
    if point is None:
        near = difflib.get_close_matches(settings.adapter, adapters, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InvalidInput(
            f"{where}: there is no adapter {settings.adapter!r}; {hint}installed: {', '.join(sorted(adapters))}"
        )
    if settings.lacks is not None:
        raise InvalidInput(settings.lacks)
    try:
        adapter: Any = point.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"{where}: {settings.adapter!r} ({point.value}) can't be loaded: {error}") from None
    provider: Provider = adapter.from_options(settings.name, settings.options)
    return provider
