"""Delivery's clock in a scenario: it follows the lowest minute joined, so that nothing is sent before its minute is.

`now_s` is the end of the lowest minute that every partition's cursor has handled, plus the real seconds since that was
first seen: time flows on when the ticks are over. Before every partition has handled a minute it is 0: nothing is due.
"""

from __future__ import annotations

from threading import Event, Lock, Thread
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.adapters.clock import Clock
from streams.adapters.kafka.client import reader_config, reason
from streams.pipeline.cursors import Cursor
from streams.pipeline.names import Names

_LOOK_S: Final = 0.25
_LONGEST_LOOK_S: Final = 2.0
_ASK_S: Final = 5.0
_JOIN_S: Final = 0.5

_log = structlog.get_logger()


class JoinedClock:
    """Reads the cursors in a thread of its own, from `start` until `stop`."""

    def __init__(self, bootstrap_servers: str, names: Names, partitions: int, clock: Clock) -> None:
        """Does not wait for the broker."""
        self._names = names
        self._asked = [TopicPartition(names.ticks, number) for number in range(partitions)]
        self._clock = clock
        self._consumer = Consumer(reader_config(bootstrap_servers, "joined-clock", names.processor_group))
        self._lock = Lock()
        self._minute = -1
        self._seen_s = 0.0
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="joined-clock", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def now_s(self) -> float:
        """Delivery time, epoch seconds. It never goes back."""
        with self._lock:
            if self._minute < 0:
                return 0.0
            return (self._minute + 1) * 60.0 + self._clock.boot_s() - self._seen_s

    def stop(self) -> None:
        """End the thread and its client; a thread that waits for a broker that is away ends with the process."""
        self._stop.set()
        self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            self._consumer.close()

    def _watch(self) -> None:
        wait_s = _LOOK_S
        while not self._stop.wait(wait_s):
            try:
                found = self._consumer.committed(self._asked, timeout=_ASK_S)
                self._take(min(joined_minute(item) for item in found))
                wait_s = _LOOK_S
            except KafkaException as error:
                wait_s = min(wait_s * 2, _LONGEST_LOOK_S)
                _log.warning("waiting", what="the cursors of ticks", problem=reason(error), again_in_s=wait_s)

    def _take(self, minute: int) -> None:
        """A cursor that was set back for a replay does not set the clock back."""
        with self._lock:
            now_s = self._clock.boot_s()
            flowed = (self._minute + 1) * 60.0 + now_s - self._seen_s
            if minute > self._minute and (minute + 1) * 60.0 >= (flowed if self._minute >= 0 else 0.0):
                self._minute, self._seen_s = minute, now_s


def joined_minute(item: TopicPartition) -> int:
    """The last minute that a committed cursor says is joined; -1 before the first, and for a cursor set by hand."""
    if item.offset is None or item.offset < 0:
        return -1
    minute = Cursor.parse(item.offset, item.metadata).minute
    return -1 if minute is None else minute
