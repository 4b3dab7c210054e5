"""Keeps a worker's lease: its own thread and connection, so that neither a busy loop nor a slow statement ends it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import psycopg
import structlog

from streams.adapters.clock import Clock
from streams.adapters.postgres.base import Connection, connect, statements
from streams.domain.errors import ServiceUnreachable
from streams.pipeline.lease import Lease

_log = structlog.get_logger()
_RENEWALS_A_LEASE = 8
_JOIN_S = 1.0


class LeaseKeeper:
    """Opens a session and renews it until `stop`. Where a lease was lost it opens another, and says so."""

    def __init__(
        self, dsn: str, schema: str, region: str, lease: Lease, lease_s: float, clock: Clock, new_id: Callable[[], str]
    ) -> None:
        """Nothing is opened before `start`."""
        self._where = (dsn, schema)
        self._region = region
        self._lease = lease
        self._lease_s = lease_s
        self._clock = clock
        self._new_id = new_id
        self._sql = statements("lanes")
        self._connection: Connection | None = None
        self._session: int | None = None
        self._stop = Event()
        self._thread = Thread(target=self._keep, name="lease", daemon=True)

    def start(self) -> None:
        """Take the first session. Raises ServiceUnreachable."""
        self._turn()
        self._thread.start()

    def stop(self) -> None:
        """End the session, so that others need not wait for its end. Its rows should have been let go of by now."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            _log.warning("the session could not be ended; it ends by itself", error="PostgreSQL does not answer")
            return
        try:
            if self._session is not None:
                self._open().execute(self._sql["end_session"], {"session": self._session})
        except (psycopg.Error, ServiceUnreachable) as error:
            _log.warning("the session could not be ended; it ends by itself", error=str(error))
        self._close()

    def _keep(self) -> None:
        while not self._stop.wait(self._lease_s / _RENEWALS_A_LEASE):
            try:
                self._turn()
            except ServiceUnreachable as error:
                _log.warning("the lease could not be renewed; trying again", error=str(error))

    def _turn(self) -> None:
        """Renew the session, or take a new one. The lease counts from before the question."""
        before_s = self._clock.boot_s()
        try:
            if self._session is None or not self._renew(self._session):
                if self._session is not None:
                    _log.error("the lease was lost: what was claimed under it is left to others", session=self._session)
                before_s = self._clock.boot_s()
                self._session = self._take()
        except psycopg.Error as error:
            # whatever it is: without this thread the worker would have no lease for ever, and say nothing
            self._close()
            raise ServiceUnreachable(f"PostgreSQL can't be reached for the lease: {error}") from None
        self._lease.renewed(self._session, before_s + self._lease_s)

    def _renew(self, session: int) -> bool:
        terms = {"session": session, "lease_s": self._lease_s}
        return self._open().execute(self._sql["renew_session"], terms).fetchone() is not None

    def _take(self) -> int:
        terms = {"session_id": self._new_id(), "region": self._region, "lease_s": self._lease_s}
        row = self._open().execute(self._sql["open_session"], terms).fetchone()
        if row is None:
            raise ServiceUnreachable("PostgreSQL gave no session")
        session: int = row[0]
        return session

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(
                *self._where, "lease", autocommit=True, statement_timeout=f"{int(self._lease_s * 500)}ms"
            )
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
