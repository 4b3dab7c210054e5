"""Wires a delivery worker of one region: intake in a thread, a dispatch and a sweep per lane in one event loop, and the
lease in a thread of its own.

It stops in this order: intake leaves its group; lanes start nothing more, give back what they have claimed and wait a
moment for what is in flight; the session ends, so that others need not wait for it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

import structlog

from streams.adapters.clock import SystemClock, new_id
from streams.adapters.codec import decode
from streams.adapters.kafka import topics
from streams.adapters.kafka.client import admin
from streams.adapters.kafka.joined_clock import JoinedClock
from streams.adapters.kafka.occurrence_consumer import OccurrenceConsumer
from streams.adapters.postgres.base import connect, pending_migrations, statements
from streams.adapters.postgres.ledger_dispatch import LaneConnections, PostgresLane
from streams.adapters.postgres.ledger_intake import PostgresIntake
from streams.adapters.postgres.link import WORKER_SETTINGS, Link
from streams.adapters.postgres.sessions import LeaseKeeper
from streams.domain.errors import BrokenPromise, InvalidInput, ServiceUnreachable
from streams.entrypoints.providers import build_providers
from streams.entrypoints.running import Stopping, run_with_grace, when_reachable
from streams.entrypoints.settings import Settings
from streams.pipeline.dispatch import LaneDispatch, Terms
from streams.pipeline.intake import Intake
from streams.pipeline.lease import Lease
from streams.pipeline.names import Names
from streams.pipeline.pacing import Pacer, leave_room
from streams.pipeline.provider import Provider
from streams.pipeline.sweep import Sweep

_LOOK_S: Final = 0.1
_UNSERVED_S: Final = 30.0
_STOP_LANES_S: Final = 3.6
_STOP_S: Final = 4.4

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Ground:
    """What was found before anything is started."""

    topic_id: str
    partitions: int
    lanes: Mapping[str, int]


def run(settings: Settings, region: str) -> int:
    """Until SIGTERM or SIGINT; the exit status. Raises InvalidInput and BrokenPromise where it must not start."""
    if region not in settings.regions:
        known = ", ".join(sorted(settings.regions)) or "none"
        raise InvalidInput(f"{settings.source}: there is no region {region!r}; add [regions.{region}] (there: {known})")
    providers = build_providers(settings)
    stopping = Stopping()
    ground = when_reachable("Kafka and PostgreSQL", lambda: _look(settings, region, providers), stopping)
    if ground is None or stopping:
        return 0
    lease, clock = Lease(), SystemClock()
    longest_s = max((provider.traits.timeout_s for provider in providers.values()), default=10.0)
    postgres = settings.postgres
    keeper = LeaseKeeper(postgres.dsn, postgres.schema, region, lease, _lease_s(longest_s), clock, new_id)

    def take_lease() -> bool:
        keeper.start()
        return True

    if when_reachable("PostgreSQL", take_lease, stopping) is None:
        return 0
    _log.info("delivery_starts", region=region, providers=sorted(providers), session=lease.session)

    def work() -> None:
        try:
            asyncio.run(_Worker(settings, region, providers, ground, lease, clock, stopping).run())
        finally:
            keeper.stop()

    if run_with_grace(work, stopping, _STOP_S):
        _log.info("delivery_ends", region=region)
    else:
        note = "a service hangs; others sweep what is left when the session is over"
        _log.warning("delivery_left_behind", region=region, note=note)
    return 0


def _lease_s(longest_send_s: float) -> float:
    """Long enough that, just before a renewal, a send of the longest time-out and a margin still fits."""
    return 1.25 * longest_send_s + 5.0


def _look(settings: Settings, region: str, providers: Mapping[str, Provider]) -> _Ground:
    names, servers, postgres = Names(settings.kafka.topic_prefix), settings.kafka.bootstrap_servers, settings.postgres
    topics.require(names, settings.regions, servers)
    if pending := pending_migrations(postgres.dsn, postgres.schema):
        raise BrokenPromise(
            f"schema {postgres.schema} lacks migrations {', '.join(pending)}; run: townclock db migrate"
        )
    client = admin(servers)
    lanes = {}
    with connect(postgres.dsn, postgres.schema, "deliver start") as connection:
        named = statements("lanes")
        for name in sorted(providers):
            quota = settings.providers[name]
            terms = {"region": region, "provider": name, "rate_per_s": quota.rate_per_s, "burst": quota.burst}
            row = connection.execute(named["set_quota"], terms).fetchone()
            lanes[name] = row[0] if row else 0
        connection.execute(named["forget_sessions"])
    topic = names.occurrences(region)
    return _Ground(topics.topic_id(client, topic), topics.partition_count(client, names.ticks), lanes)


class _Worker:
    """Everything of one worker but its lease."""

    def __init__(
        self,
        settings: Settings,
        region: str,
        providers: Mapping[str, Provider],
        ground: _Ground,
        lease: Lease,
        clock: SystemClock,
        stopping: Stopping,
    ) -> None:
        self._settings = settings
        self._region = region
        self._providers = providers
        self._ground = ground
        self._lease = lease
        self._clock = clock
        self._stopping = stopping
        self._names = Names(settings.kafka.topic_prefix)
        self._dsn, self._schema = settings.postgres.dsn, settings.postgres.schema
        self._failed: BaseException | None = None
        self._stop_intake = Event()

    async def run(self) -> None:
        """Until asked to stop, or until a part fails; then its error is raised."""
        loop = asyncio.get_running_loop()
        shared = LaneConnections(self._dsn, self._schema)
        joined = self._joined_clock()
        works = [self._lane(name, shared) for name in sorted(self._providers)]
        dispatches = [self._dispatch(name, lane, joined) for name, lane in works]
        sweeps = [self._sweep(name, lane) for name, lane in works]

        def wake() -> None:
            for dispatch in dispatches:
                dispatch.wake()

        def taken_in() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        await self._start_providers()
        stop = asyncio.Event()
        tasks = [asyncio.create_task(dispatch.run(stop)) for dispatch in dispatches]
        tasks += [asyncio.create_task(sweep.run(stop)) for sweep in sweeps]
        tasks.append(asyncio.create_task(self._tell_unserved(shared.sweep, stop)))
        intake = Thread(target=self._take_in, args=(taken_in,), name="intake", daemon=True)
        intake.start()
        try:
            while not self._stopping and self._failed is None and not any(task.done() for task in tasks):
                await asyncio.sleep(_LOOK_S)
        finally:
            self._stop_intake.set()
            stop.set()
            await self._end(tasks, intake)
            await self._close_providers()
            for _, lane in works:
                await lane.end()
            await shared.close()
            if joined is not None:
                joined.stop()
        if self._failed is not None:
            raise self._failed

    async def _start_providers(self) -> None:
        """All of them, or none."""
        try:
            for provider in self._providers.values():
                await provider.start()
        except Exception:
            await self._close_providers()
            raise

    async def _close_providers(self) -> None:
        for provider in self._providers.values():
            await provider.close()

    async def _end(self, tasks: list[asyncio.Task[None]], intake: Thread) -> None:
        done, late = await asyncio.wait(tasks, timeout=_STOP_LANES_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        await asyncio.to_thread(intake.join, 1.0)
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                self._failed = self._failed or error

    def _lane(self, name: str, shared: LaneConnections) -> tuple[str, PostgresLane]:
        work = Link(self._dsn, self._schema, f"lane {self._region}/{name}", WORKER_SETTINGS)
        lane = PostgresLane(self._ground.lanes[name], self._region, name, work, shared, random.random())
        return name, lane

    def _dispatch(self, name: str, lane: PostgresLane, joined: JoinedClock | None) -> LaneDispatch:
        quota = self._settings.providers[name]
        return LaneDispatch(
            lane=f"{self._region}/{name}",
            ledger=lane,
            provider=self._providers[name],
            pacer=Pacer(leave_room(quota.rate_per_s, quota.burst)),
            lease=self._lease,
            clock=self._clock,
            delivery_now_s=self._clock.now_s if joined is None else joined.now_s,
            uniform=random.random,
            terms=Terms(),
        )

    def _sweep(self, name: str, lane: PostgresLane) -> Sweep:
        return Sweep(f"{self._region}/{name}", lane, self._providers[name].traits, self._clock, Terms().limits)

    def _joined_clock(self) -> JoinedClock | None:
        if self._settings.scenario is None:
            return None
        servers = self._settings.kafka.bootstrap_servers
        clock = JoinedClock(servers, self._names, self._ground.partitions, self._clock)
        clock.start()
        return clock

    def _take_in(self, taken_in: Callable[[], None]) -> None:
        kafka, ledger = self._settings.kafka, PostgresIntake(self._dsn, self._schema)
        topic, topic_id = self._names.occurrences(self._region), self._ground.topic_id
        try:
            source = OccurrenceConsumer(
                kafka.bootstrap_servers,
                f"deliver-{self._region}",
                self._names.deliver_group(self._region),
                kafka.group_protocol,
                topic,
                topic_id,
                lambda: ledger.next_offsets(topic, topic_id),
                self._stop_intake.wait,
            )
            Intake(source, ledger, decode, self._region, self._settings.scenario, taken_in).run(self._stop_intake)
        except BaseException as error:  # noqa: BLE001 - whatever ends intake ends the worker, and is raised there
            self._failed = error
        finally:
            ledger.close()

    async def _tell_unserved(self, link: Link, stop: asyncio.Event) -> None:
        """Rows of a provider that the settings don't name wait for ever: say so."""
        told: set[str] = set()
        while not stop.is_set():
            try:
                rows = await link.rows(statements("lanes")["unserved"], {"region": self._region})
            except ServiceUnreachable:
                rows = []
            for provider, count in rows:
                if provider not in self._providers and provider not in told:
                    told.add(provider)
                    fix = f"add [providers.{provider}] to the settings and restart"
                    _log.error("alarm_lane_unserved", region=self._region, provider=provider, rows=count, fix=fix)
            try:
                async with asyncio.timeout(_UNSERVED_S):
                    await stop.wait()
            except TimeoutError:
                continue
