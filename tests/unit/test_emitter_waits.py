"""An emitter whose broker is away says so while it waits, and leaves off when asked."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from streams.adapters.kafka import occurrence_emitter
from streams.adapters.kafka.occurrence_emitter import OccurrenceEmitter
from streams.domain.occurrence import Ended, TickSource
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.names import Names


def test_waiting_for_acknowledgements_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occurrence_emitter, "_TOLD_EVERY_SLICES", 2)
    asked = 0

    def interrupted() -> bool:
        nonlocal asked
        asked += 1
        return asked > 5

    emitter = OccurrenceEmitter("127.0.0.1:9", "test", Names("t-"), interrupted)
    emitter.emit(0, Ended("a", 1, 1, "paused", 29_000_000, TickSource(0, 0, 0), "eu", "default", None))
    with capture_logs() as logs, pytest.raises(Interrupted):
        emitter.flush()
    told = [(line["event"], line["unacknowledged"]) for line in logs]
    assert told == [("waiting", 1)] * 2
