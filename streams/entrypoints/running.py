"""What long-running commands share: they wait for services that are away, and end with status 0 when asked to."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from types import FrameType
from typing import Final, Generic, TypeVar

import structlog

from streams.domain.errors import TownclockError

T = TypeVar("T")
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 10.0
_LOOK_S: Final = 0.05
STOP_S: Final = 4.7  # of the 5 s that a stop may take
_SELDOM_S: Final = 0.5  # a signal is heeded at once; this is for work that ends by itself

_log = structlog.get_logger()


class Stopping:
    """Set by SIGTERM and SIGINT, or by the signals given. Made in the main thread; `wait` may be called in any.

    Not an Event: its lock can't be taken twice by one thread, so a second signal (make passes on what the whole group
    has got) that comes while the first is being noted would hang the process for ever. SimpleQueue.put is reentrant.
    """

    def __init__(self, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        self._asked = False
        self._bell: SimpleQueue[None] = SimpleQueue()
        for number in signals:
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._asked = True
        self._bell.put(None)

    def __bool__(self) -> bool:
        return self._asked

    def wait(self, timeout_s: float) -> bool:
        """Whether it was asked for within the time."""
        try:
            self._bell.get(timeout=max(0.0, timeout_s))
        except Empty:
            return self._asked
        self._bell.put(None)  # for whoever else waits, or waits again
        return True


def when_reachable(what: str, call: Callable[[], T], stopping: Stopping) -> T | None:
    """The call's result, tried again with backoff while its error is retriable; None if asked to stop first.

    Raises the errors that are not. The call runs in a thread, which is left behind where it does not return in time: a
    library that waits for a connection would not let a signal through.
    """
    wait_s = _FIRST_WAIT_S
    while not stopping:
        attempt = _Attempt(call)
        attempt.start()
        while attempt.is_alive():
            attempt.join(_LOOK_S)
            if stopping:
                return None
        if attempt.error is None:
            return attempt.results[0]
        if not (isinstance(attempt.error, TownclockError) and attempt.error.retriable):
            raise attempt.error
        _log.warning("waiting", what=what, problem=str(attempt.error), again_in_s=wait_s)
        if stopping.wait(wait_s):
            break
        wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
    return None


def run_with_grace(work: Callable[[], None], stopping: Stopping, grace_s: float) -> bool:
    """Run `work` to its end. Once asked to stop it has `grace_s` for it; what hangs then is left behind: False.

    Raises what it raised. It runs in a thread, for what waits for a server that neither answers nor goes away can't be
    ended.
    """
    attempt = _Attempt(work)
    attempt.start()
    while attempt.is_alive() and not stopping.wait(_SELDOM_S):
        continue
    attempt.join(grace_s)
    if attempt.is_alive():
        return False
    if attempt.error is not None:
        raise attempt.error
    return True


class _Attempt(Thread, Generic[T]):
    """One call, its result or its error."""

    def __init__(self, call: Callable[[], T]) -> None:
        super().__init__(name="reach", daemon=True)
        self.results: list[T] = []
        self.error: Exception | None = None
        self._call = call

    def run(self) -> None:
        """See Thread."""
        try:
            self.results.append(self._call())
        except Exception as error:  # noqa: BLE001 - raised again, where it is waited for
            self.error = error
