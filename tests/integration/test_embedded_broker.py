"""A broker of one's own: what was acknowledged survives a kill, and a start that can't work says why, at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from streams.adapters.embedded.broker import CONSUMER_GROUP_COMMAND, GET_OFFSET_SHELL, TOPIC_COMMAND, EmbeddedBroker
from streams.adapters.embedded.errors import EmbeddedError, FolderInUse, PortTaken
from tests.services import wait_for


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path / "a föl der")
    yield broker
    broker.stop()


def make_topic(broker: EmbeddedBroker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def produce(broker: EmbeddedBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    failures: list[object] = []
    for number in range(count):
        producer.produce(topic, str(number), on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failures


def consume(broker: EmbeddedBroker, topic: str, count: int) -> list[str]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        values: list[str] = []

        def read() -> bool:
            for message in consumer.consume(count, 1.0):
                if message.error() is None:
                    values.append(message.value().decode())
            return len(values) >= count

        wait_for(read, 60, lambda: f"{len(values)} of {count} messages")
        return values
    finally:
        consumer.close()


def topics_seen_by(client: AdminClient) -> set[str]:
    try:
        return {name for name in client.list_topics(timeout=2).topics if not name.startswith("__")}
    except KafkaException:
        return set()


def test_acknowledged_messages_survive_kills_and_stops(own_broker: EmbeddedBroker) -> None:
    own_broker.start()
    where, cluster_id, pid = own_broker.bootstrap_servers, own_broker.cluster_id, own_broker.pid
    make_topic(own_broker, "kept")
    produce(own_broker, "kept", 1000)
    client = AdminClient({"bootstrap.servers": where, "log_level": 0})
    assert topics_seen_by(client) == {"kept"}
    own_broker.kill()
    assert own_broker.pid is None
    assert pid is not None
    assert not psutil.pid_exists(pid)
    own_broker.start()
    assert (own_broker.bootstrap_servers, own_broker.cluster_id) == (where, cluster_id)
    wait_for(lambda: topics_seen_by(client) == {"kept"}, 30, "a client from before the kill finds the broker again")
    assert consume(own_broker, "kept", 1000) == [str(number) for number in range(1000)]
    own_broker.stop()
    other = EmbeddedBroker(own_broker.data_dir)
    with other:
        assert (other.bootstrap_servers, other.cluster_id) == (where, cluster_id)
        assert consume(other, "kept", 1000) == [str(number) for number in range(1000)]


def test_the_tools(broker: EmbeddedBroker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}tools"
    broker.run_tool(TOPIC_COMMAND, "--create", "--topic", topic, "--partitions", "2")
    assert topic in broker.run_tool(TOPIC_COMMAND, "--list").stdout.split()
    produce(broker, topic, 3)
    offsets = dict(
        line.rsplit(":", 1) for line in broker.run_tool(GET_OFFSET_SHELL, "--topic", topic).stdout.splitlines()
    )
    assert sum(int(offset) for offset in offsets.values()) == 3
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{topic_prefix}group"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    consumer.close()
    described = broker.run_tool(CONSUMER_GROUP_COMMAND, "--describe", "--group", f"{topic_prefix}group").stdout
    assert topic in described
    with pytest.raises(EmbeddedError, match="TopicCommand failed"):
        broker.run_tool(TOPIC_COMMAND, "--describe", "--topic", f"{topic_prefix}absent")


def test_topics_are_not_made_by_asking_for_them(broker: EmbeddedBroker, topic_prefix: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.timeout.ms": 1000})
    errors: list[KafkaError | None] = []
    producer.produce(f"{topic_prefix}absent", b"x", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(30) == 0
    assert errors[0] is not None
    assert (
        f"{topic_prefix}absent"
        not in AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics
    )


def test_a_second_start_on_the_same_folder_is_refused(broker: EmbeddedBroker) -> None:
    with pytest.raises(FolderInUse, match=f"process {os.getpid()} runs Apache Kafka"):
        EmbeddedBroker(broker.data_dir).start()
    script = (
        "import sys; from streams.adapters.embedded.broker import EmbeddedBroker; EmbeddedBroker(sys.argv[1]).start()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(broker.data_dir)], capture_output=True, text=True, check=False
    )
    assert f"FolderInUse: {broker.data_dir} is in use: process {os.getpid()}" in done.stderr
    assert broker.is_running


def test_a_taken_port_is_told_at_once(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for ports in ({"port": port}, {"controller_port": port}):
            refused = EmbeddedBroker(tmp_path / "kafka", **ports)
            started = time.monotonic()
            with pytest.raises(PortTaken, match=f"port {port}, asked for Apache Kafka"):
                refused.start()
            assert time.monotonic() - started < 12  # the first formats its folder; Kafka itself would need 14 s
            assert not refused.is_running


def test_it_does_not_take_a_strangers_answer_for_its_own(broker: EmbeddedBroker, tmp_path: Path) -> None:
    class Elsewhere(EmbeddedBroker):
        @property
        def bootstrap_servers(self) -> str:
            return broker.bootstrap_servers

    with pytest.raises(EmbeddedError, match=f"another broker \\(cluster {broker.cluster_id}\\) answers"):
        Elsewhere(tmp_path / "kafka").start()
    assert not any("kafka.Kafka" in child.cmdline() and str(tmp_path) in " ".join(child.cmdline()) for child in kin())


def kin() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


def test_hostile_environment_and_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.setenv(name, "-XX:NoSuchOption")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "C")
    with EmbeddedBroker(tmp_path / "kafka", settings={"message.max.bytes": "4321"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        resource = ConfigResource("BROKER", "1")
        found = admin.describe_configs([resource])[resource].result(30)
        assert found["message.max.bytes"].value == "4321"
        assert found["auto.create.topics.enable"].value == "false"


def test_nothing_is_left_after_a_stop_or_a_failed_start(own_broker: EmbeddedBroker) -> None:
    before = {child.pid for child in kin()}
    own_broker.start()
    started = {child.pid for child in kin()} - before
    assert own_broker.pid in started
    own_broker.stop()
    assert not any(psutil.pid_exists(pid) for pid in started)
    assert not own_broker.is_running
    own_broker.stop()  # twice is no error
    broken = EmbeddedBroker(own_broker.data_dir, settings={"node.id": "2"})
    with pytest.raises(EmbeddedError, match="Apache Kafka ended while starting") as caught:
        broken.start()
    assert "the node id 2 must be included in the set of voters" in str(caught.value)  # from its log
    assert str(broken.log_path) in str(caught.value)
    assert {child.pid for child in kin()} <= before


def test_it_ends_when_its_owner_is_killed_and_starts_again(tmp_path: Path) -> None:
    script = (
        "import sys; from streams.adapters.embedded.broker import EmbeddedBroker\n"
        "broker = EmbeddedBroker(sys.argv[1]).start(); print(broker.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "kafka")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert psutil.pid_exists(pid)
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    with EmbeddedBroker(tmp_path / "kafka") as next_one:  # waits for the orphan to end
        assert not psutil.pid_exists(pid) or pid == next_one.pid
        assert next_one.is_running
