"""The shared services answer, and each test has names of its own."""

from __future__ import annotations

import psycopg
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase


def test_a_message_goes_through_the_broker(broker: EmbeddedBroker, topic_prefix: str) -> None:
    topic = f"{topic_prefix}greetings"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce(topic, b"hello")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": f"{topic_prefix}g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"hello"
    finally:
        consumer.close()


def test_a_row_goes_through_the_database(database: EmbeddedDatabase, schema: str) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(f'CREATE TABLE "{schema}".greetings (word text)')
        connection.execute(f'INSERT INTO "{schema}".greetings VALUES (%s)', ["hello"])
        assert connection.execute(f'SELECT word FROM "{schema}".greetings').fetchall() == [("hello",)]
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
