"""From a record on occurrences.eu to one side effect: real Kafka, real PostgreSQL, a real HTTP provider, real kills."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition

from streams.adapters.codec import encode
from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.kafka import topics
from streams.adapters.kafka.admin_calls import commit_memberless
from streams.adapters.kafka.client import admin
from streams.domain.minutes import parse_tick
from streams.domain.schedule import Mode
from streams.pipeline.cursors import Cursor
from tests.delivery_support import LANE, Delivery
from tests.ledger_support import make_ended, make_fire
from tests.services import wait_for

Make = Callable[..., Delivery]


@pytest.fixture
def make(
    broker: EmbeddedBroker, database: EmbeddedDatabase, topic_prefix: str, schema: str, tmp_path: Path
) -> Iterator[Make]:
    made: list[Delivery] = []

    def one(bootstrap_servers: str = broker.bootstrap_servers, dsn: str = database.dsn, **options: object) -> Delivery:
        delivery = Delivery(tmp_path, bootstrap_servers, dsn, topic_prefix, schema, **options)  # type: ignore[arg-type]
        made.append(delivery)
        return delivery

    yield one
    for delivery in made:
        delivery.close()


def test_occurrences_become_one_effect_each_and_it_stops_cleanly(make: Make) -> None:
    delivery = make()
    fires = [make_fire(f"s-{n}", tenant=f"t{n % 5}") for n in range(200)]
    shadow = make_fire("shadow", mode=Mode.SHADOW)
    delivery.emit([*fires, shadow])
    worker = delivery.worker()
    delivery.wait_states({"done": 200, "shadowed": 1})
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    assert delivery.counts()["over_quota"] == 0
    assert delivery.stop(worker) == 0
    assert "Traceback" not in delivery.said()
    tries = delivery.sql.execute("SELECT DISTINCT n, outcome, code FROM attempt").fetchall()
    assert tries == [(1, "done", 200)]


def test_two_claimants_of_the_same_keys(make: Make) -> None:
    delivery = make()
    workers = [delivery.worker("worker"), delivery.worker("worker-2")]
    fires = [make_fire(f"s-{n}") for n in range(400)]
    for partition in range(4):
        delivery.emit(fires[partition::4], partition)
    delivery.wait_states({"done": 400})
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    sessions = delivery.sql.execute("SELECT count(DISTINCT session) FROM attempt").fetchone()
    assert sessions == (2,)
    assert [delivery.stop(worker) for worker in workers] == [0, 0]


def test_a_lost_answer_is_sent_again_and_has_one_effect(make: Make) -> None:
    """Retry after acceptance before record: the provider accepted, and the line was lost."""
    delivery = make(lane="rate=300,burst=60,latency=0.005,lost=1")
    fire = make_fire("s")
    delivery.emit([fire])
    delivery.worker()
    delivery.wait_states({"done": 1})
    assert delivery.effects() == {fire.key: 1}
    tries = delivery.sql.execute("SELECT n, outcome FROM attempt ORDER BY n").fetchall()
    assert tries == [(1, "unknown"), (2, "done")]
    assert delivery.counts()["replayed"] == 1


def test_a_lost_answer_without_idempotency_goes_to_review(make: Make) -> None:
    delivery = make(lane="rate=300,burst=60,latency=0.005,lost=1", idempotency=None)
    delivery.emit([make_fire("s")])
    delivery.worker()
    delivery.wait_states({"review": 1})
    assert delivery.counts()["accepted"] == 1
    row = delivery.sql.execute("SELECT reason, in_doubt_since IS NOT NULL FROM queue").fetchone()
    assert row is not None
    assert "no idempotency keys" in row[0]
    assert row[1]


def kill_while_sending(delivery: Delivery, count: int) -> list[str]:
    """A worker is killed while the provider has accepted `count` requests and holds their answers; their keys."""
    delivery.sandbox.change(LANE, hold=True)
    worker = delivery.worker()
    wait_for(lambda: delivery.counts()["held"] == count, 40, lambda: delivery.said()[-2000:])
    worker.kill()
    worker.wait()
    delivery.sandbox.change(LANE, hold=False)
    rows = delivery.sql.execute("SELECT encode(key, 'hex') FROM queue WHERE state = 'sending'").fetchall()
    return [row[0] for row in rows]


def test_a_worker_killed_while_sending_is_replaced_and_each_key_has_one_effect(make: Make) -> None:
    delivery = make()
    fires = [make_fire(f"s-{n}") for n in range(20)]
    delivery.emit(fires)
    left = kill_while_sending(delivery, 20)
    assert sorted(left) == sorted(fire.key for fire in fires)
    delivery.worker("second")
    delivery.wait_states({"done": 20})
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    tries = delivery.sql.execute("SELECT n, outcome, count(*) FROM attempt GROUP BY 1, 2 ORDER BY 1").fetchall()
    assert tries == [(1, "unknown", 20), (2, "done", 20)]
    bodies = delivery.sql.execute("SELECT count(*) FROM attempt WHERE body IS NOT NULL").fetchone()
    assert bodies == (20,)


def test_a_worker_killed_while_sending_without_idempotency_leaves_it_to_a_person(make: Make) -> None:
    delivery = make(idempotency=None)
    delivery.emit([make_fire("s")])
    kill_while_sending(delivery, 1)
    delivery.worker("second")
    delivery.wait_states({"review": 1})
    assert delivery.counts()["accepted"] == 1


def test_a_group_set_back_sends_nothing_twice(make: Make) -> None:
    delivery = make()
    fires = [make_fire(f"s-{n}") for n in range(300)]
    delivery.emit(fires, 1)
    worker = delivery.worker()
    delivery.wait_states({"done": 300})
    assert delivery.stop(worker) == 0
    group = delivery.names.deliver_group("eu")
    client = admin(delivery.servers)
    committed = topics.committed_offsets(client, group, delivery.topic, [1])
    assert committed[1][0] == 300
    back = ConsumerGroupTopicPartitions(group, [TopicPartition(delivery.topic, 1, 0)])
    (result,) = client.alter_consumer_group_offsets([back])[group].result().topic_partitions
    assert result.error is None
    delivery.worker("second")
    duplicates = "SELECT duplicates FROM source_offset WHERE partition = 1"
    wait_for(lambda: delivery.sql.execute(duplicates).fetchone() == (300,), 40, lambda: delivery.said("second")[-2000:])
    assert delivery.states() == {"done": 300}
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    assert delivery.counts()["replayed"] == 0
    assert "offset_behind_ledger" in delivery.said("second")


def test_offsets_ahead_of_the_ledger_are_taken_back_with_an_alarm(make: Make) -> None:
    """A restored database has less than Kafka was told: what it lacks is read again."""
    delivery = make()
    fires = [make_fire(f"s-{n}") for n in range(50)]
    delivery.emit(fires, 2)
    worker = delivery.worker()
    delivery.wait_states({"done": 50})
    assert delivery.stop(worker) == 0
    lost = [fire.key for fire in fires[30:]]
    for table in ("attempt", "occurrence"):
        delivery.sql.execute(f"DELETE FROM {table} WHERE encode(key, 'hex') = ANY(%s)", (lost,))
    delivery.sql.execute("UPDATE source_offset SET next_offset = 30 WHERE partition = 2")
    delivery.worker("second")
    delivery.wait_states({"done": 50})
    assert "alarm_offset_ahead_of_ledger" in delivery.said("second")
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    assert delivery.counts()["replayed"] == 20


def test_ended_cancels_what_waits_and_sends_nothing(make: Make) -> None:
    delivery = make()
    future = [make_fire("gone", "2099-01-01T09:00"), make_fire("stays", "2099-01-01T09:00")]
    delivery.emit(future)
    delivery.worker()
    delivery.wait_states({"pending": 2})
    delivery.emit([make_ended("gone", "2099-01-02T00:00")])
    delivery.wait_states({"cancelled": 1, "pending": 1})
    assert delivery.counts()["accepted"] == 0


def test_a_429_is_waited_out_and_tried_again(make: Make) -> None:
    delivery = make(lane="rate=300,burst=60,latency=0.005")
    delivery.sandbox.change(LANE, rate_per_s=5, burst=1)
    fires = [make_fire(f"s-{n}") for n in range(40)]
    delivery.emit(fires)
    delivery.worker()
    wait_for(lambda: delivery.counts()["rate_limited"] > 0, 40, lambda: delivery.said()[-2000:])
    delivery.sandbox.change(LANE, rate_per_s=300, burst=60)
    delivery.wait_states({"done": 40})
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    row = delivery.sql.execute("SELECT blocked_until IS NOT NULL FROM lane").fetchone()
    assert row == (True,)


def test_what_cannot_be_decoded_is_kept_whole_and_the_rest_goes_on(make: Make) -> None:
    delivery = make()
    producer = Producer({"bootstrap.servers": delivery.servers})
    producer.produce(delivery.topic, b"\x00garbage", b"k", 0, headers=[("ce_id", b"x")])
    producer.produce(delivery.topic, encode(make_fire("foreign", region="us")), b"foreign", 0)
    producer.produce(delivery.topic, encode(make_fire("other", scenario="a scenario")), b"other", 0)
    producer.produce(delivery.topic, encode(make_fire("bad", to="nul\x00here")), b"bad", 0)
    assert producer.flush(30) == 0
    delivery.emit([make_fire("good")])
    delivery.worker()
    delivery.wait_states({"done": 1})
    rows = delivery.sql.execute("SELECT source_offset, value, reason FROM quarantine ORDER BY 1").fetchall()
    assert [row[0] for row in rows] == [0, 1, 2, 3]
    assert rows[0][1] == b"\x00garbage"
    for row, word in zip(rows, ("no schema", "region us", "a scenario", "can't be stored"), strict=True):
        assert word in row[2]


def test_the_database_away_delays_and_loses_nothing(make: Make, services_folder: Path) -> None:
    with_own = EmbeddedDatabase(services_folder / "own-postgres")
    with_own.start()
    try:
        delivery = make(dsn=with_own.dsn)
        worker = delivery.worker()
        delivery.emit([make_fire("before")])
        delivery.wait_states({"done": 1})
        delivery.sql.close()
        with_own.kill()
        fires = [make_fire(f"s-{n}") for n in range(100)]
        delivery.emit(fires)
        wait_for(lambda: "intake_waits" in delivery.said(), 30, lambda: delivery.said()[-2000:])
        with_own.start()
        delivery.connect()
        delivery.wait_states({"done": 101})
        assert delivery.effects() == {fire.key: 1 for fire in (*fires, make_fire("before"))}
        assert worker.poll() is None
        delivery.sql.close()
        with_own.kill()
        assert delivery.stop(worker) == 0
    finally:
        with_own.destroy()


def test_the_broker_away_delays_and_loses_nothing(make: Make, services_folder: Path) -> None:
    with EmbeddedBroker(services_folder / "own-kafka") as own:
        delivery = make(bootstrap_servers=own.bootstrap_servers)
        worker = delivery.worker()
        delivery.emit([make_fire("before")])
        delivery.wait_states({"done": 1})
        own.kill()
        time.sleep(2.0)
        own.start()
        fires = [make_fire(f"s-{n}") for n in range(50)]
        delivery.emit(fires)
        delivery.wait_states({"done": 51}, 120)
        assert delivery.effects() == {fire.key: 1 for fire in (*fires, make_fire("before"))}
        own.kill()
        assert delivery.stop(worker) == 0
        assert "Traceback" not in delivery.said()


def test_the_classic_group_protocol(make: Make) -> None:
    delivery = make()
    text = delivery.config.read_text().replace("[kafka]", '[kafka]\ngroup_protocol = "classic"')
    delivery.config.write_text(text)
    workers = [delivery.worker("worker"), delivery.worker("second")]
    fires = [make_fire(f"s-{n}") for n in range(80)]
    for partition in range(4):
        delivery.emit(fires[partition::4], partition)
    delivery.wait_states({"done": 80})
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    assert [delivery.stop(worker) for worker in workers] == [0, 0]


def test_a_scenario_is_delivered_as_its_minutes_are_joined(make: Make) -> None:
    """Nothing is sent before every partition has handled its minute; leases and pauses stay on the real clock."""
    delivery = make(scenario="spring")
    early, late = make_fire("early", "2027-03-14T07:00"), make_fire("late", "2027-03-14T09:00")
    delivery.emit([replace(fire, scenario="spring") for fire in (early, late)])
    delivery.worker()
    delivery.wait_states({"pending": 2})
    join(delivery, {0: "2027-03-14T08:00Z", 1: "2027-03-14T07:30Z", 2: "2027-03-14T08:00Z"})
    time.sleep(1.0)
    assert delivery.states() == {"pending": 2}
    join(delivery, {3: "2027-03-14T06:59Z"})
    delivery.wait_states({"done": 1, "pending": 1})
    assert delivery.effects() == {early.key: 1}
    join(delivery, dict.fromkeys(range(4), "2027-03-14T09:00Z"))
    delivery.wait_states({"done": 2})


def join(delivery: Delivery, minutes: dict[int, str]) -> None:
    """Cursors as the processor commits them."""
    for partition, minute in minutes.items():
        cursor = Cursor(1, parse_tick(minute), 1, "7f3b7ad1-0000-0000-0000-000000000000")
        commit_memberless(
            admin(delivery.servers),
            delivery.names.processor_group,
            delivery.names.ticks,
            {partition: cursor.offset},
            cursor.metadata,
        )


def test_two_lanes_in_one_worker_do_not_disturb_each_other(make: Make) -> None:
    delivery = make(lane="rate=300,burst=60,latency=0.005 --lane other:rate=300,burst=60,latency=0.005")
    text = delivery.config.read_text()
    other = text[text.index("[providers.") :].replace(LANE, "other")
    delivery.config.write_text(text + other)
    fires = [make_fire(f"s-{n}", provider=(LANE, "other")[n % 2], tenant=f"t{n % 3}") for n in range(200)]
    delivery.emit(fires)
    delivery.worker()
    delivery.wait_states({"done": 200})
    assert delivery.effects() == {fire.key: 1 for fire in fires}
    assert delivery.counts()["accepted"] == 100
    assert "Traceback" not in delivery.said()


def test_a_provider_nobody_serves_is_told(make: Make) -> None:
    delivery = make()
    delivery.emit([make_fire("s", provider="nobody")])
    worker = delivery.worker()
    delivery.wait_states({"pending": 1})
    assert delivery.stop(worker) == 0
    delivery.worker("second")
    wait_for(lambda: "alarm_lane_unserved" in delivery.said("second"), 40, lambda: delivery.said("second")[-2000:])


def test_it_refuses_to_start_with_a_clear_error(make: Make) -> None:
    delivery = make()
    delivery.sql.execute("DELETE FROM migration WHERE number = 10")
    worker = delivery.worker()
    assert worker.wait(30) == 1
    assert "lacks migrations 010_ledger; run: townclock db migrate" in delivery.said()
    assert "Traceback" not in delivery.said()


def test_an_unknown_adapter_is_named(make: Make) -> None:
    delivery = make()
    text = delivery.config.read_text().replace('adapter = "sandbox"', 'adapter = "sandbax"')
    delivery.config.write_text(text)
    worker: subprocess.Popen[bytes] = delivery.worker()
    assert worker.wait(30) == 2
    assert "there is no adapter 'sandbax'; did you mean sandbox? installed: http, log, sandbox" in delivery.said()


def test_a_provider_that_cannot_start_closes_those_that_could(make: Make) -> None:
    delivery = make()
    text = delivery.config.read_text() + '[providers.unwritable]\nadapter = "log"\npath = "/no/such/folder/file"\n'
    delivery.config.write_text(text)
    assert delivery.worker().wait(30) == 2
    said = delivery.said().splitlines()
    assert said[-1].startswith("providers.unwritable.path: /no/such/folder/file can't be written")
    assert "Unclosed" not in delivery.said()
