"""librdkafka configurations that the promises need, each in one place. Writers are idempotent; placement is murmur2."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from streams.domain.errors import ServiceUnreachable

Config = dict[str, Any]


def producer_config(bootstrap_servers: str, client_id: str, **more: Any) -> Config:
    """An idempotent producer, murmur2 placement, no lingering: order per partition is kept through every retry."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": client_id,
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
        "compression.type": "lz4",
        "linger.ms": 0,
        **_quiet(),
        **more,
    }


def reader_config(bootstrap_servers: str, client_id: str, group: str, **more: Any) -> Config:
    """A consumer that is assigned by hand and commits by hand; `read_committed`, ends of partitions reported."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "client.id": client_id,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 100,
        "fetch.queue.backoff.ms": 20,
        "queued.max.messages.kbytes": 16384,
        **_quiet(),
        **more,
    }


def member_config(bootstrap_servers: str, client_id: str, group: str, protocol: str, **more: Any) -> Config:
    """A consumer that is a member of a group; offsets are stored by hand after the work is durable."""
    config = {
        **reader_config(bootstrap_servers, client_id, group),
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": False,
    }
    if protocol == "classic":
        config["session.timeout.ms"] = 10_000
        config["partition.assignment.strategy"] = "cooperative-sticky"
    return {**config, **more}


def _quiet() -> Config:
    # Connection losses are retried for ever inside librdkafka; what matters reaches us as errors of calls.
    return {"log.connection.close": False, "log_level": 2, "reconnect.backoff.max.ms": 1000}


def admin(bootstrap_servers: str) -> AdminClient:
    """An admin client. Creating it does not connect."""
    return AdminClient({"bootstrap.servers": bootstrap_servers, **_quiet()})


def require_broker(bootstrap_servers: str, timeout_s: float = 10.0) -> None:
    """Raises ServiceUnreachable unless a broker answers within `timeout_s`."""
    try:
        admin(bootstrap_servers).list_topics(timeout=timeout_s)
    except KafkaException as error:
        raise ServiceUnreachable(
            f"no Kafka broker answers at {bootstrap_servers} ({reason(error)}); "
            "start one, or set kafka.bootstrap_servers in townclock.toml"
        ) from None


def reason(error: KafkaException | KafkaError) -> str:
    """One line for people."""
    inner = error.args[0] if isinstance(error, KafkaException) else error
    return inner.str() if isinstance(inner, KafkaError) else str(inner)
