"""A document may name the zones that the joiners have: others would stop a partition, whatever wheel is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.kafka import first_records
from streams.adapters.kafka.change_publisher import publish_changes
from streams.adapters.kafka.tz_records import bundle_in_force
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.bundle import ZoneBundle
from streams.pipeline.names import Names
from tests.installation import SETTINGS, Installation
from tests.registry_support import change, document

OLD = ZoneBundle("2000a", {"Europe/Berlin": dict(wheel_bundle().zones)["Europe/Berlin"]})


def test_a_zone_that_only_the_installed_wheel_has_is_refused(
    broker: EmbeddedBroker,
    database: EmbeddedDatabase,
    topic_prefix: str,
    schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "townclock.toml").write_text(SETTINGS)
    here = Installation(tmp_path, broker.bootstrap_servers, database.dsn, schema, Names(topic_prefix))
    monkeypatch.setattr(first_records, "wheel_bundle", lambda: OLD)
    here.prepare()
    assert bundle_in_force(here.names, here.bootstrap_servers).names == ("Europe/Berlin",)
    monkeypatch.undo()
    zones = {"old": "Europe/Berlin", "new": "America/New_York"}
    changes = [
        change(schedule_id=name, change_id=name, raw=document(name, zone=zone, region="eu"))
        for name, zone in zones.items()
    ]
    publish_changes(here.bootstrap_servers, here.names, changes, lambda _: None)
    try:
        process = here.start("registrar")
        here.wait_until("SELECT count(*) FROM change_result", 2)
        assert here.rows("SELECT change_id, outcome FROM change_result ORDER BY 1") == [
            ("new", "refused"),
            ("old", "accepted"),
        ]
        assert process.stop() == 0
    finally:
        here.close()
