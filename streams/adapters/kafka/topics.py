"""Topics: created as contracts.md has them, compared with it, and refused by every process where they break it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from streams.adapters.kafka.admin_calls import (
    REQUEST_TIMEOUT_S,
    code_of,
    committed_offsets,
    end_offsets,
    patient,
    start_offsets,
)
from streams.adapters.kafka.client import admin as admin_client
from streams.adapters.kafka.client import require_broker
from streams.adapters.kafka.first_records import FIRST_CURSOR, publish_wheel_tzdata, set_first_cursors
from streams.adapters.kafka.topic_specs import (
    DEFAULT_PARTITIONS,
    HORIZON_MS,
    LARGEST,
    TICKS_SEGMENT_MS,
    TopicSpec,
    amount,
    in_sync_replicas,
    topic_specs,
)
from streams.domain.errors import BrokenPromise, InvalidInput
from streams.pipeline.names import Names

__all__ = [
    "FIRST_CURSOR",
    "Created",
    "Difference",
    "check",
    "committed_offsets",
    "create",
    "end_offsets",
    "partition_count",
    "require",
    "start_offsets",
    "topic_id",
]


# A process that asks this at its start must still end within seconds when it is told to.
_ANSWER_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Difference:
    """One promise that a topic breaks."""

    topic: str
    setting: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting}: {self.found}; wanted: {self.wanted}"


@dataclass(frozen=True, slots=True)
class Created:
    """What `create` made: topics, partitions of `ticks` that got their first cursor, keys published on `tzdata`."""

    topics: tuple[str, ...]
    cursors: tuple[int, ...]
    tzdata_keys: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class _Found:
    partitions: int
    replication: int
    settings: dict[str, str | None]


def create(
    names: Names,
    regions: Collection[str],
    bootstrap_servers: str,
    *,
    partitions: int | None = None,
    replication: int | None = None,
) -> Created:
    """Make the topics that are missing, set first cursors, publish the wheel's tzdata. What is there is left as it is.

    `partitions` none: as many as `schedules` has, else 24. `replication` none: 3, or the number of brokers if fewer.
    Raises InvalidInput, ServiceUnreachable, or BrokenPromise if after it a topic still breaks a promise.
    """
    require_broker(bootstrap_servers)
    admin = admin_client(bootstrap_servers)
    found = _describe(admin, [spec.topic for spec in topic_specs(names, regions, HORIZON_MS, TICKS_SEGMENT_MS)])
    count = _partitions_to_make(names, found, partitions)
    copies = replication if replication is not None else min(3, len(admin.list_topics(timeout=10).brokers))
    made = []
    for spec in topic_specs(names, regions, *_ticks_times(names, found)):
        if spec.topic not in found and _make(admin, spec, count, copies):
            made.append(spec.topic)
    _await_leaders(admin, made)
    cursors = set_first_cursors(admin, names, count, just_created=names.ticks in made)
    keys = publish_wheel_tzdata(admin, names, bootstrap_servers)
    require(names, regions, bootstrap_servers)
    return Created(tuple(made), tuple(cursors), tuple(keys), count)


def check(names: Names, regions: Collection[str], bootstrap_servers: str) -> list[Difference]:
    """Every setting of every topic that differs from what is promised; empty if none does."""
    require_broker(bootstrap_servers, _ANSWER_S)
    admin = admin_client(bootstrap_servers)
    wanted = [spec.topic for spec in topic_specs(names, regions, HORIZON_MS, TICKS_SEGMENT_MS)]
    found = _describe(admin, wanted)
    schedules = found.get(names.schedules)
    differences = []
    for spec in topic_specs(names, regions, *_ticks_times(names, found)):
        topic = found.get(spec.topic)
        if topic is None:
            differences.append(Difference(spec.topic, "topic", "there is none", "townclock topics create makes it"))
        else:
            differences += _compare(spec, topic, None if schedules is None else schedules.partitions)
    return sorted(differences, key=lambda item: wanted.index(item.topic))


def require(names: Names, regions: Collection[str], bootstrap_servers: str) -> None:
    """Raises BrokenPromise listing every setting that differs: what every process asks before it starts."""
    differences = check(names, regions, bootstrap_servers)
    if differences:
        lines = "\n".join(f"  {difference}" for difference in differences)
        raise BrokenPromise(
            f"{len(differences)} topic settings break what the pipeline promises; nothing was started:\n{lines}\n"
            "make missing topics with: townclock topics create; change settings with Kafka's own tools"
        )


def topic_id(admin: AdminClient, topic: str, *, give_up_s: float = 60.0) -> str:
    """The id that tells a topic from another of the same name made after it was deleted, as Kafka's tools show it.

    Raises BrokenPromise if there is no such topic.
    """
    # librdkafka writes the id in the other alphabet of base64 than Kafka's tools do.
    return str(_description(admin, topic, give_up_s).topic_id).replace("+", "-").replace("/", "_")


def partition_count(admin: AdminClient, topic: str) -> int:
    """How many partitions the topic has. Raises BrokenPromise if there is no such topic."""
    return len(_description(admin, topic, 60.0).partitions)


def _description(admin: AdminClient, topic: str, give_up_s: float) -> Any:
    def ask() -> Any:
        return admin.describe_topics(TopicCollection([topic]), request_timeout=REQUEST_TIMEOUT_S)[topic].result()

    try:
        return patient(f"describe {topic}", ask, give_up_s=give_up_s)
    except KafkaException as error:
        if code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise BrokenPromise(f"there is no topic {topic}; make it with: townclock topics create") from None
        raise


def _describe(admin: AdminClient, topics: list[str]) -> dict[str, _Found]:
    """What there is of these topics; one that does not exist is left out."""
    there = {name for name in patient("list topics", lambda: admin.list_topics(timeout=10)).topics if name in topics}
    if not there:
        return {}
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(there)]

    def configs() -> dict[str, dict[str, str | None]]:
        futures = admin.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
        return {resource.name: {k: e.value for k, e in f.result().items()} for resource, f in futures.items()}

    def descriptions() -> dict[str, Any]:
        collection = TopicCollection(sorted(there))
        futures = admin.describe_topics(collection, request_timeout=REQUEST_TIMEOUT_S)
        return {name: future.result() for name, future in futures.items()}

    settings = patient("tell the settings of topics", configs)
    described = patient("describe topics", descriptions)
    return {
        name: _Found(len(topic.partitions), len(topic.partitions[0].replicas), settings[name])
        for name, topic in described.items()
    }


def _ticks_times(names: Names, found: dict[str, _Found]) -> tuple[int, int]:
    """How long `ticks` are kept and how long a segment of it may be open: as they are, else as they will be made."""
    ticks = found.get(names.ticks)
    if ticks is None:
        return HORIZON_MS, TICKS_SEGMENT_MS
    retention, segment = ticks.settings.get("retention.ms"), ticks.settings.get("segment.ms")
    return (
        HORIZON_MS if retention is None else amount(retention),
        TICKS_SEGMENT_MS if segment is None else amount(segment),
    )


def _partitions_to_make(names: Names, found: dict[str, _Found], asked: int | None) -> int:
    there = next((found[name].partitions for name in (names.schedules, names.ticks) if name in found), None)
    if there is not None and asked not in (None, there):
        raise InvalidInput(
            f"--partitions {asked}: {names.schedules} already has {there}, and topics that are joined have the same "
            "number; leave it out, or use another topic_prefix"
        )
    count = there or asked or DEFAULT_PARTITIONS
    if not 0 < count <= LARGEST >> 32:
        raise InvalidInput(f"--partitions {count}: write a number from 1")
    return count


def _make(admin: AdminClient, spec: TopicSpec, partitions: int, replication: int) -> bool:
    """Whether this call made it; False if somebody else just did."""
    settings = {setting: wanted.value for setting, wanted in spec.settings.items()}
    settings["min.insync.replicas"] = str(in_sync_replicas(replication))
    topic = NewTopic(spec.topic, spec.partitions or partitions, replication, config=settings)
    try:
        patient(
            f"create {spec.topic}",
            lambda: admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[spec.topic].result(),
        )
    except KafkaException as error:
        if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
            return False
        if code_of(error) == KafkaError.INVALID_REPLICATION_FACTOR:
            raise InvalidInput(
                f"--replication {replication}: there are not that many brokers; leave it out, or start more"
            ) from None
        raise
    return True


def _await_leaders(admin: AdminClient, topics: Collection[str]) -> None:
    """Wait until every partition of these has a leader that clients can find."""

    def ask() -> None:
        known = admin.list_topics(timeout=10).topics
        for name in topics:
            if name not in known or any(partition.leader < 0 for partition in known[name].partitions.values()):
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))

    patient(f"find leaders for {', '.join(topics)}", ask)


def _compare(spec: TopicSpec, topic: _Found, schedules_partitions: int | None) -> list[Difference]:
    differences = []
    count = schedules_partitions if spec.like_schedules else spec.partitions
    if count is not None and topic.partitions != count:
        why = "as schedules has" if spec.like_schedules else "always"
        differences.append(Difference(spec.topic, "partitions", str(topic.partitions), f"{count}, {why}"))
    for setting, wanted in spec.settings.items():
        value = topic.settings.get(setting)
        if not wanted.allows(value):
            differences.append(Difference(spec.topic, setting, "not set" if value is None else value, str(wanted)))
    least = in_sync_replicas(topic.replication)
    in_sync = topic.settings.get("min.insync.replicas")
    if in_sync is not None and int(in_sync) < least:
        differences.append(Difference(spec.topic, "min.insync.replicas", in_sync, f"at least {least}"))
    return differences
