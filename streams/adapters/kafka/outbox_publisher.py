"""Outbox rows onto their topics, each acknowledged by all in-sync replicas: see `streams.pipeline.relay.Publisher`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.adapters.kafka.client import producer_config, reason
from streams.adapters.kafka.topic_specs import REJECTION_BYTES
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.outbox import OutboxRow
from streams.pipeline.relay import Published

_TIMEOUT_MS: Final = 30_000
# A topic that nobody has heard of for so long is none.
_UNKNOWN_AFTER_MS: Final = 10_000
_POLL_S: Final = 0.1
_NEVER: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001  librdkafka's own codes are spelled so
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
    }
)


class KafkaOutboxPublisher:
    """One idempotent producer, made anew after an error that it can't recover from. For one thread."""

    def __init__(self, bootstrap_servers: str, client_id: str, stopping: Callable[[], bool]) -> None:
        """`stopping` is asked while acknowledgements are awaited."""
        self._config = producer_config(
            bootstrap_servers,
            client_id,
            **{
                "message.timeout.ms": _TIMEOUT_MS,
                "message.max.bytes": REJECTION_BYTES + (64 << 10),
                "topic.metadata.propagation.max.ms": _UNKNOWN_AFTER_MS,
            },
        )
        self._stopping = stopping
        self._producer: Producer | None = None

    def publish(self, rows: Sequence[OutboxRow]) -> Published:
        """See Publisher."""
        sending = _Sending()
        producer = self._producer = self._producer or Producer(self._config)
        for row in rows:
            self._produce(producer, row, sending)
        while len(producer):
            producer.poll(_POLL_S)
            if self._stopping():
                self.close()
                raise Interrupted
        if sending.fatal:
            self.close()
        return sending.result()

    def close(self) -> None:
        """Throw away what is not acknowledged. Again: nothing."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge()
            producer.flush(_POLL_S)

    def _produce(self, producer: Producer, row: OutboxRow, sending: _Sending) -> None:
        record = row.record
        more: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
        while True:
            try:
                producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    headers=[(name, value.encode()) for name, value in record.headers.items()],
                    on_delivery=sending.listener(row),
                    **more,
                )
            except BufferError:
                producer.poll(_POLL_S)
                if self._stopping():
                    self.close()
                    raise Interrupted from None
            except KafkaException as error:
                sending.note(row, error.args[0])
                return
            else:
                return


class _Sending:
    """What became of one batch, as the acknowledgements come in."""

    def __init__(self) -> None:
        self.fatal = False
        self._acknowledged: set[int] = set()
        self._failed: str | None = None
        self._refused: str | None = None

    def listener(self, row: OutboxRow) -> Callable[[KafkaError | None, Message], None]:
        def acknowledged(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self._acknowledged.add(row.id)
            else:
                self.note(row, error)

        return acknowledged

    def note(self, row: OutboxRow, error: KafkaError) -> None:
        self.fatal = self.fatal or error.fatal()
        text = f"{row.record.topic} does not take outbox row {row.id} ({reason(error)})"
        if error.code() in _NEVER:
            self._refused = self._refused or (
                f"{text}, and never will; see townclock topics check, and the row in table outbox. Rows of its key wait"
            )
        else:
            self._failed = self._failed or text

    def result(self) -> Published:
        return Published(frozenset(self._acknowledged), self._failed, self._refused)
