"""What can go wrong while services are set up on this machine. Every message says what to do next."""

from __future__ import annotations

from streams.domain.errors import ServiceUnreachable, TownclockError


class EmbeddedError(TownclockError):
    """The embedded broker or database can't be installed, started or used."""


class FolderInUse(EmbeddedError):
    """Another process runs a service on the same data folder."""


class PortTaken(EmbeddedError):
    """A port that was asked for is in use."""


class NoSpace(EmbeddedError):
    """The disk is full, or too full to begin."""


class DownloadFailed(ServiceUnreachable, EmbeddedError):
    """Files could not be downloaded; what has arrived is kept and the same command goes on from there."""
