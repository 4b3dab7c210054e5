"""Names of topics and groups under an installation's prefix."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """Every topic and consumer group of one installation; `prefix` sets installations on one broker apart."""

    prefix: str = ""

    @property
    def schedule_changes(self) -> str:
        """Changes that anyone publishes."""
        return f"{self.prefix}schedule-changes"

    @property
    def rejected(self) -> str:
        """Changes the registrar refused."""
        return f"{self.prefix}schedule-changes.rejected"

    @property
    def schedules(self) -> str:
        """Plans, compacted."""
        return f"{self.prefix}schedules"

    @property
    def tzdata(self) -> str:
        """Bundles and activations, compacted, one partition."""
        return f"{self.prefix}tzdata"

    @property
    def ticks(self) -> str:
        """UTC minutes."""
        return f"{self.prefix}ticks"

    def occurrences(self, region: str) -> str:
        """One region's occurrences."""
        return f"{self.prefix}occurrences.{region}"

    @property
    def deliveries(self) -> str:
        """What happened to each occurrence."""
        return f"{self.prefix}deliveries"

    @property
    def digests(self) -> str:
        """Digests that webhooks asked for."""
        return f"{self.prefix}digests"

    @property
    def registrar_group(self) -> str:
        """The registrars' group."""
        return f"{self.prefix}registrar"

    @property
    def processor_group(self) -> str:
        """The memberless group that holds the joiners' cursors on `ticks`."""
        return f"{self.prefix}processor"

    @property
    def processor_host_group(self) -> str:
        """Faust's own group: membership, no cursor."""
        return f"{self.prefix}processor-host"

    def deliver_group(self, region: str) -> str:
        """The group of one region's delivery workers."""
        return f"{self.prefix}deliver.{region}"
