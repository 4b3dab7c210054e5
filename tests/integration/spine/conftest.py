"""One installation for every test of this folder; it is stopped after the last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from tests.services import unique_name
from tests.spine import Spine


@pytest.fixture(scope="package")
def _installation(broker: EmbeddedBroker, database: EmbeddedDatabase, services_folder: Path) -> Iterator[Spine]:
    name = unique_name("spine")
    running = Spine(services_folder / name, broker.bootstrap_servers, database.dsn, name)
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def spine(_installation: Spine) -> Iterator[Spine]:
    """The installation with everything running. What its processes say in a test that fails is shown with it."""
    _installation.restore()
    yield _installation
    print(_installation.said())
    _installation.assert_well()
