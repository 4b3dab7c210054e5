"""Changes through a real broker and database to plans on `schedules`: once, in order, whoever is killed meanwhile."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streams.adapters import codec
from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.kafka.change_publisher import publish_changes
from streams.adapters.kafka.change_reader import _begin_at
from streams.adapters.kafka.outbox_publisher import KafkaOutboxPublisher
from streams.adapters.postgres.base import connect
from streams.adapters.postgres.outbox import PostgresOutbox, insert_outbox
from streams.adapters.postgres.registry import PostgresRegistry, RegistryConflict
from streams.domain.change import Change, ChangeKind
from streams.domain.errors import BrokenPromise
from streams.domain.placement import partition_of
from streams.domain.plan import Plan
from streams.domain.registry import Rejection
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.names import Names
from streams.pipeline.outbox import OutboxRecord
from streams.pipeline.relay import relay_once
from tests.installation import SETTINGS, Installation
from tests.registry_support import change, document, registrar, source
from tests.services import unique_name, wait_for

OPEN_PLANS = "SELECT count(*) FROM schedule WHERE landed_sequence < sequence"


def put(schedule_id: str, version: int = 0) -> Change:
    raw = document(schedule_id, account=f"v{version}")
    return change(schedule_id=schedule_id, raw=raw, change_id=f"{schedule_id}-{version}")


def publish(installation: Installation, changes: list[Change]) -> None:
    publish_changes(installation.bootstrap_servers, installation.names, changes, lambda _: None)


def plans(installation: Installation) -> list[Plan]:
    """Every record of `schedules`, in the order of its partition's log; each on the partition of its key."""
    found = []
    for partition, _, key, plan in installation.records(installation.names.schedules):
        assert isinstance(plan, Plan)
        assert key == plan.schedule_id.encode()
        assert partition == partition_of(key, 3)
        found.append(plan)
    return found


def test_changes_become_plans_and_refusals_become_rejections(installation: Installation) -> None:
    publish(installation, [put(f"s-{number}") for number in range(200)])
    bad = change(schedule_id="bad", raw=document("bad", zone="Europe/Berlim"), change_id="bad-0")
    publish(installation, [bad, change(ChangeKind.PAUSE, "s-7", change_id="pause-7")])
    producer = Producer({"bootstrap.servers": installation.bootstrap_servers, "linger.ms": 0})
    producer.produce(installation.names.schedule_changes, b"garbage", b"\xff")
    assert producer.flush(20) == 0

    processes = [installation.start("registrar"), installation.start("relay")]
    installation.wait_until("SELECT count(*) FROM schedule WHERE landed_sequence = sequence", 200)
    installation.wait_until("SELECT count(*) FROM outbox", 0)

    sequences = Counter((plan.schedule_id, plan.sequence) for plan in plans(installation))
    assert set(sequences.values()) == {1}
    assert len(sequences) == 201
    assert sequences["s-7", 2] == 1
    rejections = {item.schedule_id: item for *_, item in installation.records(installation.names.rejected)}
    assert set(rejections) == {"bad", "\ufffd"}
    assert isinstance(rejections["bad"], Rejection)
    assert codec.decode(rejections["bad"].record) == bad
    assert [problem[0] for problem in rejections["bad"].problems] == ["zone"]
    assert rejections["\ufffd"].record == b"garbage"
    assert installation.rows("SELECT outcome FROM change_result WHERE change_id = 'bad-0'") == [("refused",)]
    assert [process.stop() for process in processes] == [0, 0], installation.logs()


def test_sigkill_at_any_moment_makes_exactly_one_revision_of_each_change(installation: Installation) -> None:
    """Two registrars and two relays; one of each is killed again and again while changes flow."""
    chance = random.Random(20270314)
    versions, ids = 8, [f"s-{number}" for number in range(150)]
    running = {
        name: installation.start(name.split("-")[0]) for name in ("registrar-1", "registrar-2", "relay-1", "relay-2")
    }
    kills = 0
    for version in range(versions):
        publish(installation, [put(schedule_id, version) for schedule_id in ids])
        victim = chance.choice(sorted(running))
        threading.Event().wait(chance.uniform(0.0, 0.6))
        running[victim].kill()
        kills += 1
        running[victim] = installation.start(victim.split("-")[0])
    installation.wait_until("SELECT count(*) FROM revision", versions * len(ids), 120)
    installation.wait_until(OPEN_PLANS, 0)
    installation.wait_until("SELECT count(*) FROM outbox", 0)

    revisions = installation.rows(
        "SELECT schedule_id, array_agg(sequence ORDER BY sequence), array_agg(number ORDER BY sequence),"
        " array_agg(change_id ORDER BY sequence), count(landed_offset) FROM revision GROUP BY 1"
    )
    assert len(revisions) == len(ids)
    for schedule_id, sequences, numbers, change_ids, landed in revisions:
        assert sequences == numbers == list(range(1, versions + 1))
        assert change_ids == [f"{schedule_id}-{version}" for version in range(versions)]
        assert landed == versions
    newest: dict[str, int] = {}
    seen: Counter[tuple[str, int]] = Counter()
    for plan in plans(installation):
        seen[plan.schedule_id, plan.sequence] += 1
        newest[plan.schedule_id] = plan.sequence
    assert set(newest.values()) == {versions}, "an older plan landed last"
    assert len(seen) == versions * len(ids)
    assert kills == versions


