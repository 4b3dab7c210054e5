"""A worker's lease as its own clock sees it. Everything a worker has claimed is its own while the lease holds.

The lease lives in the ledger, as a session with an expiry on the database's clock. Here its end is reckoned on
CLOCK_BOOTTIME from *before* a renewal was asked for, so it is over here before it is over there: whoever stops sending
by this clock has stopped before anybody else may sweep the rows. A lease that is over is never renewed, for its rows
may be somebody else's by then: the worker takes a new session, and what it had claimed under the old one is lost.
"""

from __future__ import annotations

from threading import Lock


class Lease:
    """Set by the thread that renews it, read by the loop that sends."""

    def __init__(self) -> None:
        """No lease yet: nothing is covered."""
        self._lock = Lock()
        self._session: int | None = None
        self._until_s = float("-inf")

    @property
    def session(self) -> int | None:
        """The session whose rows are ours; none before the first."""
        with self._lock:
            return self._session

    def renewed(self, session: int, until_s: float) -> None:
        """The session holds until then, on the boot clock."""
        with self._lock:
            self._session, self._until_s = session, until_s

    def covers(self, session: int, boot_s: float, needed_s: float) -> bool:
        """Whether this very session holds for `needed_s` more seconds."""
        with self._lock:
            return session == self._session and boot_s + needed_s <= self._until_s
