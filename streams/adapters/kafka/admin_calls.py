"""Admin calls that wait out a coordinator or a leader that is not ready yet, and raise this project's errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from streams.adapters.clock import SystemClock
from streams.adapters.kafka.client import reason
from streams.domain.errors import ServiceUnreachable, TownclockError

T = TypeVar("T")

REQUEST_TIMEOUT_S: Final = 5.0
_GIVE_UP_S: Final = 60.0
_PAUSE_S: Final = 0.2
_PASSING: Final = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TIMED_OUT,  # noqa: SLF001  librdkafka's own codes are spelled so
        KafkaError._WAIT_COORD,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)


def code_of(error: KafkaException) -> int:
    """The Kafka error code inside."""
    inner = error.args[0]
    return int(inner.code()) if isinstance(inner, KafkaError) else KafkaError.UNKNOWN


def patient(
    what: str, call: Callable[[], T], *, also_passing: Collection[int] = (), give_up_s: float = _GIVE_UP_S
) -> T:
    """The call's result, asked again while its error is one that passes.

    Raises ServiceUnreachable after `give_up_s`, naming `what`; any other KafkaException as it is.
    """
    clock = SystemClock()
    deadline_s = clock.boot_s() + give_up_s
    while True:
        try:
            return call()
        except KafkaException as error:
            if code_of(error) not in _PASSING and code_of(error) not in also_passing:
                raise
            if clock.boot_s() > deadline_s:
                raise ServiceUnreachable(
                    f"Kafka can't {what} ({reason(error)}); see that the broker is well and try again"
                ) from None
        time.sleep(_PAUSE_S)


def _offsets(
    admin: AdminClient,
    topic: str,
    partitions: Collection[int],
    spec: OffsetSpec,
    level: IsolationLevel,
    give_up_s: float,
) -> dict[int, int]:
    wanted = {TopicPartition(topic, partition): spec for partition in partitions}

    def ask() -> dict[int, int]:
        if not wanted:
            return {}
        futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)
        return {tp.partition: int(future.result().offset) for tp, future in futures.items()}

    return patient(f"tell the offsets of {topic}", ask, give_up_s=give_up_s)


def end_offsets(
    admin: AdminClient,
    topic: str,
    partitions: Collection[int],
    *,
    committed: bool,
    give_up_s: float = _GIVE_UP_S,
) -> dict[int, int]:
    """The end of each partition. `committed`: as a `read_committed` reader sees it; else the end of the log itself."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    return _offsets(admin, topic, partitions, OffsetSpec.latest(), level, give_up_s)


def start_offsets(
    admin: AdminClient, topic: str, partitions: Collection[int], *, give_up_s: float = _GIVE_UP_S
) -> dict[int, int]:
    """The first offset each partition still has, or its end if it is empty."""
    level = IsolationLevel.READ_UNCOMMITTED
    return _offsets(admin, topic, partitions, OffsetSpec.earliest(), level, give_up_s)


def committed_offsets(
    admin: AdminClient, group: str, topic: str, partitions: Collection[int]
) -> dict[int, tuple[int, str | None]]:
    """(offset, metadata) by partition; a partition without a committed offset is left out."""
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition) for partition in partitions])

    def ask() -> dict[int, tuple[int, str | None]]:
        result = admin.list_consumer_group_offsets([asked], request_timeout=REQUEST_TIMEOUT_S)[group].result()
        found: list[Any] = result.topic_partitions
        for item in found:
            if item.error is not None:
                raise KafkaException(item.error)
        return {item.partition: (item.offset, item.metadata) for item in found if item.offset >= 0}

    return patient(f"tell the offsets of group {group}", ask)


def commit_memberless(admin: AdminClient, group: str, topic: str, offsets: dict[int, int], metadata: str) -> None:
    """Commit for a group that has no members. Raises TownclockError, naming the partition, where one is refused."""
    items = [TopicPartition(topic, partition, offset, metadata) for partition, offset in sorted(offsets.items())]
    asked = ConsumerGroupTopicPartitions(group, items)

    def ask() -> None:
        result = admin.alter_consumer_group_offsets([asked], request_timeout=REQUEST_TIMEOUT_S)[group].result()
        for item in result.topic_partitions:
            if item.error is None:
                continue
            # A live group answers so, in the item alone, while the call itself succeeds.
            if item.error.code() == KafkaError.UNKNOWN_MEMBER_ID:
                raise TownclockError(
                    f"group {group} has members, so {topic}[{item.partition}] can't be set; stop them first"
                )
            raise KafkaException(item.error)

    if items:
        # A topic made a moment ago may not have reached the coordinator.
        patient(f"set the offsets of group {group}", ask, also_passing=(KafkaError.UNKNOWN_TOPIC_OR_PART,))
