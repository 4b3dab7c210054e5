"""The commit order: what is committed was acknowledged, and what is judged wrong is not committed."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.domain.occurrence import OccurrenceRecord
from streams.pipeline.cursors import Cursor, Verdict, judge
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.join import PartitionJoin
from streams.pipeline.join_round import JoinRound
from tests.unit.test_partition_join import START, TERMS, plan, tick, tz_book


class Broker:
    """Both ports in memory. `fail` has what the next calls raise, by name."""

    def __init__(self) -> None:
        self.committed: dict[int, Cursor | None] = {2: Cursor(0)}
        self.unacknowledged: list[tuple[int, OccurrenceRecord]] = []
        self.acknowledged: list[tuple[int, OccurrenceRecord]] = []
        self.fail: dict[str, list[BaseException]] = {}
        self.refused: dict[int, BrokenPromise] = {}
        self.calls: list[str] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.fail.get(name):
            raise self.fail[name].pop()

    def emit(self, partition: int, record: OccurrenceRecord) -> None:
        self._call("emit")
        self.unacknowledged.append((partition, record))

    def flush(self) -> Mapping[int, BrokenPromise]:
        self._call("flush")
        self.acknowledged += self.unacknowledged
        self.unacknowledged = []
        return self.refused

    def read(self, partitions: Collection[int]) -> Mapping[int, Cursor | None]:
        self._call("read")
        return {partition: self.committed[partition] for partition in partitions}

    def write(self, cursors: Mapping[int, Cursor]) -> None:
        self._call("write")
        self.committed.update(cursors)


class Worker:
    """A round over partition 2 with one schedule that fires every minute."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.moved: list[Mapping[int, Cursor | None]] = []
        self.stop = False
        self.round = JoinRound(self.broker, self.broker, "me", self.moved.append, lambda: self.stop)
        self.round.generation = 3
        self.join = PartitionJoin(2, TERMS, tz_book(), Cursor(0))
        self.join.add_plan(0, 0, "a", plan(1))
        self.round.begin(self.join, Cursor(0))

    def ticks(self, first: int, count: int) -> None:
        for offset in range(first, first + count):
            self.join.add_tick(offset, tick(START + offset))


def test_emitted_then_acknowledged_then_looked_at_then_committed() -> None:
    worker = Worker()
    worker.ticks(0, 3)
    assert worker.round.run()
    assert worker.broker.calls == ["emit", "emit", "emit", "flush", "read", "write"]
    assert worker.broker.committed == {2: Cursor(3, START + 2, 3, "me")}
    assert not worker.round.run()


@pytest.mark.parametrize("call", ["emit", "flush", "read", "write"])
def test_after_a_failure_the_same_batch_is_tried_again_and_nothing_is_committed_before(call: str) -> None:
    worker = Worker()
    worker.ticks(0, 3)
    worker.broker.fail[call] = [ServiceUnreachable("away"), ServiceUnreachable("away")]
    for _ in range(2):
        with pytest.raises(ServiceUnreachable):
            worker.round.run()
        assert worker.broker.committed == {2: Cursor(0)}
    worker.ticks(3, 1)
    assert worker.round.run()
    assert worker.broker.committed == {2: Cursor(3, START + 2, 3, "me")}
    assert {record.instant for _, record in worker.broker.acknowledged} == {START, START + 1, START + 2}


def test_an_interruption_between_acknowledgement_and_commit_commits_nothing() -> None:
    worker = Worker()
    worker.ticks(0, 3)
    worker.broker.fail["flush"] = [Interrupted()]
    with pytest.raises(Interrupted):
        worker.round.run()
    worker.stop = True
    with pytest.raises(Interrupted):
        worker.round.run()
    assert worker.broker.committed == {2: Cursor(0)}
    worker.stop = False
    assert worker.round.run()
    assert worker.broker.committed == {2: Cursor(3, START + 2, 3, "me")}


def test_a_reset_before_the_commit_is_not_overwritten() -> None:
    worker = Worker()
    worker.ticks(0, 5)
    worker.round.run()
    worker.ticks(5, 5)
    worker.broker.committed[2] = Cursor(1)
    worker.round.run()
    assert worker.moved == [{2: Cursor(1)}]
    assert worker.broker.committed == {2: Cursor(1)}


def test_a_zombies_regression_is_overwritten_and_a_newer_worker_is_obeyed() -> None:
    worker = Worker()
    worker.ticks(0, 5)
    worker.round.run()
    worker.ticks(5, 5)
    worker.broker.committed[2] = Cursor(2, START + 1, 2, "zombie")
    worker.round.look()
    worker.round.run()
    assert not worker.moved
    assert worker.broker.committed == {2: Cursor(10, START + 9, 3, "me")}
    worker.ticks(10, 1)
    worker.broker.committed[2] = Cursor(30, START + 29, 4, "heir")
    worker.round.run()
    assert worker.moved == [{2: Cursor(30, START + 29, 4, "heir")}]
    assert worker.broker.committed[2] == Cursor(30, START + 29, 4, "heir")


def test_a_cursor_that_vanishes_is_told_once_it_was_there() -> None:
    worker = Worker()
    worker.broker.committed[2] = None
    worker.round.look()
    assert worker.moved == [{2: None}]


def test_what_the_broker_refuses_stops_its_partition_and_commits_nothing() -> None:
    worker = Worker()
    worker.ticks(0, 3)
    worker.broker.refused = {2: BrokenPromise("too large")}
    worker.round.run()
    assert worker.join.problem is not None
    assert worker.broker.committed == {2: Cursor(0)}


def test_records_in_the_middle_of_a_filled_hole_are_emitted_before_the_cursor_moves() -> None:
    worker = Worker()
    worker.ticks(0, 1)
    worker.round.run()
    worker.join.add_tick(1, tick(START + 700))
    while worker.round.run():
        pass
    assert [record.instant for _, record in worker.broker.acknowledged] == [START + n for n in range(701)]
    assert worker.broker.committed == {2: Cursor(2, START + 700, 3, "me")}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (None, Verdict.MISSING),
        (Cursor(5, 50, 3, "me"), Verdict.MINE),
        (Cursor(9, 90, 3, "me"), Verdict.MINE),
        (Cursor(5), Verdict.MOVED),
        (Cursor(0), Verdict.MOVED),
        (Cursor(8, 80, 1, "other"), Verdict.MOVED),
        (Cursor(2, 20, 2, "other"), Verdict.MINE),
        (Cursor(2, 20, 4, "other"), Verdict.MOVED),
        (Cursor(5, 50, 2, "other"), Verdict.MINE),
    ],
)
def test_verdicts(found: Cursor | None, verdict: Verdict) -> None:
    assert judge(Cursor(5, 50, 3, "me"), found, "me", 3) is verdict


@pytest.mark.parametrize(
    "text", [None, "", "reset", "[]", "{}", '{"minute": -1, "generation": 0, "session": "0"}', '{"minute": 3}']
)
def test_metadata_that_is_not_a_workers_means_set_by_hand(text: str | None) -> None:
    assert Cursor.parse(7, text) == Cursor(7)


def test_metadata_comes_back_as_it_was_written() -> None:
    cursor = Cursor(7, 29_000_000, 4, "0b9c")
    assert Cursor.parse(7, cursor.metadata) == cursor
