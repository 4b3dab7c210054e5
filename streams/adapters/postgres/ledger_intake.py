"""The ledger for intake: see `streams.pipeline.ledger.IntakeLedger`. One connection, reopened when it is lost."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import psycopg

from streams.adapters.postgres.base import LOST, Connection, connect, statements, unreachable
from streams.adapters.postgres.link import WORKER_SETTINGS
from streams.domain.errors import InvalidInput
from streams.domain.occurrence import Ended
from streams.pipeline.ledger import Arrival, Batch, Quarantined, RowKey, Written

KEY_PREFIX_BYTES = 8


class PostgresIntake:
    """Intake's own connection. For one thread."""

    def __init__(self, dsn: str, schema: str) -> None:
        """Connects when first used."""
        self._where = (dsn, schema)
        self._sql = statements("ledger_intake")
        self._connection: Connection | None = None
        self._lanes: dict[tuple[str, str], int] = {}
        self._months: set[tuple[int, int]] = set()

    def next_offsets(self, topic: str, topic_id: str) -> dict[int, int]:
        """See IntakeLedger."""
        try:
            rows = self._open().execute(self._sql["next_offsets"], {"topic": topic, "topic_id": topic_id}).fetchall()
        except LOST as error:
            raise self._lost(error) from None
        return dict(rows)

    def known(self, keys: Mapping[date, Sequence[bytes]]) -> set[RowKey]:
        """See IntakeLedger."""
        found: set[RowKey] = set()
        try:
            connection = self._open()
            for day in sorted(keys):
                rows = connection.execute(self._sql["known"], {"date": day, "keys": list(keys[day])}, binary=True)
                found.update(RowKey(day, key, mode) for key, mode in rows)
        except LOST as error:
            raise self._lost(error) from None
        return found

    def write(self, batch: Batch) -> Written:
        """See IntakeLedger. Lanes and months that are missing are made first, in transactions of their own."""
        try:
            connection = self._open()
            self._make_months({arrival.row.date for arrival in batch.arrivals})
            self._make_lanes({(arrival.fire.region, arrival.fire.provider) for arrival in batch.arrivals})
            with connection.transaction():
                return self._write(connection, batch)
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded, OverflowError) as error:
            self._forget()
            raise InvalidInput(f"a record can't be stored: {str(error).splitlines()[0]}") from None
        except LOST as error:
            raise self._lost(error) from None

    def close(self) -> None:
        """End the connection. Again: nothing."""
        self._forget()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, connection: Connection, batch: Batch) -> Written:
        if batch.ended:
            connection.execute(self._sql["note_ended"], _ended_columns(batch.ended), binary=True)
        begun = self._insert(connection, batch)
        if batch.ended:
            connection.execute(self._sql["cancel_ended"], _ended_columns(batch.ended))
        for record in batch.quarantined:
            connection.execute(self._sql["quarantine"], _quarantine_row(batch, record))
        duplicates = [
            *batch.known,
            *((arrival.row, arrival.partition) for arrival in batch.arrivals if arrival.row not in begun),
        ]
        if duplicates:
            connection.execute(
                self._sql["note_duplicates"], _duplicate_row(batch.topic, [row for row, _ in duplicates])
            )
        by_partition = Counter(partition for _, partition in duplicates)
        for partition in sorted(batch.next_offsets):
            row = {
                "topic": batch.topic,
                "topic_id": batch.topic_id,
                "partition": partition,
                "next_offset": batch.next_offsets[partition],
                "duplicates": by_partition[partition],
            }
            connection.execute(self._sql["advance_offset"], row)
        return Written(Counter(begun.values()), len(duplicates))

    def _insert(self, connection: Connection, batch: Batch) -> dict[RowKey, str]:
        if not batch.arrivals:
            return {}
        arrivals = sorted(batch.arrivals, key=lambda arrival: arrival.row)
        lanes = [self._lanes[arrival.fire.region, arrival.fire.provider] for arrival in arrivals]
        columns = {**_columns(arrivals), "lane": lanes, "source_topic": batch.topic}
        rows = connection.execute(self._sql["insert_occurrences"], columns, binary=True).fetchall()
        return {RowKey(day, key, mode): state for day, key, mode, state in rows}

    def _make_lanes(self, wanted: set[tuple[str, str]]) -> None:
        if wanted <= self._lanes.keys():
            return
        connection = self._open()
        for _ in range(2):
            self._lanes = {(region, name): lane for region, name, lane in connection.execute(self._sql["lanes"])}
            for region, provider in sorted(wanted - self._lanes.keys()):
                connection.execute(self._sql["add_lane"], {"region": region, "provider": provider})

    def _make_months(self, days: set[date]) -> None:
        for month in sorted({(day.year, day.month) for day in days} - self._months):
            self._open().execute(self._sql["ensure_month"], {"day": date(*month, 1)})
            self._months.add(month)

    def _forget(self) -> None:
        """What is known of lanes and months holds for one server: the next may have been restored without them."""
        self._lanes = {}
        self._months = set()

    def _open(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self.close()
            self._connection = connect(*self._where, "intake", autocommit=True, **WORKER_SETTINGS)
            self._connection.prepare_threshold = 0
        return self._connection

    def _lost(self, error: psycopg.Error) -> Exception:
        self.close()
        return unreachable(error)


def _columns(arrivals: Sequence[Arrival]) -> dict[str, list[Any]]:
    fires = [arrival.fire for arrival in arrivals]
    return {
        "date": [arrival.row.date for arrival in arrivals],
        "key": [arrival.row.key for arrival in arrivals],
        "mode": [arrival.row.mode for arrival in arrivals],
        "schedule_id": [fire.schedule_id for fire in fires],
        "incarnation": [fire.incarnation for fire in fires],
        "revision": [fire.revision for fire in fires],
        "promise": [fire.promise.value for fire in fires],
        "gap": [fire.policy.gap.value for fire in fires],
        "overlap": [fire.policy.overlap.value for fire in fires],
        "nominal_minute": [fire.nominal for fire in fires],
        "copy": [fire.copy for fire in fires],
        "zone": [fire.zone for fire in fires],
        "instant_minute": [fire.instant for fire in fires],
        "due_s": [fire.due_s for fire in fires],
        "deliver_by_s": [fire.deliver_by_s for fire in fires],
        "late_policy": [fire.late_policy.value for fire in fires],
        "tz_version": [fire.tz_version for fire in fires],
        "tick_partition": [fire.source.partition for fire in fires],
        "tick_offset": [fire.source.offset for fire in fires],
        "tick_watermark": [fire.source.watermark for fire in fires],
        "tenant": [fire.tenant for fire in fires],
        "account": [fire.account for fire in fires],
        "destination": [fire.to for fire in fires],
        "payload": [fire.payload for fire in fires],
        "on_delete": [fire.on_delete.value for fire in fires],
        "scenario": [fire.scenario for fire in fires],
        "traceparent": [arrival.traceparent for arrival in arrivals],
        "source_partition": [arrival.partition for arrival in arrivals],
        "source_offset": [arrival.offset for arrival in arrivals],
    }


def _ended_columns(records: Sequence[Ended]) -> dict[str, list[Any]]:
    """The latest of each schedule, by id."""
    latest: dict[str, Ended] = {}
    for record in records:
        kept = latest.get(record.schedule_id)
        if kept is None or record.instant > kept.instant:
            latest[record.schedule_id] = record
    chosen = [latest[schedule_id] for schedule_id in sorted(latest)]
    return {
        "schedule_id": [record.schedule_id for record in chosen],
        "instant_minute": [record.instant for record in chosen],
        "incarnation": [record.incarnation for record in chosen],
        "revision": [record.revision for record in chosen],
        "reason": [record.reason for record in chosen],
    }


def _quarantine_row(batch: Batch, record: Quarantined) -> dict[str, Any]:
    # jsonb has no NUL; the names are for people, and the bytes of key and value are kept as they are
    headers = [[name.replace("\0", "\\0"), None if value is None else value.hex()] for name, value in record.headers]
    return {
        "topic": batch.topic,
        "topic_id": batch.topic_id,
        "partition": record.partition,
        "offset": record.offset,
        "key": record.key,
        "value": record.value,
        "headers": json.dumps(headers),
        "reason": record.reason,
    }


def _duplicate_row(topic: str, rows: Sequence[RowKey]) -> dict[str, Any]:
    return {
        "first_date": min(row.date for row in rows),
        "last_date": max(row.date for row in rows),
        "duplicates": len(rows),
        "topic": topic,
        "keys": b"".join(row.key[:KEY_PREFIX_BYTES] for row in rows),
    }
