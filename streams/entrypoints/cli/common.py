"""What commands share: settings from the context."""

from __future__ import annotations

import click

from streams.entrypoints import settings as settings_module
from streams.entrypoints.settings import Settings


def settings_of(ctx: click.Context) -> Settings:
    """The settings that `--config`, the environment and the defaults come to; read once a command."""
    shared: dict[str, object] = ctx.ensure_object(dict)
    if "settings" not in shared:
        shared["settings"] = settings_module.load(str(shared["config"]) if shared.get("config") else None)
    found = shared["settings"]
    assert isinstance(found, Settings)
    return found
