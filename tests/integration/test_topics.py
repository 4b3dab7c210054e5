"""Topics on a real broker: made as the contract's table says, and every departure from it named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

from streams.adapters import codec
from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.kafka import topics
from streams.adapters.kafka.admin_calls import commit_memberless
from streams.adapters.kafka.client import admin as admin_client
from streams.adapters.kafka.first_records import read_all
from streams.adapters.kafka.topics import Difference
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.errors import BrokenPromise, InvalidInput, ServiceUnreachable
from streams.domain.tzdata import TzActivation, TzBundle
from streams.entrypoints.cli import main
from streams.pipeline.names import Names
from tests.services import unique_name

DAY_MS = 86_400_000
REGIONS = frozenset({"eu", "us"})
# The table of contracts.md, written out by hand: (cleanup, LogAppendTime, retention, compaction lag, partitions).
PROMISED = {
    "schedule-changes": ("delete", True, 30 * DAY_MS, None, 3),
    "schedule-changes.rejected": ("delete", False, 30 * DAY_MS, None, 3),
    "schedules": ("compact", True, None, 31 * DAY_MS, 3),
    "tzdata": ("compact", True, None, None, 1),
    "ticks": ("delete", True, 30 * DAY_MS, None, 3),
    "occurrences.eu": ("delete", False, 30 * DAY_MS, None, 3),
    "occurrences.us": ("delete", False, 30 * DAY_MS, None, 3),
    "deliveries": ("delete", False, 30 * DAY_MS, None, 3),
    "digests": ("delete", False, 30 * DAY_MS, None, 3),
}


@pytest.fixture
def names(topic_prefix: str) -> Names:
    return Names(topic_prefix)


@pytest.fixture
def admin(broker: EmbeddedBroker) -> AdminClient:
    return admin_client(broker.bootstrap_servers)


def create(broker: EmbeddedBroker, names: Names, partitions: int | None = 3) -> topics.Created:
    return topics.create(names, REGIONS, broker.bootstrap_servers, partitions=partitions)


def settings_of(admin: AdminClient, topic: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    found = admin.describe_configs([resource])[resource].result(20)
    return {name: entry.value for name, entry in found.items()}


def alter(admin: AdminClient, topic: str, settings: Mapping[str, str]) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(20)


def test_topics_are_made_as_promised(broker: EmbeddedBroker, names: Names, admin: AdminClient) -> None:
    made = create(broker, names)
    assert set(made.topics) == {f"{names.prefix}{topic}" for topic in PROMISED}
    known = admin.list_topics(timeout=20).topics
    for topic, (cleanup, append_time, retention_ms, lag_ms, partitions) in PROMISED.items():
        found = settings_of(admin, f"{names.prefix}{topic}")
        assert found["cleanup.policy"] == cleanup, topic
        assert found["unclean.leader.election.enable"] == "false", topic
        assert len(known[f"{names.prefix}{topic}"].partitions) == partitions, topic
        if append_time:
            assert found["message.timestamp.type"] == "LogAppendTime", topic
        if retention_ms:
            assert int(found["retention.ms"]) >= retention_ms, topic
            assert found["retention.bytes"] == "-1", topic
        if lag_ms:
            assert int(found["min.compaction.lag.ms"]) >= lag_ms, topic
    assert int(settings_of(admin, names.ticks)["segment.ms"]) == DAY_MS
    assert topics.check(names, REGIONS, broker.bootstrap_servers) == []


def test_creating_again_makes_nothing(broker: EmbeddedBroker, names: Names) -> None:
    first = create(broker, names)
    assert first.cursors == (0, 1, 2)
    assert first.tzdata_keys == ("bundle:2026f", "activation:2026f:0")
    assert create(broker, names, None) == topics.Created((), (), (), 3)
    more = topics.create(names, {*REGIONS, "ap"}, broker.bootstrap_servers)
    assert more == topics.Created((names.occurrences("ap"),), (), (), 3)


def test_cursors_begin_at_the_first_tick_and_are_no_reset(
    broker: EmbeddedBroker, names: Names, admin: AdminClient
) -> None:
    create(broker, names)
    cursors = topics.committed_offsets(admin, names.processor_group, names.ticks, range(3))
    assert {offset for offset, _ in cursors.values()} == {0}
    assert len(cursors) == 3
    for _, metadata in cursors.values():
        found = json.loads(metadata or "")
        assert (found["minute"], found["generation"]) == (-1, 0)
        assert isinstance(found["session"], str)


def test_a_cursor_that_has_moved_stays_and_one_that_was_lost_is_not_made_up(
    broker: EmbeddedBroker, names: Names, admin: AdminClient
) -> None:
    create(broker, names)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    producer.produce(names.ticks, b"tick", partition=1)
    assert producer.flush(20) == 0
    commit_memberless(admin, names.processor_group, names.ticks, {1: 1}, '{"minute": 7}')
    assert create(broker, names, None).cursors == ()
    assert topics.committed_offsets(admin, names.processor_group, names.ticks, [1]) == {1: (1, '{"minute": 7}')}

    admin.delete_consumer_groups([names.processor_group])[names.processor_group].result(20)
    # Partitions that never had a tick get their first cursor again; the one that had needs a person.
    assert create(broker, names, None).cursors == (0, 2)
    assert set(topics.committed_offsets(admin, names.processor_group, names.ticks, range(3))) == {0, 2}


def test_tzdata_holds_the_wheels_bundle(broker: EmbeddedBroker, names: Names, admin: AdminClient) -> None:
    create(broker, names)
    found = {
        message.key(): codec.decode(message.value())
        for message in read_all(admin, names.tzdata, broker.bootstrap_servers)
    }
    bundle, activation = found[b"bundle:2026f"], found[b"activation:2026f:0"]
    assert isinstance(bundle, TzBundle)
    assert bundle.sha256 == wheel_bundle().sha256
    assert codec.unpack_zones(bundle.block) == dict(wheel_bundle().zones)
    assert isinstance(activation, TzActivation)
    assert (activation.version, activation.since) == ("2026f", 0)


def test_a_newer_bundle_is_published_and_not_activated(
    broker: EmbeddedBroker, names: Names, admin: AdminClient
) -> None:
    settings = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(names.tzdata, 1, 1, config=settings)])[names.tzdata].result(20)
    publish_tz(broker, names, {"activation:2020a:0": TzActivation("2020a", 0, "test")})
    assert create(broker, names).tzdata_keys == ("bundle:2026f",)


def test_another_bundle_of_the_same_name_is_refused(broker: EmbeddedBroker, names: Names, admin: AdminClient) -> None:
    settings = {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(names.tzdata, 1, 1, config=settings)])[names.tzdata].result(20)
    publish_tz(broker, names, {"bundle:2026f": TzBundle("2026f", "00" * 32, codec.pack_zones({}))})
    with pytest.raises(BrokenPromise, match="another bundle:2026f than the installed tzdata wheel"):
        create(broker, names)


def publish_tz(broker: EmbeddedBroker, names: Names, values: Mapping[str, TzActivation | TzBundle]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for key, value in values.items():
        producer.produce(names.tzdata, codec.encode(value), key.encode())
    assert producer.flush(20) == 0


BREAKS: list[tuple[str, str, str, str]] = [
    ("schedule-changes", "cleanup.policy", "compact", "delete"),
    ("schedule-changes", "message.timestamp.type", "CreateTime", "LogAppendTime"),
    ("schedule-changes", "retention.ms", "3600000", "at least 2592000000"),
    ("schedule-changes.rejected", "max.message.bytes", "1000000", "at least 4194304"),
    ("schedules", "cleanup.policy", "delete,compact", "compact"),
    ("schedules", "message.timestamp.type", "CreateTime", "LogAppendTime"),
    ("schedules", "min.compaction.lag.ms", "0", "at least 2678400000"),
    ("schedules", "unclean.leader.election.enable", "true", "false"),
    ("tzdata", "cleanup.policy", "delete", "compact"),
    ("ticks", "segment.ms", "604800000", "86400000"),
    ("occurrences.eu", "retention.ms", "2591999999", "at least 2592000000"),
    ("occurrences.us", "retention.bytes", "1000000", "-1"),
    ("deliveries", "retention.ms", "86400000", "at least 2592000000"),
    ("digests", "cleanup.policy", "compact", "delete"),
]


@pytest.mark.parametrize(("topic", "setting", "value", "wanted"), BREAKS)
def test_one_wrong_setting_is_named_alone(
    broker: EmbeddedBroker, shared_names: Names, admin: AdminClient, topic: str, setting: str, value: str, wanted: str
) -> None:
    full = f"{shared_names.prefix}{topic}"
    before = settings_of(admin, full)[setting]
    alter(admin, full, {setting: value})
    try:
        differences = topics.check(shared_names, REGIONS, broker.bootstrap_servers)
    finally:
        alter(admin, full, {setting: before})
    expected = [Difference(full, setting, value, wanted)]
    if (topic, setting) == ("ticks", "segment.ms"):
        # What `schedules` must keep follows from how long a segment of `ticks` may stay open.
        lag = f"at least {30 * DAY_MS + 604_800_000}"
        expected = [Difference(shared_names.schedules, "min.compaction.lag.ms", str(31 * DAY_MS), lag)]
    assert differences == expected


@pytest.fixture(scope="module")
def shared_names(broker: EmbeddedBroker) -> Names:
    names = Names(f"{unique_name('t')}-")
    create(broker, names)
    return names


def test_a_longer_horizon_asks_more_of_the_others(broker: EmbeddedBroker, names: Names, admin: AdminClient) -> None:
    create(broker, names)
    alter(admin, names.ticks, {"retention.ms": str(60 * DAY_MS)})
    found = topics.check(names, REGIONS, broker.bootstrap_servers)
    assert found == [
        Difference(names.schedules, "min.compaction.lag.ms", str(31 * DAY_MS), f"at least {61 * DAY_MS}"),
        Difference(names.occurrences("eu"), "retention.ms", str(30 * DAY_MS), f"at least {60 * DAY_MS}"),
        Difference(names.occurrences("us"), "retention.ms", str(30 * DAY_MS), f"at least {60 * DAY_MS}"),
    ]
    for region in REGIONS:
        alter(admin, names.occurrences(region), {"retention.ms": "-1"})
    alter(admin, names.schedules, {"min.compaction.lag.ms": str(90 * DAY_MS)})
    assert topics.check(names, REGIONS, broker.bootstrap_servers) == []


def test_partition_counts_of_joined_topics_must_be_equal(
    broker: EmbeddedBroker, names: Names, admin: AdminClient
) -> None:
    create(broker, names)
    grown = [names.occurrences("us"), names.tzdata, names.deliveries]
    counts = {names.occurrences("us"): 4, names.tzdata: 2, names.deliveries: 5}
    for future in admin.create_partitions([NewPartitions(topic, counts[topic]) for topic in grown]).values():
        future.result(20)
    with pytest.raises(BrokenPromise) as caught:
        topics.require(names, REGIONS, broker.bootstrap_servers)
    lines = str(caught.value).splitlines()[1:-1]
    assert lines == [
        f"  {names.tzdata}: partitions: 2; wanted: 1, always",
        f"  {names.occurrences('us')}: partitions: 4; wanted: 3, as schedules has",
    ]


def test_every_missing_topic_is_named(broker: EmbeddedBroker, names: Names) -> None:
    with pytest.raises(BrokenPromise) as caught:
        topics.require(names, REGIONS, broker.bootstrap_servers)
    for topic in PROMISED:
        assert f"{names.prefix}{topic}: topic: there is none; wanted: townclock topics create makes it" in str(
            caught.value
        )


def test_what_cannot_be_made_is_refused_with_a_reason(broker: EmbeddedBroker, names: Names) -> None:
    with pytest.raises(InvalidInput, match="there are not that many brokers"):
        topics.create(names, REGIONS, broker.bootstrap_servers, partitions=2, replication=3)
    create(broker, names, 2)
    with pytest.raises(InvalidInput, match=f"{names.schedules} already has 2"):
        create(broker, names, 3)


def test_no_broker(broker: EmbeddedBroker) -> None:
    with pytest.raises(ServiceUnreachable, match=r"no Kafka broker answers at 127\.0\.0\.1:9"):
        topics.require(Names(), REGIONS, "127.0.0.1:9")


def test_helpers(broker: EmbeddedBroker, shared_names: Names, admin: AdminClient) -> None:
    assert topics.partition_count(admin, shared_names.schedules) == 3
    told = broker.run_tool("org.apache.kafka.tools.TopicCommand", "--describe", "--topic", shared_names.schedules)
    assert f"TopicId: {topics.topic_id(admin, shared_names.schedules)}" in told.stdout
    assert topics.end_offsets(admin, shared_names.tzdata, [0], committed=True) == {0: 2}
    assert topics.start_offsets(admin, shared_names.tzdata, [0]) == {0: 0}
    with pytest.raises(BrokenPromise, match="there is no topic nowhere"):
        topics.topic_id(admin, "nowhere")


def test_the_command_line(
    broker: EmbeddedBroker,
    names: Names,
    admin: AdminClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "townclock.toml").write_text("[regions.eu]\n[regions.us]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOWNCLOCK_KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    monkeypatch.setenv("TOWNCLOCK_KAFKA_TOPIC_PREFIX", names.prefix)
    with pytest.raises(SystemExit) as stop:
        main(["topics", "check", "--json"])
    assert stop.value.code == 1
    assert len(json.loads(capsys.readouterr().out)) == len(PROMISED)

    main(["topics", "create", "--partitions", "2", "--json"])
    assert len(json.loads(capsys.readouterr().out)["topics"]) == len(PROMISED)
    main(["topics", "create"])
    assert capsys.readouterr().out == "nothing to do: every topic is there and as promised\n"
    main(["topics", "check"])
    assert capsys.readouterr().out == "every topic is as promised\n"

    alter(admin, names.ticks, {"retention.ms": "1000"})
    with pytest.raises(SystemExit) as stop:
        main(["topics", "check"])
    assert stop.value.code == 1
    assert capsys.readouterr().out == f"{names.ticks}: retention.ms: 1000; wanted: at least 2592000000\n"
    with pytest.raises(SystemExit) as stop:
        main(["topics", "create", "--partitions", "5"])
    assert stop.value.code == 2
    (tmp_path / "townclock.toml").write_text("")
    with pytest.raises(SystemExit) as stop:
        main(["topics", "check"])
    assert stop.value.code == 2
    assert "add a table such as [regions.eu]" in capsys.readouterr().err
