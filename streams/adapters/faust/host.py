"""faust-streaming as the host of the joiners: group membership, assignment, wake-ups, and the process's life.

Nothing is entrusted to it: no tables, no sends, no offsets that mean anything. An event on `ticks` only wakes the
engine, which reads `ticks` itself from a cursor of its own. So an event lost, doubled or late costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import faust
import structlog

from streams.adapters.kafka.engine import Engine
from streams.pipeline.names import Names

# A killed worker is replaced within 15 s: its session ends after 10.
SESSION_TIMEOUT_S: Final = 10.0
_HEARTBEAT_S: Final = 2.0
_BARRIER_S: Final = 8.0  # below the session time-out
_SHUTDOWN_S: Final = 3.0
_HEED_S: Final = 0.5
_LEAVE_S: Final = 4.6  # a stop takes 5 s at most
# Its libraries log hundreds of lines while a broker is away; what matters is logged here and by the engine.
_NOISY: Final = ("faust", "mode", "aiokafka", "kafka")

_log = structlog.get_logger()


class FaustHost:
    """One worker. `run` blocks until SIGTERM, SIGINT, or a failure of the engine or of Faust."""

    def __init__(self, bootstrap_servers: str, names: Names, partition_count: int) -> None:
        self._names = names
        self._folder = tempfile.TemporaryDirectory(prefix="townclock-processor-")
        self._engine: Engine | None = None
        self._status: int | None = None
        self._leaving = False
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self.app: Any = faust.App(
            names.processor_host_group,
            broker=[f"kafka://{server.strip()}" for server in bootstrap_servers.split(",")],
            loop=self._loop,
            version=1,
            store="memory://",
            datadir=Path(self._folder.name),
            web_enabled=False,
            topic_partitions=partition_count,
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,
            consumer_auto_offset_reset="latest",
            stream_wait_empty=False,
            broker_commit_interval=5.0,
            broker_session_timeout=SESSION_TIMEOUT_S,
            broker_heartbeat_interval=_HEARTBEAT_S,
            broker_max_poll_interval=300.0,
            worker_redirect_stdouts=False,
        )
        raw = {"key_type": bytes, "value_type": bytes, "key_serializer": "raw", "value_serializer": "raw"}
        topic = self.app.topic(names.ticks, partitions=partition_count, **raw)
        self.app.on_partitions_revoked.connect(self._revoked)
        self.app.on_partitions_assigned.connect(self._assigned)
        self.app.on_before_shutdown.connect(self._shutting_down)

        async def wake(stream: Any) -> None:
            async for event in _events(stream):
                self.engine.wake(event.message.partition, event.message.offset + 1)

        self.app.agent(topic, concurrency=1, name="wake")(wake)

    @property
    def engine(self) -> Engine:
        """The engine it hosts; set before `run`."""
        if self._engine is None:
            raise RuntimeError("host() comes before run()")
        return self._engine

    def host(self, engine: Engine) -> None:
        """Whom to wake, and tell what it owns."""
        self._engine = engine

    def engine_failed(self, error: BaseException) -> None:
        """To be called from the engine's thread: ends the process with status 1."""
        _log.error("joiners_failed", problem=str(error) or repr(error), kind=type(error).__name__)
        self._leave_soon()
        with suppress(RuntimeError):  # the loop is closed: the process is ending anyway
            self._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self.app.crash(error), loop=self._loop))

    def run(self, asked_to_stop: Callable[[], bool] = lambda: False) -> int:
        """The exit status: 0 after a signal, 1 after a failure, which has been logged.

        `asked_to_stop` tells of a signal that came before Faust took them over.
        """
        self.engine.start()
        self._heed(asked_to_stop)
        worker: Any = faust.Worker(
            self.app, loop=self._loop, quiet=True, redirect_stdouts=False, override_logging=False, loglevel="CRITICAL"
        )
        worker.spinner = None
        schedule_shutdown = worker._schedule_shutdown  # noqa: SLF001 - the one place that both signals come to

        def asked(number: signal.Signals) -> None:
            self._leave_soon()
            schedule_shutdown(number)

        worker._schedule_shutdown = asked  # noqa: SLF001
        threading.excepthook = _thread_failed
        try:
            worker.execute_from_commandline()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        else:
            status = 0
        finally:
            self.engine.shutdown(_SHUTDOWN_S)
            self._folder.cleanup()
        self._status = status
        reason = worker.crash_reason or self.app.crash_reason
        if status and reason is not None and reason is not self.engine.error:
            _log.error("host_failed", problem=str(reason) or repr(reason), kind=type(reason).__name__)
        return status

    def _leave_soon(self) -> None:
        """End the process though Faust, a library under it, or a call of the engine waits for a broker that is away."""
        if not self._leaving:
            self._leaving = True
            timer = threading.Timer(_LEAVE_S, self._leave)
            timer.daemon = True
            timer.start()

    def _leave(self) -> None:
        failed = self.engine.error is not None or self.app.crash_reason is not None
        status = self._status if self._status is not None else int(failed)
        _log.warning("host_left_behind", after_s=_LEAVE_S, status=status)
        with suppress(OSError):
            self._folder.cleanup()
        sys.stderr.flush()
        os._exit(status)

    def _heed(self, asked_to_stop: Callable[[], bool]) -> None:
        if asked_to_stop():
            signal.raise_signal(signal.SIGTERM)
        self._loop.call_later(_HEED_S, self._heed, asked_to_stop)

    def _ours(self, tps: Collection[Any]) -> list[int]:
        return sorted(tp.partition for tp in tps if tp.topic == self._names.ticks)

    async def _revoked(self, app: Any, revoked: Collection[Any], **_: Any) -> None:
        """Awaited before the worker rejoins the group: the joiners stand still, and keep what they have in memory."""
        del app, revoked
        if not await asyncio.to_thread(self.engine.suspend, _BARRIER_S):
            _log.warning("joiners_slow_to_stop", waited_s=_BARRIER_S)

    async def _assigned(self, app: Any, assigned: Collection[Any], **_: Any) -> None:
        generation = int(app.consumer_generation_id)
        if not await asyncio.to_thread(self.engine.own, self._ours(assigned), generation, _BARRIER_S):
            _log.warning("joiners_slow_to_let_go", waited_s=_BARRIER_S)

    async def _shutting_down(self, app: Any, **_: Any) -> None:
        """Faust sends no revocation while it stops."""
        del app
        if not await asyncio.to_thread(self.engine.shutdown, _SHUTDOWN_S):
            _log.warning("joiners_slow_to_stop", waited_s=_SHUTDOWN_S)


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """Faust's own threads, when a broker is away."""
    if failed.exc_type is not SystemExit:
        problem = str(failed.exc_value) or failed.exc_type.__name__
        _log.warning("host_thread_ended", problem=problem, kind=failed.exc_type.__name__)


def _events(stream: Any) -> AsyncIterator[Any]:
    events: AsyncIterator[Any] = stream.events()
    return events
