"""Occurrence records onto `occurrences.<region>`: keyed by schedule id, on their tick's partition, headers beside."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.adapters.codec import encode
from streams.adapters.kafka.client import producer_config, reason
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.domain.minutes import MINUTES_PER_DAY, format_day, format_tick
from streams.domain.occurrence import Ended, Fire, OccurrenceRecord
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.names import Names

Headers = list[tuple[str, bytes]]
_SLICE_S: Final = 0.1
_CLIENT_LIMIT_BYTES: Final = 4 << 20  # above the topic's own limit, which counts
_ROOM_S: Final = 0.05
_TOLD_EVERY_SLICES: Final = 100
# What no repetition can mend. Everything else is tried again.
_REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the library's public name for it begins so
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)

_log = structlog.get_logger()


class OccurrenceEmitter:
    """The `Emitter` port on an idempotent producer. Used by one thread."""

    def __init__(self, bootstrap_servers: str, client_id: str, names: Names, interrupted: Callable[[], bool]) -> None:
        """Does not wait for the broker."""
        more = {
            "delivery.report.only.error": True,
            "queue.buffering.max.messages": 200_000,
            "message.max.bytes": _CLIENT_LIMIT_BYTES,
        }
        self._producer = Producer(producer_config(bootstrap_servers, client_id, **more))
        self._names = names
        self._interrupted = interrupted
        self._topics: dict[str, str] = {}
        self._failed: dict[int, KafkaError] = {}

    def emit(self, partition: int, record: OccurrenceRecord) -> None:
        """See Emitter."""
        topic = self._topics.get(record.region)
        if topic is None:
            topic = self._topics[record.region] = self._names.occurrences(record.region)
        key, value, headers = record.schedule_id.encode(), encode(record), headers_of(record)
        while True:
            try:
                self._producer.produce(topic, value, key, partition, self._report, headers=headers)
                return
            except BufferError:
                if self._interrupted():
                    raise Interrupted from None
                self._producer.poll(_ROOM_S)
            except KafkaException as error:
                if error.args[0].code() not in _REFUSED:
                    raise
                self._failed[partition] = error.args[0]
                return

    def flush(self) -> dict[int, BrokenPromise]:
        """See Emitter. Raises ServiceUnreachable if something was not acknowledged within the producer's time-out."""
        slices = 0
        while unacknowledged := self._producer.flush(_SLICE_S):
            if self._interrupted():
                raise Interrupted
            slices += 1
            if slices % _TOLD_EVERY_SLICES == 0:
                since_s = round(slices * _SLICE_S)
                _log.warning("waiting", what="acknowledgements", unacknowledged=unacknowledged, since_s=since_s)
        failed, self._failed = self._failed, {}
        for error in failed.values():
            if error.code() not in _REFUSED:
                raise ServiceUnreachable(f"occurrences were not acknowledged: {reason(error)}")
        return {
            partition: BrokenPromise(
                f"the broker refuses occurrences of partition {partition}: {reason(error)}; see townclock topics check"
            )
            for partition, error in failed.items()
        }

    def close(self) -> None:
        """Give what is still under way a moment. What is not acknowledged then will be emitted again."""
        self._producer.flush(_SLICE_S)

    def _report(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            return
        partition = message.partition()
        known = self._failed.get(-1 if partition is None else partition)
        if known is None or known.code() in _REFUSED:
            self._failed[-1 if partition is None else partition] = error


def headers_of(record: OccurrenceRecord) -> Headers:
    """CloudEvents' attributes, the ledger date, and a trace context; a repetition carries the same."""
    kind, event_id, day = _identity(record)
    trace = event_id if len(event_id) == _HEX_KEY else sha256(event_id.encode()).hexdigest()
    return [
        ("ce_specversion", b"1.0"),
        ("ce_id", event_id.encode()),
        ("ce_type", kind),
        ("ce_source", b"/schedules/" + record.schedule_id.encode()),
        ("ce_time", _time(record.instant)),
        ("tc_date", _date(day)),
        ("traceparent", f"00-{trace[:32]}-{trace[32:48]}-01".encode()),
    ]


_HEX_KEY: Final = 64


def _identity(record: OccurrenceRecord) -> tuple[bytes, str, int]:
    """Type, id and ledger day. `ended` has no key: its id names the life and revision that it is about."""
    if isinstance(record, Fire):
        return b"townclock.occurrence.fire", record.key, record.ledger_day
    if isinstance(record, Ended):
        event_id = f"ended|{record.schedule_id}|{record.incarnation}|{record.revision}|{record.instant}"
        return b"townclock.occurrence.ended", event_id, record.instant // MINUTES_PER_DAY
    return b"townclock.occurrence.obligation", record.key, record.ledger_day


@lru_cache(maxsize=64)
def _time(tick: int) -> bytes:
    return format_tick(tick).encode()


@lru_cache(maxsize=64)
def _date(day: int) -> bytes:
    return format_day(day).encode()
