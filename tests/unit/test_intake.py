"""Intake's sorting of a batch and its recovery, over a ledger and a source in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from threading import Event

import pytest

from streams.adapters.codec import decode, encode
from streams.adapters.kafka.occurrence_emitter import headers_of
from streams.domain.errors import InvalidInput, ServiceUnreachable
from streams.domain.occurrence import Obligation, OccurrenceRecord, TickSource
from streams.domain.schedule import Mode, OnDelete
from streams.pipeline.intake import Intake, Record
from streams.pipeline.ledger import Batch, RowKey, Written
from tests.ledger_support import make_ended, make_fire, row_of


class Ledger:
    """Keeps rows in memory; is away `away` times; refuses batches that hold a poisoned key."""

    def __init__(self) -> None:
        self.rows: set[RowKey] = set()
        self.batches: list[Batch] = []
        self.away = 0
        self.poison: set[str] = set()

    def next_offsets(self, topic: str, topic_id: str) -> dict[int, int]:
        self._answer()
        return {0: 7}

    def known(self, keys: Mapping[date, Sequence[bytes]]) -> set[RowKey]:
        self._answer()
        return {row for row in self.rows if row.key in keys.get(row.date, ())}

    def write(self, batch: Batch) -> Written:
        self._answer()
        if any(arrival.fire.key in self.poison for arrival in batch.arrivals):
            raise InvalidInput("a record can't be stored: poison")
        self.batches.append(batch)
        new = {arrival.row for arrival in batch.arrivals} - self.rows
        self.rows |= new
        return Written({"pending": len(new)} if new else {}, len(batch.known) + len(batch.arrivals) - len(new))

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise ServiceUnreachable("away")


class Source:
    """Gives batches once each; remembers what it was told."""

    topic, topic_id = "occurrences.eu", "id"

    def __init__(self, *batches: list[Record]) -> None:
        self.batches = list(batches)
        self.commits: list[Mapping[int, int]] = []
        self.resumed: list[Mapping[int, int]] = []
        self.idled = 0
        self.closed = False
        self.stop = Event()

    def poll(self, most: int, timeout_s: float) -> list[Record]:
        if self.batches:
            return self.batches.pop(0)
        self.stop.set()
        return []

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        self.commits.append(dict(next_offsets))

    def idle(self) -> None:
        self.idled += 1

    def resume_from(self, next_offsets: Mapping[int, int]) -> None:
        self.resumed.append(dict(next_offsets))

    def close(self) -> None:
        self.closed = True


def record(value: OccurrenceRecord, offset: int, partition: int = 0) -> Record:
    return Record(partition, offset, value.schedule_id.encode(), encode(value), headers_of(value))


def intake(source: Source, ledger: Ledger, scenario: str | None = None, woken: list[int] | None = None) -> Intake:
    return Intake(source, ledger, decode, "eu", scenario, lambda: (woken if woken is not None else []).append(1))


def test_a_batch_in_order_and_offsets_after_it() -> None:
    source, ledger, woken = Source(), Ledger(), []
    fires = [make_fire("a"), make_fire("b")]
    written = intake(source, ledger, woken=woken).take(
        [record(fires[0], 5), record(make_ended("a", "2026-11-02T00:00"), 6), record(fires[1], 9, partition=2)]
    )
    assert written.begun == {"pending": 2}
    assert source.commits == [{0: 7, 2: 10}]
    assert [ended.schedule_id for ended in ledger.batches[0].ended] == ["a"]
    assert woken == [1]


def test_a_known_key_is_told_by_its_headers_and_never_decoded() -> None:
    source, ledger = Source(), Ledger()
    fire = make_fire("a")
    ledger.rows.add(row_of(fire))
    undecodable = Record(0, 3, b"a", b"not a record", headers_of(fire))
    written = intake(source, ledger).take([undecodable])
    assert (written.begun, written.duplicates) == ({}, 1)
    assert ledger.batches[0].known == [(row_of(fire), 0)]
    assert not ledger.batches[0].quarantined
    assert source.commits == [{0: 4}]


def test_a_shadow_known_says_nothing_of_the_live_one() -> None:
    ledger = Ledger()
    ledger.rows.add(row_of(make_fire("a", mode=Mode.SHADOW)))
    assert intake(Source(), ledger).take([record(make_fire("a"), 0)]).begun == {"pending": 1}
    assert intake(Source(), ledger).take([record(make_fire("a", mode=Mode.SHADOW), 1)]).duplicates == 1


@pytest.mark.parametrize("headers", [True, False])
def test_twice_in_one_batch_counts_once(headers: bool) -> None:
    ledger, fire = Ledger(), make_fire("a")
    records = [record(fire, 0), record(fire, 1)]
    if not headers:
        records = [Record(each.partition, each.offset, each.key, each.value, ()) for each in records]
    written = intake(Source(), ledger).take(records)
    assert (written.begun, written.duplicates) == ({"pending": 1}, 1)
    assert len(ledger.batches[0].arrivals) == 1


def obligation() -> Obligation:
    fire = make_fire("a")
    source, keep = TickSource(0, 1, 2), OnDelete.CANCEL
    return Obligation(
        fire.key, "a", 1, 1, "Etc/UTC", 1, 20_000, "2026f", source, "eu", "default", None, Mode.LIVE, keep, None
    )


@pytest.mark.parametrize(
    ("value", "scenario", "why"),
    [
        (make_fire("a", region="us"), None, "region us"),
        (make_fire("a", scenario="x"), None, "it is of x; this is a live installation"),
        (make_fire("a"), "x", "it is of a live installation; this is scenario x"),
        (make_fire("a", "1989-12-31T00:00"), None, "1989-12-31 is not between"),
        (make_fire("a", "2100-01-01T00:00"), None, "2100-01-01 is not between"),
        (make_fire("a", key="xyz"), None, "not the hex of a sha256"),
        (make_fire("a", key="abcd"), None, "not the hex of a sha256"),
        (make_fire("a", due_s=-100_000_000_000), None, "its due is -100000000000 s since 1970"),
        (make_fire("a", deliver_by_s=300_000_000_000), None, "its deliver_by is 300000000000 s since 1970"),
        (make_fire("a", instant=-10_000_000), None, "its instant is -600000000 s since 1970"),
        (make_fire("a", region="e\0u"), None, "region e\\0u"),
        (obligation(), None, "business_date"),
    ],
)
def test_what_is_not_for_here_goes_to_quarantine_whole(value: OccurrenceRecord, scenario: str | None, why: str) -> None:
    source, ledger = Source(), Ledger()
    read = record(value, 4)
    intake(source, ledger, scenario).take([read])
    (kept,) = ledger.batches[0].quarantined
    assert why in kept.reason
    assert (kept.value, kept.key, list(kept.headers), kept.offset) == (read.value, read.key, list(read.headers), 4)
    assert source.commits == [{0: 5}]
    assert not ledger.rows


def test_a_record_that_cannot_be_stored_is_found_and_kept_apart() -> None:
    source, ledger = Source(), Ledger()
    fires = [make_fire("a"), make_fire("b"), make_fire("c")]
    ledger.poison.add(fires[1].key)
    written = intake(source, ledger).take([record(fire, n) for n, fire in enumerate(fires)])
    assert written.begun == {"pending": 2}
    assert ledger.rows == {row_of(fires[0]), row_of(fires[2])}
    assert [kept.offset for batch in ledger.batches for kept in batch.quarantined] == [1]
    assert source.commits[-1] == {0: 3}


def test_a_ledger_away_commits_nothing_and_reading_goes_on_from_its_offsets() -> None:
    source, ledger = Source([record(make_fire("a"), 9)]), Ledger()
    ledger.away = 3
    intake(source, ledger).run(source.stop)
    assert source.commits == []
    assert source.resumed == [{0: 7}]
    assert source.idled == 3
    assert source.closed
