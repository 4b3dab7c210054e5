"""Fires, and a ledger to put them in."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

import psycopg

from streams.adapters.postgres.base import migrate
from streams.adapters.postgres.ledger_dispatch import LaneConnections, PostgresLane
from streams.adapters.postgres.ledger_intake import PostgresIntake
from streams.adapters.postgres.link import WORKER_SETTINGS, Link
from streams.domain.keys import label_key
from streams.domain.minutes import MINUTES_PER_DAY, date_of_day, parse_label
from streams.domain.occurrence import Ended, Fire, TickSource
from streams.domain.schedule import Gap, LatePolicy, Mode, OnDelete, Overlap, Policy, Promise
from streams.pipeline.ledger import Arrival, Batch, RowKey

TOPIC = "t-occurrences.eu"
TOPIC_ID = "topic-1"


def make_fire(schedule_id: str = "s-1", label: str = "2026-11-01T09:00", **changes: object) -> Fire:
    """An ordinary fire in UTC, due at its label."""
    minute = parse_label(label)
    fire = Fire(
        key=label_key(schedule_id, minute),
        schedule_id=schedule_id,
        incarnation=1,
        revision=1,
        promise=Promise.LABEL,
        policy=Policy(Gap.SKIP, Overlap.FIRST),
        nominal=minute,
        copy=0,
        zone="Etc/UTC",
        instant=minute,
        due_s=minute * 60,
        deliver_by_s=None,
        late_policy=LatePolicy.ALL,
        ledger_day=minute // MINUTES_PER_DAY,
        tz_version="2026f",
        source=TickSource(0, 7, 3),
        region="eu",
        tenant="default",
        account=None,
        provider="eu-mail",
        to="somebody@example.org",
        payload='{"text":"grüß"}',
        mode=Mode.LIVE,
        on_delete=OnDelete.CANCEL,
        scenario=None,
    )
    return replace(fire, **changes)  # type: ignore[arg-type]


def make_ended(schedule_id: str, instant: str, reason: str = "deleted") -> Ended:
    """A delete or pause at an instant (a UTC label)."""
    return Ended(schedule_id, 1, 2, reason, parse_label(instant), TickSource(0, 8, 4), "eu", "default", None)


def row_of(fire: Fire) -> RowKey:
    """Where a fire's row is."""
    return RowKey(date_of_day(fire.ledger_day), bytes.fromhex(fire.key), 1 if fire.mode is Mode.SHADOW else 0)


def batch_of(fires: Sequence[Fire], ended: Sequence[Ended] = (), offset: int = 0) -> Batch:
    """The batch intake makes of them, read from partition 0 at ascending offsets."""
    arrivals = [Arrival(row_of(fire), fire, 0, offset + n, None) for n, fire in enumerate(fires)]
    return Batch(TOPIC, TOPIC_ID, {0: offset + len(fires) + len(ended)}, arrivals, list(ended))


class Bench:
    """A migrated schema with an intake and a lane on it."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn, self.schema = dsn, schema
        migrate(dsn, schema)
        self.intake = PostgresIntake(dsn, schema)
        self.sql = psycopg.connect(dsn, autocommit=True, options=f"-c search_path={schema} -c timezone=UTC")

    def lane(self, shared: LaneConnections, provider: str = "eu-mail", start: float = 0.0) -> PostgresLane:
        """A lane made by intake before."""
        row = self.sql.execute("SELECT id FROM lane WHERE provider = %s", (provider,)).fetchone()
        assert row is not None
        return PostgresLane(row[0], "eu", provider, Link(self.dsn, self.schema, "work", WORKER_SETTINGS), shared, start)

    def session(self, lease_s: float = 60.0) -> int:
        """An open session."""
        row = self.sql.execute(
            "INSERT INTO worker_session (session_id, region, expires_at) VALUES"
            " (gen_random_uuid(), 'eu', clock_timestamp() + %s * interval '1 second') RETURNING id",
            (lease_s,),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def states(self) -> dict[str, str]:
        """State by schedule id, as the view says."""
        return dict(self.sql.execute("SELECT schedule_id, state FROM ledger").fetchall())

    def close(self) -> None:
        self.intake.close()
        self.sql.close()


FAR_S = dt.datetime(2100, 1, 1, tzinfo=dt.UTC).timestamp()
