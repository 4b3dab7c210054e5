"""The engine's joiner and the verifier's oracle share no code, and promise the same over the demo, edits included."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
import yaml

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.asof import InForce, Transition
from streams.domain.bundle import ZoneBundle
from streams.domain.document import DocumentContext, parse_document
from streams.domain.join import Joiner
from streams.domain.occurrence import Ended, Fire, TickSource
from streams.domain.plan import Revision, RevisionState
from streams.domain.schedule import Schedule
from streams.verifier.documents import Window, load_demo, load_histories
from streams.verifier.oracle import promises

DEMO = Path(__file__).parents[2] / "examples" / "demo"


@pytest.fixture(scope="module")
def bundle() -> ZoneBundle:
    return wheel_bundle()


def schedules(path: Path, bundle: ZoneBundle) -> dict[str, Schedule]:
    context = DocumentContext(frozenset(bundle.names))
    documents = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    found = [
        parse_document(json.loads(json.dumps(document, default=date.isoformat)), context) for document in documents
    ]
    return {schedule.id: schedule for schedule in found if isinstance(schedule, Schedule)}


def in_force(number: int, schedule: Schedule, since: int, deleted: bool = False) -> InForce:
    alive = RevisionState.PAUSED if schedule.paused else RevisionState.ACTIVE
    state = RevisionState.DELETED if deleted else alive
    return InForce(1, Revision(number, state, None, schedule), since)


@pytest.mark.parametrize("window", load_demo(DEMO).windows, ids=lambda window: window.name)
def test_joiner_and_oracle_agree(window: Window, bundle: ZoneBundle) -> None:
    demo = load_demo(DEMO)
    originals = schedules(DEMO / demo.schedules, bundle)
    edits = schedules(DEMO / window.edits, bundle)
    at_start = {name: in_force(1, schedule, window.start) for name, schedule in originals.items()}
    at_change = window.halt_at + 1
    changes = [Transition(n, at_start[n], in_force(2, edits[n], at_change)) for n in edits]
    changes += [Transition(n, at_start[n], in_force(2, originals[n], at_change, deleted=True)) for n in window.deletes]
    transitions = {
        window.start: [Transition(name, None, state) for name, state in sorted(at_start.items())],
        at_change: sorted(changes, key=lambda change: change.schedule_id),
    }
    joiner = Joiner(bundle, scenario="demo")
    records = [
        record
        for tick in range(window.start, window.end)
        for record in joiner.join(tick, transitions.get(tick, []), TickSource(0, tick, 0))
    ]
    fires = [record for record in records if isinstance(record, Fire)]
    first: dict[str, Fire] = {}
    for fire in fires:
        first.setdefault(fire.key, fire)

    histories = load_histories(DEMO, demo, window)
    found = promises(histories, window.start, window.end)
    assert {(key, fire.instant, fire.zone, fire.nominal, fire.to) for key, fire in first.items()} == {
        (key, p.tick, p.revision.zone, p.label, p.revision.to) for key, p in found.by_key.items()
    }
    assert len(fires) - len(first) == len(found.repeated) > 0
    ended = {record.schedule_id for record in records if isinstance(record, Ended)}
    assert ended == {history.schedule_id for history in histories if history.ended_at is not None}
