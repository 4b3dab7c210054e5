"""Intake: records of one region's occurrences into the ledger, so that a committed offset means "durably there".

The order, for each batch of up to 500 records:

1. Drop what is known: keys named in the headers that the ledger has. Nothing of them is decoded.
2. Decode the rest. What can't be decoded, or is not for this installation, goes to quarantine whole.
3. One transaction: new rows in key order, `ended` applied, duplicates counted, the next offset of each partition.
4. Only then the offsets go to Kafka.

If the database is away nothing is lost: the batch is dropped, and reading goes on from the ledger's own offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from threading import Event
from typing import Final, Protocol

import structlog

from streams.domain.errors import InvalidInput, ServiceUnreachable
from streams.domain.minutes import date_of_day
from streams.domain.occurrence import Ended, Fire, Obligation
from streams.domain.schedule import Mode
from streams.pipeline.ledger import Arrival, Batch, IntakeLedger, Quarantined, RowKey, Written

BATCH_RECORDS: Final = 500
_POLL_S: Final = 0.2
_FIRST_WAIT_S: Final = 0.2
_LONGEST_WAIT_S: Final = 5.0
_FIRST_DATE: Final = date(1990, 1, 1)
_END_DATE: Final = date(2100, 1, 1)
_FIRST_S: Final = 631_000_000  # some days before the first date
_END_S: Final = 253_402_300_800  # the year 10000: beyond it no driver reads a timestamp
_REASON_CHARACTERS: Final = 1000
_KEY_BYTES: Final = 32
_FIRE: Final = b"townclock.occurrence.fire"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read. Headers in their order."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Source(Protocol):
    """The topic, read as a member of the region's group. One owner thread; no call raises while the broker is away."""

    @property
    def topic(self) -> str: ...
    @property
    def topic_id(self) -> str: ...

    def poll(self, most: int, timeout_s: float) -> list[Record]:
        """What there is, waiting only for the first."""
        ...

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Tell the group how far each partition is durable."""
        ...

    def idle(self) -> None:
        """Stay a member while nothing can be taken in."""
        ...

    def resume_from(self, next_offsets: Mapping[int, int]) -> None:
        """Read each partition we have from here on; one that is not named, from its beginning."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Intake:
    """One region's intake. `run` in a thread of its own; `taken_in` is called there after rows became claimable."""

    def __init__(
        self,
        source: Source,
        ledger: IntakeLedger,
        decode: Callable[[bytes | None], object],
        region: str,
        scenario: str | None,
        taken_in: Callable[[], None],
    ) -> None:
        """Nothing is read yet."""
        self._source = source
        self._ledger = ledger
        self._decode = decode
        self._region = region
        self._scenario = scenario
        self._taken_in = taken_in

    def run(self, stop: Event) -> None:
        """Until `stop`; then the group is left."""
        try:
            while not stop.is_set():
                records = self._source.poll(BATCH_RECORDS, _POLL_S)
                if records:
                    self._take_or_wait(records, stop)
        finally:
            self._source.close()

    def take(self, records: Sequence[Record]) -> Written:
        """One batch: see the module. Raises ServiceUnreachable; then it is not known whether it was written."""
        batch = self._sort(records)
        try:
            written = self._ledger.write(batch)
        except InvalidInput as error:
            if len(records) > 1:
                return _sum([self.take([record]) for record in records])
            batch.arrivals.clear()
            batch.ended.clear()
            batch.quarantined = [_quarantined(records[0], str(error))]
            written = self._ledger.write(batch)
        for record in batch.quarantined:
            _log.error(
                "record_quarantined",
                topic=batch.topic,
                partition=record.partition,
                offset=record.offset,
                reason=record.reason,
            )
        self._source.commit(batch.next_offsets)
        if written.begun:
            self._taken_in()
        return written

    def _take_or_wait(self, records: Sequence[Record], stop: Event) -> None:
        try:
            self.take(records)
        except ServiceUnreachable as error:
            _log.warning("intake_waits", problem=str(error))
            self._recover(stop)

    def _recover(self, stop: Event) -> None:
        """Wait for the ledger, then go on from *its* offsets: another server may have taken over, with less in it."""
        wait_s = _FIRST_WAIT_S
        while not stop.wait(wait_s):
            self._source.idle()
            try:
                self._source.resume_from(self._ledger.next_offsets(self._source.topic, self._source.topic_id))
            except ServiceUnreachable as error:
                wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
                _log.warning("intake_waits", problem=str(error), again_in_s=wait_s)
                continue
            _log.info("intake_goes_on")
            return

    def _sort(self, records: Sequence[Record]) -> Batch:
        batch = Batch(self._source.topic, self._source.topic_id)
        named = [_named_row(record) for record in records]
        known = self._known([row for row in named if row is not None])
        for record, row in zip(records, named, strict=True):
            batch.next_offsets[record.partition] = record.offset + 1
            if row is not None and row in known:
                batch.known.append((row, record.partition))
            else:
                self._add(batch, record, known)
        return batch

    def _known(self, rows: Sequence[RowKey]) -> set[RowKey]:
        by_date: dict[date, list[bytes]] = {}
        for row in rows:
            by_date.setdefault(row.date, []).append(row.key)
        return self._ledger.known(by_date) if by_date else set()

    def _add(self, batch: Batch, record: Record, known: set[RowKey]) -> None:
        """Put a record that is not known by its headers where it belongs. Its row is known from now on."""
        try:
            value = self._decode(record.value)
        except InvalidInput as error:
            batch.quarantined.append(_quarantined(record, str(error)))
            return
        if (problem := self._problem(value)) is not None:
            batch.quarantined.append(_quarantined(record, problem))
        elif isinstance(value, Ended):
            batch.ended.append(value)
        elif isinstance(value, Fire):
            row = RowKey(date_of_day(value.ledger_day), bytes.fromhex(value.key), 1 if value.mode is Mode.SHADOW else 0)
            if row in known:
                batch.known.append((row, record.partition))
            else:
                known.add(row)
                batch.arrivals.append(Arrival(row, value, record.partition, record.offset, _traceparent(record)))

    def _problem(self, value: object) -> str | None:
        """Why a decoded record can't be taken in here."""
        if isinstance(value, Obligation):
            return "an obligation (promise: business_date), which this release does not deliver yet"
        if not isinstance(value, Fire | Ended):
            return f"a {type(value).__name__}, which does not belong on this topic"
        if value.region != self._region:
            return f"it is for region {value.region}; this topic is region {self._region}'s"
        if value.scenario != self._scenario:
            there = "a live installation" if self._scenario is None else f"scenario {self._scenario}"
            return f"it is of {value.scenario or 'a live installation'}; this is {there}"
        return _bad_key(value) or _bad_times(value) if isinstance(value, Fire) else None