def test_a_registrar_that_dies_before_its_commit_leaves_nothing(installation: Installation) -> None:
    class Died(Exception):
        pass

    batch = [source(0, put("a")), source(1, put("b"))]
    with closing(PostgresRegistry(installation.dsn, installation.schema)) as registry:
        with pytest.raises(Died):
            registrar(_Dying(registry, Died())).handle(batch)  # type: ignore[arg-type]
        assert installation.rows("SELECT 1 FROM revision UNION ALL SELECT 1 FROM outbox") == []
        assert registrar(registry).handle(batch).accepted == 2
        assert registrar(registry).handle(batch).duplicates == 2
    assert installation.one("SELECT count(*) FROM revision") == 2


class _Dying:
    """A registry whose transactions raise when all is written."""

    def __init__(self, registry: PostgresRegistry, error: Exception) -> None:
        self._registry = registry
        self._error = error

    @contextmanager
    def transaction(self) -> Iterator[object]:
        with self._registry.transaction() as transaction:
            yield transaction
            raise self._error


def test_registrars_at_once_on_one_id_number_it_once_each(installation: Installation) -> None:
    """As if one id came on several partitions: a foreign producer may place keys otherwise."""
    ids = [f"s-{number}" for number in range(20)]
    conflicts: list[RegistryConflict] = []

    def work(partition: int) -> None:
        order = random.Random(partition)
        with closing(PostgresRegistry(installation.dsn, installation.schema)) as registry:
            for turn in range(5):
                shuffled = order.sample(ids, len(ids))
                batch = [
                    source(turn * len(ids) + at, put(item, partition * 100 + turn), partition=partition)
                    for at, item in enumerate(shuffled)
                ]
                while True:
                    try:
                        registrar(registry).handle(batch)
                        break
                    except RegistryConflict as error:
                        conflicts.append(error)

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    found = installation.rows(
        "SELECT array_agg(sequence ORDER BY sequence), array_agg(number ORDER BY sequence)"
        " FROM revision GROUP BY schedule_id"
    )
    assert found == [(list(range(1, 21)), list(range(1, 21)))] * len(ids)
    in_order = installation.rows("SELECT key, value FROM outbox ORDER BY id")
    last: dict[bytes, int] = {}
    for key, value in in_order:
        plan = codec.decode(value)
        assert isinstance(plan, Plan)
        assert plan.sequence == last.get(key, 0) + 1, "ids of the outbox are not in the order of sequences"
        last[key] = plan.sequence


def outbox_rows(installation: Installation, records: list[OutboxRecord]) -> None:
    with closing(connect(installation.dsn, installation.schema, "test")) as connection, connection.transaction():
        insert_outbox(connection, records)


@pytest.fixture
def outbox(installation: Installation) -> Iterator[PostgresOutbox]:
    with closing(PostgresOutbox(installation.dsn, installation.schema, most_shards=16)) as made:
        yield made


@pytest.fixture
def publisher(installation: Installation) -> Iterator[KafkaOutboxPublisher]:
    with closing(KafkaOutboxPublisher(installation.bootstrap_servers, "test", lambda: False)) as made:
        yield made


def values(installation: Installation, topic: str) -> dict[bytes | None, list[int]]:
    found: dict[bytes | None, list[int]] = {}
    for _, _, key, plan in installation.records(topic):
        found.setdefault(key, []).append(plan.sequence)
    return found


