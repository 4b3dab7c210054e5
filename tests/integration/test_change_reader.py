"""The registrars' reader: what goes wrong inside an assignment ends the session and no more."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.adapters.kafka import change_reader
from streams.adapters.kafka.change_reader import ChangeReader
from streams.domain.errors import ServiceUnreachable
from tests.installation import Installation


def reader(here: Installation) -> ChangeReader:
    topics = [here.names.schedule_changes, here.names.schedules]
    return ChangeReader(
        here.bootstrap_servers, here.names.registrar_group, "consumer", topics, lambda topic, topic_id: {}
    )


def test_an_error_of_kafka_inside_an_assignment_is_one_to_try_again_after(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> dict[int, int]:
        raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))

    monkeypatch.setattr(change_reader, "start_offsets", gone)

    def until_it_fails(one: ChangeReader) -> None:
        for _ in range(300):
            one.batch(10, 0.1)

    with closing(reader(installation)) as one, pytest.raises(ServiceUnreachable, match="can't be read"):
        until_it_fails(one)
