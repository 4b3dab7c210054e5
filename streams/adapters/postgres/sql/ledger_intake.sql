-- Intake: records of occurrences.<region> into the ledger. Rows come sorted by (date, key): unsorted batches deadlock.

-- name: next_offsets
-- How far each partition of one topic is durably taken in.
SELECT partition, next_offset FROM source_offset WHERE topic = %(topic)s AND topic_id = %(topic_id)s

-- name: lanes
SELECT region, provider, id FROM lane

-- name: add_lane
INSERT INTO lane (region, provider) VALUES (%(region)s, %(provider)s) ON CONFLICT DO NOTHING

-- name: ensure_month
SELECT ensure_month(%(day)s)

-- name: known
-- Which of these keys of one date are in the ledger. Asked first: a refused insert still locks and writes.
SELECT key, mode FROM occurrence WHERE date = %(date)b AND key = ANY(%(keys)b::bytea[])

-- name: insert_occurrences
-- New keys with where each begins: in the queue, or closed at once if its schedule only shadows or has ended.
WITH given AS (
    SELECT * FROM unnest(
        %(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(lane)b::smallint[], %(schedule_id)b::text[],
        %(incarnation)b::int[], %(revision)b::bigint[], %(promise)b::text[], %(gap)b::text[], %(overlap)b::text[],
        %(nominal_minute)b::bigint[], %(copy)b::smallint[], %(zone)b::text[], %(instant_minute)b::bigint[],
        %(due_s)b::bigint[], %(deliver_by_s)b::bigint[], %(late_policy)b::text[], %(tz_version)b::text[],
        %(tick_partition)b::int[], %(tick_offset)b::bigint[], %(tick_watermark)b::bigint[], %(tenant)b::text[],
        %(account)b::text[], %(destination)b::text[], %(payload)b::text[], %(on_delete)b::text[],
        %(scenario)b::text[], %(traceparent)b::text[], %(source_partition)b::int[], %(source_offset)b::bigint[]
    ) AS g (
        date, key, mode, lane, schedule_id, incarnation, revision, promise, gap, overlap, nominal_minute, copy, zone,
        instant_minute, due_s, deliver_by_s, late_policy, tz_version, tick_partition, tick_offset, tick_watermark,
        tenant, account, destination, payload, on_delete, scenario, traceparent, source_partition, source_offset
    )
), fresh AS (
    INSERT INTO occurrence (
        date, key, mode, lane, schedule_id, incarnation, revision, promise, gap, overlap, nominal, copy, zone,
        instant, due, deliver_by, late_policy, tz_version, tick_partition, tick_offset, tick_watermark,
        tenant, account, destination, payload, on_delete, scenario, traceparent, source_topic, source_partition,
        source_offset
    )
    SELECT
        date, key, mode, lane, schedule_id, incarnation, revision, promise, gap, overlap,
        timestamp 'epoch' + nominal_minute * interval '1 minute', copy, zone,
        to_timestamp(instant_minute * 60), to_timestamp(due_s), to_timestamp(deliver_by_s), late_policy, tz_version,
        tick_partition, tick_offset, tick_watermark, tenant, account, destination, payload, on_delete, scenario,
        traceparent, %(source_topic)b::text, source_partition, source_offset
    FROM given
    ON CONFLICT DO NOTHING
    RETURNING date, key, mode, lane, tenant, schedule_id, due, instant, on_delete
), begun AS MATERIALIZED (
    SELECT f.*, e.reason AS ended, CASE
        WHEN f.mode = 1 THEN 'shadowed'
        WHEN f.on_delete = 'cancel' AND f.instant < e.instant THEN 'cancelled'
        ELSE 'pending' END AS state
    FROM fresh f LEFT JOIN schedule_ended e ON e.schedule_id = f.schedule_id
), queued AS (
    INSERT INTO queue (date, key, mode, lane, tenant, schedule_id, next_at, state)
    SELECT date, key, mode, lane, tenant, schedule_id, due, 'pending' FROM begun WHERE state = 'pending'
), shut AS (
    INSERT INTO closed (date, key, mode, state, reason)
    SELECT date, key, mode, state::delivery_state,
        CASE state WHEN 'shadowed' THEN 'shadow' ELSE 'the schedule was ' || ended || ' before it arrived' END
    FROM begun WHERE state <> 'pending'
)
SELECT date, key, mode, state FROM begun

-- name: note_ended
-- Keep the latest instant per schedule, for rows that arrive later.
INSERT INTO schedule_ended AS kept (schedule_id, instant, incarnation, revision, reason)
SELECT schedule_id, to_timestamp(instant_minute * 60), incarnation, revision, reason FROM unnest(
    %(schedule_id)b::text[], %(instant_minute)b::bigint[], %(incarnation)b::int[], %(revision)b::bigint[],
    %(reason)b::text[]
) AS g (schedule_id, instant_minute, incarnation, revision, reason)
ON CONFLICT (schedule_id) DO UPDATE
SET instant = excluded.instant, incarnation = excluded.incarnation, revision = excluded.revision,
    reason = excluded.reason, at = now()
WHERE excluded.instant > kept.instant

-- name: cancel_ended
-- Unsent rows of earlier instants end, unless an attempt is in doubt or their terms say to deliver.
WITH gone AS (
    DELETE FROM queue q
    USING unnest(%(schedule_id)b::text[], %(instant_minute)b::bigint[], %(reason)b::text[])
        AS e (schedule_id, instant_minute, reason), occurrence o
    WHERE q.schedule_id = e.schedule_id AND q.state IN ('waiting', 'pending', 'retry') AND q.in_doubt_since IS NULL
        AND o.date = q.date AND o.key = q.key AND o.mode = q.mode
        AND o.on_delete = 'cancel' AND o.instant < to_timestamp(e.instant_minute * 60)
    RETURNING q.date, q.key, q.mode, e.reason
)
INSERT INTO closed (date, key, mode, state, reason)
SELECT date, key, mode, 'cancelled', 'the schedule was ' || reason FROM gone

-- name: quarantine
INSERT INTO quarantine (topic, topic_id, partition, source_offset, key, value, headers, reason)
VALUES (%(topic)s, %(topic_id)s, %(partition)s, %(offset)s, %(key)b, %(value)b, %(headers)s, %(reason)s)
ON CONFLICT DO NOTHING

-- name: note_duplicates
INSERT INTO duplicate_batch (first_date, last_date, duplicates, topic, keys)
VALUES (%(first_date)b, %(last_date)b, %(duplicates)s, %(topic)s, %(keys)b)

-- name: advance_offset
-- The greater of old and new: a reset re-reads, and never takes the ledger's own offset back.
INSERT INTO source_offset AS s (topic, topic_id, partition, next_offset, duplicates)
VALUES (%(topic)s, %(topic_id)s, %(partition)s, %(next_offset)s, %(duplicates)s)
ON CONFLICT (topic, topic_id, partition) DO UPDATE
SET next_offset = greatest(s.next_offset, excluded.next_offset), duplicates = s.duplicates + excluded.duplicates