def numbered(installation: Installation, key: bytes, sequences: range) -> list[OutboxRecord]:
    with closing(PostgresRegistry(installation.dsn, installation.schema)) as registry:
        registrar(registry, installation.names).handle(
            [source(0, put(key.decode()), topic=installation.names.schedule_changes, topic_id=unique_name("id"))]
        )
    plan = codec.decode(installation.one(f"SELECT plan FROM revision WHERE schedule_id = '{key.decode()}'"))
    assert isinstance(plan, Plan)
    return [
        OutboxRecord(installation.names.schedules, key, codec.encode(Plan(plan.schedule_id, 1, at, plan.revisions)))
        for at in sequences
    ]


def test_a_relay_killed_before_it_deletes_publishes_again_and_ends_with_the_newest(
    installation: Installation, outbox: PostgresOutbox, publisher: KafkaOutboxPublisher
) -> None:
    records = numbered(installation, b"a", range(1, 4))
    with closing(connect(installation.dsn, installation.schema, "test")) as connection:
        connection.execute("DELETE FROM outbox")
    outbox_rows(installation, records)
    rows = outbox.take(100)
    assert len(publisher.publish(rows).acknowledged) == 3
    # It dies here: its connection ends, and what it held is free.
    outbox.close()
    assert relay_once(outbox, publisher, 100) == 3
    assert values(installation, installation.names.schedules) == {b"a": [1, 2, 3, 1, 2, 3]}
    assert relay_once(outbox, publisher, 100) == 0


def test_a_shard_is_held_by_one_relay_at_a_time(
    installation: Installation, outbox: PostgresOutbox, publisher: KafkaOutboxPublisher
) -> None:
    outbox_rows(installation, [OutboxRecord("t", f"k-{number}".encode(), b"v") for number in range(200)])
    with closing(PostgresOutbox(installation.dsn, installation.schema, most_shards=4)) as other:
        mine, theirs = other.take(1000), outbox.take(1000)
        assert {row.record.shard for row in mine}.isdisjoint({row.record.shard for row in theirs})
        assert len({row.record.shard for row in mine}) == 4
        assert len(mine) + len(theirs) == 200
        for shard in range(16):
            ids = [row.id for row in (*mine, *theirs) if row.record.shard == shard]
            assert ids == sorted(ids)
        other.release()
        outbox.settle([row.id for row in theirs])
        assert {row.id for row in outbox.take(16_000)} == {row.id for row in mine}
        outbox.release()


def test_many_large_rows_are_taken_some_at_a_time(installation: Installation, outbox: PostgresOutbox) -> None:
    outbox_rows(installation, [OutboxRecord("t", b"k", bytes(3 << 20)) for _ in range(4)])
    for left in (4, 2):
        rows = outbox.take(100)
        assert [row.id for row in rows] == [5 - left, 6 - left]
        outbox.settle([row.id for row in rows])
    assert outbox.take(100) == []


def test_what_the_broker_never_takes_is_an_error_and_the_rest_goes_on(
    installation: Installation, outbox: PostgresOutbox, publisher: KafkaOutboxPublisher
) -> None:
    good = numbered(installation, b"a", range(1, 2))
    outbox_rows(installation, [
        OutboxRecord(installation.names.schedules, b"big", random.Random(1).randbytes(2 << 20)),
        OutboxRecord(f"{installation.names.prefix}no-such-topic", b"b", b"v"),
        *good,
    ])  # fmt: skip
    with pytest.raises(BrokenPromise, match="and never will"):
        relay_once(outbox, publisher, 100)
    assert values(installation, installation.names.schedules) == {b"a": [1, 1]}
    assert installation.rows("SELECT convert_from(key, 'UTF8') FROM outbox ORDER BY 1") == [("b",), ("big",)]


def test_headers_partitions_and_nulls_arrive(
    installation: Installation, outbox: PostgresOutbox, publisher: KafkaOutboxPublisher
) -> None:
    from confluent_kafka import Consumer, TopicPartition

    topic = installation.names.deliveries
    outbox_rows(installation, [OutboxRecord(topic, b"k", None, {"ce_id": "é"}, 2), OutboxRecord(topic, b"", b"v")])
    assert relay_once(outbox, publisher, 100) == 2
    consumer = Consumer({"bootstrap.servers": installation.bootstrap_servers, "group.id": topic})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
        # a record without a value counts as false
        found = [wait_for(lambda: [m for m in (consumer.poll(0.5),) if m is not None], 30)[0] for _ in range(2)]
    finally:
        consumer.close()
    by_key = {message.key(): message for message in found}
    assert (by_key[b"k"].partition(), by_key[b"k"].value()) == (2, None)
    assert by_key[b"k"].headers() == [("ce_id", "é".encode())]
    assert by_key[b""].value() == b"v"
    assert by_key[b""].headers() is None


