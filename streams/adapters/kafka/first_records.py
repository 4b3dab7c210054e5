"""What a new installation's topics begin with: a cursor on each partition of `ticks`, and the wheel's tzdata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streams.adapters import codec
from streams.adapters.kafka.admin_calls import (
    commit_memberless,
    committed_offsets,
    end_offsets,
    start_offsets,
)
from streams.adapters.kafka.client import producer_config, reader_config
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.domain.tzdata import TzActivation, TzBundle
from streams.pipeline.names import Names

# Metadata sets it apart from an operator's reset, which has none. No minute was handled before the first: -1.
FIRST_CURSOR: Final = json.dumps(
    {"minute": -1, "generation": 0, "session": "00000000-0000-0000-0000-000000000000"}, separators=(",", ":")
)
_ACTOR: Final = "townclock topics create"
_SEND_TIMEOUT_S: Final = 30.0


def set_first_cursors(admin: AdminClient, names: Names, partition_count: int, *, just_created: bool) -> list[int]:
    """Give each partition of `ticks` that never had a tick its first cursor, at offset 0; returns those set.

    A partition with ticks is left alone: a cursor missing there was lost, and only a person knows where it stood.
    """
    partitions = range(partition_count)
    if just_created:
        missing = list(partitions)
    else:
        ends = end_offsets(admin, names.ticks, partitions, committed=False)
        known = committed_offsets(admin, names.processor_group, names.ticks, partitions)
        missing = [p for p in partitions if ends[p] == 0 and p not in known]
    commit_memberless(admin, names.processor_group, names.ticks, dict.fromkeys(missing, 0), FIRST_CURSOR)
    return missing


def publish_wheel_tzdata(admin: AdminClient, names: Names, bootstrap_servers: str) -> list[str]:
    """Put the installed wheel's bundle on `tzdata`, and activate it from minute 0 if nothing was ever activated.

    Returns the keys published. A bundle newer than the active one is published and stays inactive: from which minute
    it counts is a person's choice. Raises BrokenPromise if the topic has the same version with other zones.
    """
    bundle = wheel_bundle()
    found = {message.key(): message.value() for message in read_all(admin, names.tzdata, bootstrap_servers)}
    wanted: dict[str, TzBundle | TzActivation] = {}
    key = f"bundle:{bundle.version}"
    if key.encode() not in found:
        wanted[key] = TzBundle(bundle.version, bundle.sha256, codec.pack_zones(dict(bundle.zones)))
    else:
        present = codec.decode(found[key.encode()])
        if not isinstance(present, TzBundle) or present.sha256 != bundle.sha256:
            raise BrokenPromise(
                f"{names.tzdata} has another {key} than the installed tzdata wheel; install the release's own wheel"
            )
    if not any(name is not None and name.startswith(b"activation:") for name in found):
        wanted[f"activation:{bundle.version}:0"] = TzActivation(bundle.version, 0, _ACTOR)
    producer = Producer(producer_config(bootstrap_servers, "townclock-topics"))
    failed: list[str] = []

    def acknowledged(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(str(error.str()))

    # In this order: an activation never comes before its bundle.
    for name, value in wanted.items():
        producer.produce(names.tzdata, codec.encode(value), name.encode(), partition=0, on_delivery=acknowledged)
    if producer.flush(_SEND_TIMEOUT_S) or failed:
        raise ServiceUnreachable(
            f"{names.tzdata} did not take {', '.join(wanted)} ({'; '.join(failed) or 'no answer'}); run this again"
        )
    return list(wanted)


def read_all(admin: AdminClient, topic: str, bootstrap_servers: str, *, timeout_s: float = 30.0) -> Iterator[Message]:
    """Every committed record of partition 0 from its start to its end as of now.

    Raises ServiceUnreachable if nothing comes for `timeout_s`.
    """
    start = start_offsets(admin, topic, [0])[0]
    end = end_offsets(admin, topic, [0], committed=True)[0]
    consumer = Consumer(reader_config(bootstrap_servers, "townclock-topics", f"{topic}-unused"))
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        position = start
        while position < end:
            message = consumer.poll(timeout_s)
            if message is None:
                raise ServiceUnreachable(f"{topic} can't be read: no answer for {timeout_s:g} s; try again")
            error = message.error()
            if error is None:
                position = message.offset() + 1
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  librdkafka's own codes are spelled so
                position = message.offset()
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