def _bad_times(fire: Fire) -> str | None:
    for name, at_s in (("instant", fire.instant * 60), ("due", fire.due_s), ("deliver_by", fire.deliver_by_s)):
        if at_s is not None and not _FIRST_S <= at_s < _END_S:
            return f"its {name} is {at_s} s since 1970, which is no time between {_FIRST_DATE.year} and 9999"
    return None


def _bad_key(fire: Fire) -> str | None:
    try:
        right = len(bytes.fromhex(fire.key)) == _KEY_BYTES
        day = date_of_day(fire.ledger_day)
    except (ValueError, OverflowError):
        right, day = False, _FIRST_DATE
    if not right:
        return f"its key {fire.key!r} is not the hex of a sha256, or its date is none"
    if not _FIRST_DATE <= day < _END_DATE:
        return f"its date {day} is not between {_FIRST_DATE} and {_END_DATE}, which the ledger covers"
    return None


def _named_row(record: Record) -> RowKey | None:
    """The live row that a fire's headers name, or none. A shadow's is told by its value only."""
    headers = dict(record.headers)
    if headers.get("ce_type") != _FIRE:
        return None
    try:
        key = bytes.fromhex((headers.get("ce_id") or b"").decode("ascii"))
        return RowKey(date.fromisoformat((headers.get("tc_date") or b"").decode("ascii")), key, 0)
    except ValueError:
        return None


def _traceparent(record: Record) -> str | None:
    for name, value in record.headers:
        if name == "traceparent" and value is not None:
            return value.decode("ascii", "replace")
    return None


def _quarantined(record: Record, why: str) -> Quarantined:
    why = why.replace("\0", "\\0")[:_REASON_CHARACTERS]  # it may quote the record
    return Quarantined(record.partition, record.offset, record.key, record.value, record.headers, why)


def _sum(parts: Sequence[Written]) -> Written:
    begun: dict[str, int] = {}
    for part in parts:
        for state, count in part.begun.items():
            begun[state] = begun.get(state, 0) + count
    return Written(begun, sum(part.duplicates for part in parts))