def test_a_relay_without_a_broker_stops_when_asked_and_keeps_its_rows(
    installation: Installation, outbox: PostgresOutbox
) -> None:
    outbox_rows(installation, [OutboxRecord("t", b"k", b"v")])
    asked = iter([False, False, True])
    away = KafkaOutboxPublisher("127.0.0.1:9", "test", lambda: next(asked))
    with closing(away), pytest.raises(Interrupted):
        relay_once(outbox, away, 100)
    assert installation.one("SELECT count(*) FROM outbox") == 1
    assert len(outbox.take(1)) == 1
    outbox.release()


def test_writers_wake_the_relay(installation: Installation, outbox: PostgresOutbox) -> None:
    assert outbox.take(1) == []
    woken = threading.Event()

    def wait() -> None:
        outbox.wait(30)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    outbox_rows(installation, [OutboxRecord("t", b"k", b"v")])
    assert woken.wait(10)
    thread.join()


def test_a_log_that_lost_its_end_stops_the_registrar() -> None:
    assert _begin_at("t[0]", 5, 0, 5) == 5
    assert _begin_at("t[0]", 5, 7, 9) == 7
    assert _begin_at("t[0]", None, 7, 9) < 0
    with pytest.raises(BrokenPromise, match=r"t\[0\] ends at 4, and 5 records of it were taken in"):
        _begin_at("t[0]", 5, 0, 4)


def test_processes_refuse_to_start_where_a_promise_is_broken(
    broker: EmbeddedBroker, database: EmbeddedDatabase, topic_prefix: str, schema: str, tmp_path: Path
) -> None:
    (tmp_path / "townclock.toml").write_text(SETTINGS)
    bare = Installation(tmp_path, broker.bootstrap_servers, database.dsn, schema, Names(topic_prefix))
    for command in ("registrar", "relay"):
        done = bare.run(command)
        assert done.returncode == 1
        assert f"{topic_prefix}schedules: topic: there is none" in done.stderr
        assert "Traceback" not in done.stderr
    bare.prepare()
    with closing(connect(database.dsn, schema, "test")) as connection:
        connection.execute("DELETE FROM migration WHERE number = 1")
    for command in ("registrar", "relay"):
        done = bare.run(command)
        assert done.returncode == 1
        assert "lacks migrations 001_registry; run: townclock db migrate" in done.stderr


def test_processes_that_find_no_service_wait_say_so_and_stop_when_asked(installation: Installation) -> None:
    installation.bootstrap_servers = "127.0.0.1:9"
    for command in ("registrar", "relay"):
        process = installation.start(command)
        wait_for(lambda process=process: "no Kafka broker answers" in process.log, 30)  # type: ignore[misc]
        assert process.stop() == 0


def test_a_broker_and_a_database_that_go_away_and_come_back(
    services_folder: Path, tmp_path: Path, topic_prefix: str, schema: str
) -> None:
    (tmp_path / "townclock.toml").write_text(SETTINGS)
    database = EmbeddedDatabase(services_folder / unique_name("p"))
    database.start()
    with EmbeddedBroker(services_folder / unique_name("k")) as broker:
        made = Installation(tmp_path, broker.bootstrap_servers, database.dsn, schema, Names(topic_prefix))
        try:
            made.prepare()
            processes = [made.start("registrar"), made.start("relay")]
            publish(made, [put(f"s-{number}") for number in range(50)])
            made.wait_until("SELECT count(*) FROM schedule WHERE landed_sequence = sequence", 50)
            database.kill()
            publish(made, [put(f"s-{number}", 1) for number in range(50)])
            wait_for(lambda: all("PostgreSQL can't be reached" in process.log for process in processes), 30, made.logs)
            database.start()
            made.wait_until("SELECT count(*) FROM schedule WHERE landed_sequence = 2", 50, 90)
            broker.kill()
            broker.start()
            publish(made, [put(f"s-{number}", 2) for number in range(50)])
            made.wait_until("SELECT count(*) FROM schedule WHERE landed_sequence = 3", 50, 90)
            assert [process.stop() for process in processes] == [0, 0], made.logs()
            assert {json.loads(line)["level"] for process in processes for line in process.log.splitlines()} <= {
                "info", "warning",
            }  # fmt: skip
        finally:
            made.close()
            database.destroy()
