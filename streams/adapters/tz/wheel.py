"""The tzdata wheel as a bundle: the bytes inside the installed package, never the machine's /usr/share/zoneinfo."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import tzdata  # type: ignore[import-untyped]  # the wheel carries no types

from streams.domain.bundle import ZoneBundle


@cache
def wheel_bundle() -> ZoneBundle:
    """The bundle of the installed `tzdata` wheel; its version is IANA's. Read once a process."""
    package = files(tzdata)
    root = package / "zoneinfo"
    names = (package / "zones").read_text("utf-8").split()
    return ZoneBundle(tzdata.IANA_VERSION, {name: root.joinpath(*name.split("/")).read_bytes() for name in names})
