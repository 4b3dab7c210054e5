"""The registrar's step over the registry in memory and over the real one: both must come to the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from streams.adapters import codec
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.postgres.base import connect, migrate
from streams.adapters.postgres.registry import PostgresRegistry
from streams.domain.change import ChangeKind
from streams.domain.plan import Plan
from streams.domain.registry import Rejection
from streams.pipeline.outbox import OutboxRecord
from streams.pipeline.registry import Registry
from tests.registry_support import NAMES, MemoryRegistry, change, document, registrar, source


class View(Protocol):
    """What a registry holds, for comparison."""

    @property
    def registry(self) -> Registry: ...

    def revisions(self) -> list[tuple[str, int, int, int]]:
        """(id, incarnation, number, sequence), sorted."""
        ...

    def landed(self) -> list[tuple[str, int, int, int]]:
        """(id, incarnation, number, offset on schedules), sorted."""
        ...

    def landed_sequences(self) -> dict[str, int]:
        """id -> the highest sequence read back."""
        ...

    def answers(self) -> dict[str, tuple[str, int | None]]:
        """change id -> (outcome, revision)."""
        ...

    def outbox(self) -> list[OutboxRecord]: ...

    def offsets(self) -> dict[tuple[str, str, int], tuple[int, int]]:
        """(topic, its id, partition) -> (next offset, duplicates)."""
        ...


@dataclass
class MemoryView:
    registry: MemoryRegistry

    def revisions(self) -> list[tuple[str, int, int, int]]:
        return sorted((*key, item.plan.sequence) for key, item in self.registry.tables.revisions.items())

    def landed(self) -> list[tuple[str, int, int, int]]:
        return sorted((*key, item.offset) for key, item in self.registry.tables.landed.items())

    def landed_sequences(self) -> dict[str, int]:
        return {key: known.landed_sequence for key, known in self.registry.tables.known.items()}

    def answers(self) -> dict[str, tuple[str, int | None]]:
        found = self.registry.tables.answers.values()
        return {answer.change_id: (answer.outcome.value, answer.revision) for answer in found}

    def outbox(self) -> list[OutboxRecord]:
        return self.registry.tables.outbox

    def offsets(self) -> dict[tuple[str, str, int], tuple[int, int]]:
        tables = self.registry.tables
        return {
            (at.topic, at.topic_id, at.partition): (next_offset, tables.duplicates.get(at, 0))
            for at, next_offset in tables.offsets.items()
        }


@dataclass
class PostgresView:
    registry: PostgresRegistry
    rows: Callable[[str], list[tuple[Any, ...]]]

    def revisions(self) -> list[tuple[str, int, int, int]]:
        return self.rows("SELECT schedule_id, incarnation, number, sequence FROM revision ORDER BY 1, 2, 3")

    def landed(self) -> list[tuple[str, int, int, int]]:
        return self.rows(
            "SELECT schedule_id, incarnation, number, landed_offset FROM revision WHERE landed_offset IS NOT NULL"
            " ORDER BY 1, 2, 3"
        )

    def landed_sequences(self) -> dict[str, int]:
        return dict(self.rows("SELECT id, landed_sequence FROM schedule"))  # type: ignore[arg-type]  # pairs

    def answers(self) -> dict[str, tuple[str, int | None]]:
        return {row[0]: (row[1], row[2]) for row in self.rows("SELECT change_id, outcome, revision FROM change_result")}

    def outbox(self) -> list[OutboxRecord]:
        rows = self.rows("SELECT topic, key, value, headers, partition, shard FROM outbox ORDER BY id")
        records = [
            OutboxRecord(topic, key, value, headers, partition) for topic, key, value, headers, partition, _ in rows
        ]
        assert [record.shard for record in records] == [row[-1] for row in rows]
        return records

    def offsets(self) -> dict[tuple[str, str, int], tuple[int, int]]:
        found = self.rows("SELECT topic, topic_id, partition, next_offset, duplicates FROM source_offset")
        return {(row[0], row[1], row[2]): (row[3], row[4]) for row in found}


@pytest.fixture(params=["memory", "postgres"])
def view(request: pytest.FixtureRequest) -> Iterator[View]:
    if request.param == "memory":
        yield MemoryView(MemoryRegistry())
        return
    database: EmbeddedDatabase = request.getfixturevalue("database")
    schema: str = request.getfixturevalue("schema")
    migrate(database.dsn, schema)
    with (
        closing(connect(database.dsn, schema, "test")) as look,
        closing(PostgresRegistry(database.dsn, schema)) as real,
    ):
        yield PostgresView(real, lambda query: look.execute(query).fetchall())  # type: ignore[arg-type]  # only ours


CHANGES = (NAMES.schedule_changes, "id-1", 0)


def test_a_change_makes_one_revision_however_often_it_is_read(view: View) -> None:
    first = [source(0, change(change_id="c0")), source(1, change(schedule_id="b", change_id="c1"))]
    report = registrar(view.registry).handle(first)
    assert (report.accepted, report.duplicates) == (2, 0)
    report = registrar(view.registry).handle([*first, source(2, change(change_id="c2", raw=document(gap="shift")))])
    assert (report.accepted, report.duplicates) == (1, 2)
    assert view.revisions() == [("a", 1, 1, 1), ("a", 1, 2, 2), ("b", 1, 1, 1)]
    assert view.offsets() == {CHANGES: (3, 2)}
    assert [(record.topic, record.key) for record in view.outbox()] == [
        (NAMES.schedules, b"a"), (NAMES.schedules, b"b"), (NAMES.schedules, b"a"),
    ]  # fmt: skip
    assert view.answers() == {"c0": ("accepted", 1), "c1": ("accepted", 1), "c2": ("accepted", 2)}


def test_a_batch_decides_each_change_on_what_the_one_before_it_left(view: View) -> None:
    kinds = [ChangeKind.PUT, ChangeKind.PAUSE, ChangeKind.PAUSE, ChangeKind.DELETE, ChangeKind.RESUME, ChangeKind.PUT]
    batch = [source(at, change(kind, change_id=f"c{at}")) for at, kind in enumerate(kinds)]
    report = registrar(view.registry).handle(batch)
    assert (report.accepted, report.unchanged, report.refused) == (4, 1, 1)
    assert view.revisions() == [("a", 1, 1, 1), ("a", 1, 2, 2), ("a", 1, 3, 3), ("a", 2, 1, 4)]
    assert view.answers() == {
        "c0": ("accepted", 1), "c1": ("accepted", 2), "c2": ("unchanged", 2),
        "c3": ("accepted", 3), "c4": ("refused", None), "c5": ("accepted", 1),
    }  # fmt: skip
    plans = [codec.decode(record.value) for record in view.outbox() if record.topic == NAMES.schedules]
    assert [plan.sequence for plan in plans if isinstance(plan, Plan)] == [1, 2, 3, 4]


def test_the_next_batch_goes_on_from_the_last(view: View) -> None:
    for at, kind in enumerate([ChangeKind.PUT, ChangeKind.PUT, ChangeKind.DELETE, ChangeKind.PUT]):
        registrar(view.registry).handle([source(at, change(kind, change_id=f"c{at}"))])
    assert view.revisions() == [("a", 1, 1, 1), ("a", 1, 2, 2), ("a", 2, 1, 3)]
    assert view.answers()["c1"] == ("unchanged", 1)


def test_the_first_answer_stays(view: View) -> None:
    registrar(view.registry).handle([source(0, change()), source(1, change())])
    assert view.answers() == {"c": ("accepted", 1)}


def test_offsets_belong_to_one_life_of_a_topic(view: View) -> None:
    registrar(view.registry).handle([source(7, change())])
    registrar(view.registry).handle([source(0, change(raw=document(gap="shift")), topic_id="id-2")])
    assert view.offsets() == {CHANGES: (8, 0), (NAMES.schedule_changes, "id-2", 0): (1, 0)}
    assert len(view.revisions()) == 2


HOSTILE: list[tuple[bytes | None, bytes | None, str]] = [
    (b"a", b"", "bytes that begin with nothing"),
    (b"a", None, "a null value"),
    (b"\xff\xfe", b"garbage", "no schema here begins so"),
    (b"a", codec.encode(change())[:-3], "can't be read"),
    (b"a", codec.encode(change()) + b"!", "too many"),
    (b"a", codec.encode(Rejection("c", "a", (), "t", 0, 0, b"", 0)), "a Rejection"),
    (b"b", codec.encode(change()), 'the record\'s key is "b"'),
    (None, codec.encode(change()), "the record's key is null"),
    (b"a", codec.encode(change(change_id="nul\0")), "not a plain text"),
    (b"nul\0", codec.encode(change(ChangeKind.DELETE, "nul\0")), "there is no such schedule"),
    (b"x" * 5000, codec.encode(change(ChangeKind.PAUSE, "x" * 5000)), "there is no such schedule"),
    (b"a", codec.encode(change(raw=document(tenant="nul\0"))), "control or unprintable"),
    (b"a", codec.encode(change(raw=document(**{"\ud800": 1, "z\0": 2}))), "there is no such field"),
    (b"a", codec.encode(change(raw={f"k{n}": n for n in range(5000)})), "no such field"),
]


@pytest.mark.parametrize(("key", "value", "problem"), HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_refused_is_kept_whole_with_the_reason(
    view: View, key: bytes | None, value: bytes | None, problem: str
) -> None:
    record = source(0, value, key=key)
    record = type(record)(record.topic, record.topic_id, 3, 41, key, value, record.append_ms)
    report = registrar(view.registry).handle([record])
    assert report.refused == 1
    (written,) = view.outbox()
    assert written.topic == NAMES.rejected
    rejection = codec.decode(written.value)
    assert isinstance(rejection, Rejection)
    assert rejection.record == (value or b"")
    assert (rejection.topic, rejection.partition, rejection.offset) == (NAMES.schedule_changes, 3, 41)
    assert rejection.rejected_at_ms == 1_800_000_000_000
    assert 0 < len(rejection.problems) <= 101
    assert problem in " ".join(text for _, _, text, _ in rejection.problems)
    for _, found, _, _ in rejection.problems:
        json.loads(found)
    assert view.revisions() == []
    assert view.offsets() == {(NAMES.schedule_changes, "id-1", 3): (42, 0)}


def landed(view: View, offset: int, sequence_of: int) -> Any:
    """The plan that the outbox holds at `sequence_of`, as if read back from `schedules` at `offset`."""
    value = view.outbox()[sequence_of].value
    return source(offset, value, key=b"a", topic=NAMES.schedules)


def test_plans_are_noted_where_they_landed(view: View) -> None:
    versions = ("skip", "shift", "next_valid")
    changes = [source(at, change(raw=document(gap=gap))) for at, gap in enumerate(versions)]
    registrar(view.registry).handle(changes)
    again = [landed(view, 5, 0), landed(view, 6, 1), landed(view, 7, 1), landed(view, 8, 2), landed(view, 9, 2)]
    report = registrar(view.registry).handle(again)
    assert (report.landed, report.republished, report.alarms) == (5, (), ())
    assert view.landed() == [("a", 1, 1, 5), ("a", 1, 2, 6), ("a", 1, 3, 8)]
    assert view.landed_sequences() == {"a": 3}
    assert len(view.outbox()) == 3


def test_an_older_plan_that_landed_last_is_followed_by_the_newest_again(view: View) -> None:
    registrar(view.registry).handle([source(0, change()), source(1, change(raw=document(gap="shift")))])
    registrar(view.registry).handle([landed(view, 5, 1)])
    report = registrar(view.registry).handle([landed(view, 6, 0)])
    assert report.republished == ("a",)
    assert view.outbox()[2] == view.outbox()[1]
    report = registrar(view.registry).handle([landed(view, 7, 2)])
    assert (report.republished, report.alarms) == ((), ())
    assert view.landed() == [("a", 1, 2, 5)]


def test_an_older_plan_before_the_newest_has_landed_is_in_order(view: View) -> None:
    registrar(view.registry).handle([source(0, change()), source(1, change(raw=document(gap="shift")))])
    assert registrar(view.registry).handle([landed(view, 5, 0)]).republished == ()
    assert len(view.outbox()) == 2


def test_what_somebody_else_wrote_to_schedules_raises_an_alarm(view: View) -> None:
    registrar(view.registry).handle([source(0, change())])
    ahead = Plan("a", 1, 9, codec_plan(view).revisions)
    report = registrar(view.registry).handle([
        source(5, ahead, topic=NAMES.schedules),
        source(6, Plan("stranger", 1, 1, ahead.revisions), topic=NAMES.schedules),
        source(7, b"garbage", key=b"a", topic=NAMES.schedules),
        source(8, change(), topic=NAMES.schedules),
        source(9, None, key=b"a", topic=NAMES.schedules),
    ])  # fmt: skip
    assert [alarm.split(" offset ")[1][0] for alarm in report.alarms] == ["5", "6", "7", "8"]
    assert (report.landed, view.landed(), len(view.outbox())) == (0, [], 1)


def codec_plan(view: View) -> Plan:
    plan = codec.decode(view.outbox()[0].value)
    assert isinstance(plan, Plan)
    return plan


def test_a_batch_of_both_topics(view: View) -> None:
    registrar(view.registry).handle([source(0, change())])
    mixed = [landed(view, 5, 0), source(1, change(raw=document(gap="shift")))]
    report = registrar(view.registry).handle(mixed)
    assert (report.landed, report.accepted) == (1, 1)
    assert view.offsets() == {CHANGES: (2, 0), (NAMES.schedules, "id-1", 0): (6, 0)}
