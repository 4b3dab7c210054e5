-- Audit: all that is known of one key, and what revisions a schedule has had.

-- name: occurrence
-- A live row comes before a shadow of the same key. Without a date every month is asked, by its primary key.
SELECT
    o.date, o.mode, encode(o.key, 'hex'), o.schedule_id, o.incarnation, o.revision, o.promise, o.gap, o.overlap,
    l.nominal, o.zone, o.instant, o.due, o.tz_version, o.tick_partition, o.tick_offset, o.tick_watermark,
    l.region, l.provider, l.state, l.attempts, l.in_doubt_since, o.source_topic, o.source_partition, o.source_offset
FROM occurrence o
JOIN ledger l ON l.date = o.date AND l.key = encode(o.key, 'hex')
    AND l.mode = CASE o.mode WHEN 0 THEN 'live' ELSE 'shadow' END
WHERE o.key = %(key)s AND o.date = %(date)s
ORDER BY o.mode
LIMIT 1

-- name: date_of_key
SELECT date FROM occurrence WHERE key = %(key)s LIMIT 1

-- name: tries
SELECT n, started_at, outcome, code FROM attempt
WHERE date = %(date)s AND key = %(key)s AND mode = %(mode)s ORDER BY n

-- name: duplicates
-- The batches of duplicates that may name the key; the reader counts.
SELECT keys FROM duplicate_batch
WHERE first_date <= %(date)s AND last_date >= %(date)s AND position(%(prefix)s IN keys) > 0

-- name: why
-- Why an open row is where it is, or how a closed one ended.
SELECT reason FROM queue WHERE date = %(date)s AND key = %(key)s AND mode = %(mode)s
UNION ALL
SELECT reason FROM closed WHERE date = %(date)s AND key = %(key)s AND mode = %(mode)s

-- name: revisions
SELECT incarnation, number, plan, landed_partition, landed_offset,
    extract(epoch FROM coalesce(landed_at, registered_at))::float8
FROM revision WHERE schedule_id = %(schedule_id)s ORDER BY incarnation, number

-- name: first_instant_after
-- In a scenario: an instant whose tick had read `schedules` beyond a plan's offset, the earliest recorded.
SELECT (extract(epoch FROM min(instant)) / 60)::bigint FROM occurrence
WHERE tick_partition = %(partition)s AND tick_watermark > %(offset)s
