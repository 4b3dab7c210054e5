"""What commands share: settings from the context."""

from __future__ import annotations

from typing import cast

import click

from streams.entrypoints import settings as settings_module
from streams.entrypoints.settings import Settings


def settings_of(ctx: click.Context) -> Settings:
    """The settings that `--config`, the environment and the defaults come to; read once a command."""
    shared = ctx.ensure_object(dict)
    if "settings" not in shared:
        shared["settings"] = settings_module.load(shared.get("config"))
    return cast("Settings", shared["settings"])
