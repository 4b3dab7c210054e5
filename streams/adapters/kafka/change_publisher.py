"""Publishes schedule changes, keyed by schedule id, each acknowledged before it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.adapters import codec
from streams.adapters.kafka.client import admin as admin_client
from streams.adapters.kafka.client import producer_config, reason, require_broker
from streams.adapters.kafka.topics import partition_count
from streams.domain.change import Change
from streams.domain.errors import ServiceUnreachable
from streams.pipeline.names import Names

_TIMEOUT_MS = 30_000
_POLL_S = 0.1


def publish_changes(
    bootstrap_servers: str, names: Names, changes: Iterable[Change], told: Callable[[int], None]
) -> int:
    """Publish all, in order; returns how many. `told` gets the number acknowledged since it was last called.

    Raises BrokenPromise if there is no such topic, and ServiceUnreachable if one was not acknowledged: those before it
    may have been.
    """
    require_broker(bootstrap_servers)
    partition_count(admin_client(bootstrap_servers), names.schedule_changes)
    more = {"message.timeout.ms": _TIMEOUT_MS, "linger.ms": 5}
    producer = Producer(producer_config(bootstrap_servers, "townclock-schedules", **more))
    acknowledged, failed = [0], list[str]()

    def note(error: KafkaError | None, _: Message) -> None:
        if error is None:
            acknowledged[0] += 1
            told(1)
        else:
            failed.append(reason(error))

    count = 0
    for change in changes:
        _produce(producer, names.schedule_changes, change, note)
        count += 1
        if failed:
            break
    while len(producer):
        producer.poll(_POLL_S)
    if failed:
        raise ServiceUnreachable(
            f"{names.schedule_changes} took {acknowledged[0]} changes, then: {failed[0]}. Run this again: what is so "
            "already changes nothing"
        )
    return count


def _produce(
    producer: Producer, topic: str, change: Change, note: Callable[[KafkaError | None, Message], None]
) -> None:
    value, key = codec.encode(change), change.schedule_id.encode()
    while True:
        try:
            producer.produce(topic, value, key, on_delivery=note)
        except BufferError:
            producer.poll(_POLL_S)
        except KafkaException as error:
            raise ServiceUnreachable(f"{topic} does not take {change.schedule_id}: {reason(error)}") from None
        else:
            producer.poll(0)
            return
