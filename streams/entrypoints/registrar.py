"""Wires a registrar: the group's records into the registry, batch by batch, until asked to stop."""

from __future__ import annotations

import structlog

from streams.adapters import codec
from streams.adapters.clock import SystemClock
from streams.adapters.kafka.change_reader import ChangeReader
from streams.adapters.kafka.tz_records import bundle_in_force
from streams.adapters.postgres.registry import PostgresRegistry
from streams.domain.bundle import ZoneBundle
from streams.domain.document import DocumentContext
from streams.domain.errors import TownclockError
from streams.entrypoints.required import require_topics_and_tables
from streams.entrypoints.running import STOP_S, Stopping, run_with_grace, when_reachable
from streams.entrypoints.settings import Settings
from streams.pipeline.names import Names
from streams.pipeline.register import Registrar, StepReport

BATCH = 500
_POLL_S = 0.2
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 10.0
_TOLD_EVERY_S = 10.0
_PRUNED_EVERY_S = 3600.0

_log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Until SIGTERM. A service that is away is waited for; after it, everything begins again from the registry."""
    stopping = Stopping()
    names = Names(settings.kafka.topic_prefix)
    zones = when_reachable("Kafka and PostgreSQL", lambda: _required(settings, names), stopping)
    if zones is None:
        return
    registry = PostgresRegistry(settings.postgres.dsn, settings.postgres.schema)
    registrar = Registrar(
        registry, names, document_context(settings, zones), codec.encode, codec.decode, SystemClock().now_s
    )
    work = _Work(settings, names, registry, registrar, stopping)
    _log.info("registrar_starts", regions=sorted(settings.regions))
    if run_with_grace(work.sessions, stopping, STOP_S):
        registry.close()
        _log.info("registrar_ends")
    else:
        _log.warning("registrar_left_behind", note="a service hangs; what it had begun is begun again")


def document_context(settings: Settings, zones: ZoneBundle) -> DocumentContext:
    """What a document may name: the zones of a bundle, and the settings' regions and providers where there are any."""
    return DocumentContext(
        zone_names=frozenset(zones.names),
        regions=settings.regions or None,
        providers=frozenset(settings.providers) or None,
    )


def _required(settings: Settings, names: Names) -> ZoneBundle:
    """The zones that joiners have, which may be others than the installed wheel's: what they lack would stop them."""
    require_topics_and_tables(settings)
    return bundle_in_force(names, settings.kafka.bootstrap_servers)


class _Work:
    """One session after the other: a member of the group, and what came of its batches."""

    def __init__(
        self, settings: Settings, names: Names, registry: PostgresRegistry, registrar: Registrar, stopping: Stopping
    ) -> None:
        self.got_on = False
        self._settings = settings
        self._names = names
        self._registry = registry
        self._registrar = registrar
        self._stopping = stopping
        self._clock = SystemClock()
        self._counts: dict[str, int] = {}
        self._tell_at_s = 0.0
        self._prune_at_s = 0.0

    def sessions(self) -> None:
        """One after the other until asked to stop; after an error that passes, another."""
        wait_s = _FIRST_WAIT_S
        while not self._stopping:
            try:
                self.session()
            except TownclockError as error:
                if not error.retriable:
                    raise
                wait_s = _FIRST_WAIT_S if self.got_on else min(wait_s * 2, _LONGEST_WAIT_S)
                _log.warning("waiting", problem=str(error), again_in_s=wait_s)
                self._stopping.wait(wait_s)

    def session(self) -> None:
        """Join the group and work until asked to stop. `got_on` says afterwards whether a batch was taken in."""
        self.got_on = False
        kafka = self._settings.kafka
        reader = ChangeReader(
            kafka.bootstrap_servers,
            self._names.registrar_group,
            kafka.group_protocol,
            [self._names.schedule_changes, self._names.schedules],
            self._registry.next_offsets,
        )
        try:
            while not self._stopping:
                records = reader.batch(BATCH, _POLL_S)
                if records:
                    self._note(self._registrar.handle(records))
                    reader.done(records)
                self._now_and_then()
        finally:
            reader.close()

    def _note(self, report: StepReport) -> None:
        self.got_on = True
        for alarm in report.alarms:
            _log.error("alarm_schedules", problem=alarm)
        if report.republished:
            _log.warning("older_plan_landed_last", published_again=report.republished)
        for name in ("accepted", "unchanged", "refused", "landed", "duplicates"):
            self._counts[name] = self._counts.get(name, 0) + getattr(report, name)

    def _now_and_then(self) -> None:
        now_s = self._clock.boot_s()
        if now_s >= self._tell_at_s and any(self._counts.values()):
            _log.info("registered", **self._counts)
            self._counts.clear()
            self._tell_at_s = now_s + _TOLD_EVERY_S
        if now_s >= self._prune_at_s:
            self._registry.prune_answers()
            self._prune_at_s = now_s + _PRUNED_EVERY_S
