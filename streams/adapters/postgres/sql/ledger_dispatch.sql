-- Dispatch: rows of the queue through claim, sending and outcome. Every statement is one transaction of its own, and
-- each guards the move it makes (domain/delivery.py): a row that has moved on meanwhile is left alone.

-- name: tenants
-- Tenants with open rows on a lane, in order, after a given one: a walk from index head to index head.
WITH RECURSIVE found (tenant) AS (
    (SELECT tenant FROM queue WHERE lane = %(lane)b AND tenant > %(after)b ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT q.tenant FROM queue q WHERE q.lane = %(lane)b AND q.tenant > f.tenant ORDER BY q.tenant LIMIT 1)
    FROM found f WHERE f.tenant IS NOT NULL
)
SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT %(most)b

-- name: due
-- How many rows a claim could get, up to a number (what is reserved of the budget and not used is lost), and which
-- tenants they are of, in the order given.
WITH promising AS MATERIALIZED (
    SELECT ring.tenant, ring.after_at, ring.after_key
    FROM unnest(%(tenants)b::text[], %(after_at)b::timestamptz[], %(after_key)b::bytea[])
        AS ring (tenant, after_at, after_key)
    CROSS JOIN LATERAL (
        SELECT 1 FROM queue q
        WHERE q.lane = %(lane)b AND q.tenant = ring.tenant
            AND (q.next_at, q.key) > (ring.after_at, ring.after_key) AND q.next_at <= to_timestamp(%(now_s)b)
            AND q.state IN ('pending', 'retry')
            AND (q.not_before IS NULL OR q.not_before <= clock_timestamp())
        ORDER BY q.next_at, q.key LIMIT 1
    ) x
    LIMIT %(most)b
)
SELECT (
    SELECT count(*) FROM (
        SELECT 1
        FROM promising p
        CROSS JOIN LATERAL (
            SELECT 1 FROM queue q
            WHERE q.lane = %(lane)b AND q.tenant = p.tenant
                AND (q.next_at, q.key) > (p.after_at, p.after_key) AND q.next_at <= to_timestamp(%(now_s)b)
                AND q.state IN ('pending', 'retry')
                AND (q.not_before IS NULL OR q.not_before <= clock_timestamp())
            ORDER BY q.next_at, q.key LIMIT %(most)b
        ) x
        LIMIT %(most)b
    ) y
), (SELECT array_agg(tenant) FROM promising)

-- name: claim
-- Due rows to a session, fair between the tenants given: the first of each, then the second of each, and so on. Each
-- tenant is looked at from a mark on, below which the asker has lately seen nothing left.
WITH candidate AS (
    SELECT c.place, c.rank, ring.position
    FROM unnest(%(tenants)b::text[], %(after_at)b::timestamptz[], %(after_key)b::bytea[])
        WITH ORDINALITY AS ring (tenant, after_at, after_key, position)
    CROSS JOIN LATERAL (
        SELECT x.place, row_number() OVER () AS rank FROM (
            SELECT q.ctid AS place FROM queue q
            WHERE q.lane = %(lane)b AND q.tenant = ring.tenant
                AND (q.next_at, q.key) > (ring.after_at, ring.after_key) AND q.next_at <= to_timestamp(%(now_s)b)
                AND q.state IN ('pending', 'retry')
                AND (q.not_before IS NULL OR q.not_before <= clock_timestamp())
            ORDER BY q.next_at, q.key LIMIT %(per_tenant)b
        ) x
    ) c
), taken AS (
    UPDATE queue q SET state = 'leased', fence = q.fence + 1, session = %(session)b, not_before = NULL
    WHERE q.ctid = ANY(ARRAY(
        SELECT p.ctid FROM queue p
        WHERE p.ctid = ANY(ARRAY(SELECT place FROM candidate ORDER BY rank, position LIMIT %(want)b))
            AND p.state IN ('pending', 'retry')
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING q.date, q.key, q.mode, q.lane, q.tenant, q.next_at, q.fence, q.attempts, q.in_doubt_since
)
SELECT
    t.date, t.key, t.mode, t.fence, t.attempts, extract(epoch FROM t.in_doubt_since)::float8, t.tenant, t.next_at,
    o.schedule_id, o.incarnation, o.revision, o.promise, o.gap, o.overlap,
    (extract(epoch FROM o.nominal) / 60)::bigint, o.copy, o.zone, (extract(epoch FROM o.instant) / 60)::bigint,
    extract(epoch FROM o.due)::bigint, extract(epoch FROM o.deliver_by)::bigint, o.late_policy, o.tz_version,
    o.tick_partition, o.tick_offset, o.tick_watermark, o.account, o.destination, o.payload, o.on_delete, o.scenario,
    CASE WHEN t.attempts > 0 THEN (
        SELECT a.body FROM attempt a WHERE a.date = t.date AND a.key = t.key AND a.mode = t.mode AND a.n = 1
    ) END,
    CASE WHEN o.on_delete = 'cancel' AND o.instant < e.instant THEN e.reason END,
    EXISTS (SELECT 1 FROM destination_disabled d WHERE d.lane = t.lane AND d.destination = o.destination)
FROM taken t
JOIN occurrence o ON o.date = t.date AND o.key = t.key AND o.mode = t.mode
LEFT JOIN schedule_ended e ON e.schedule_id = o.schedule_id

-- name: begin
-- leased -> sending with its attempt, for the session and fence that claimed it. Returns what may be sent.
WITH started AS (
    UPDATE queue q
    SET state = 'sending', attempts = q.attempts + 1, in_doubt_since = coalesce(q.in_doubt_since, now())
    FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[], %(body)b::bytea[])
        AS u (date, key, mode, fence, body)
    WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode AND q.fence = u.fence
        AND q.state = 'leased' AND q.session = %(session)b
    RETURNING q.date, q.key, q.mode, q.attempts, q.fence, u.body
)
INSERT INTO attempt (date, key, mode, n, fence, session, body)
SELECT date, key, mode, attempts, fence, %(session)b, CASE attempts WHEN 1 THEN body END FROM started
RETURNING date, key, mode, extract(epoch FROM started_at)::float8

-- name: settle_done
-- sending -> done: the row leaves the queue. Returns those for which it was so.
WITH gone AS (
    DELETE FROM queue q
    USING unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[], %(n)b::int[],
        %(code)b::int[], %(detail)b::text[]) AS u (date, key, mode, fence, n, code, detail)
    WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode AND q.fence = u.fence AND q.state = 'sending'
    RETURNING q.date, q.key, q.mode, u.n, u.code, u.detail
)
UPDATE attempt a SET finished_at = now(), outcome = 'done', code = gone.code, detail = gone.detail
FROM gone WHERE a.date = gone.date AND a.key = gone.key AND a.mode = gone.mode AND a.n = gone.n
RETURNING a.date, a.key, a.mode

-- name: settle_late
-- Evidence of success past the fence settles any state: it is a fact about the world, not a claim on the row.
WITH given AS (
    SELECT * FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(n)b::int[], %(code)b::int[],
        %(detail)b::text[]) AS u (date, key, mode, n, code, detail)
), queued AS (
    DELETE FROM queue q USING given u WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode
), shut AS (
    DELETE FROM closed c USING given u WHERE c.date = u.date AND c.key = u.key AND c.mode = u.mode
)
UPDATE attempt a SET finished_at = now(), outcome = 'done', code = u.code, detail = u.detail
FROM given u
WHERE a.date = u.date AND a.key = u.key AND a.mode = u.mode AND a.n = u.n AND a.outcome IS DISTINCT FROM 'done'

-- name: settle_open
-- sending -> retry | unknown | review. A doubt is cleared only where this very attempt had raised it.
WITH moved AS (
    UPDATE queue q
    SET state = u.state::delivery_state, session = NULL, reason = u.reason,
        not_before = CASE u.state WHEN 'retry' THEN clock_timestamp() + u.wait_s * interval '1 second' END,
        in_doubt_since = CASE WHEN u.no_doubt THEN NULL ELSE q.in_doubt_since END,
        next_at = CASE u.state WHEN 'retry' THEN q.next_at ELSE 'infinity' END
    FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[], %(n)b::int[],
        %(code)b::int[], %(outcome)b::text[], %(detail)b::text[], %(state)b::text[], %(wait_s)b::float8[],
        %(no_doubt)b::bool[], %(reason)b::text[])
        AS u (date, key, mode, fence, n, code, outcome, detail, state, wait_s, no_doubt, reason)
    WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode AND q.fence = u.fence AND q.state = 'sending'
    RETURNING q.date, q.key, q.mode, u.n, u.code, u.outcome, u.detail
)
UPDATE attempt a SET finished_at = now(), outcome = m.outcome, code = m.code, detail = m.detail
FROM moved m WHERE a.date = m.date AND a.key = m.key AND a.mode = m.mode AND a.n = m.n
RETURNING a.date, a.key, a.mode

-- name: note_stale
-- What an attempt came to whose row has moved on without it: for those who read its story, and for nothing else.
UPDATE attempt a SET finished_at = now(), outcome = u.outcome, code = u.code, detail = u.detail
FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[], %(n)b::int[], %(code)b::int[],
    %(outcome)b::text[], %(detail)b::text[]) AS u (date, key, mode, fence, n, code, outcome, detail)
WHERE a.date = u.date AND a.key = u.key AND a.mode = u.mode AND a.n = u.n AND a.fence = u.fence AND a.outcome IS NULL

-- name: release
-- leased -> pending: claimed, but not to be sent now. No attempt is used.
UPDATE queue q SET state = 'pending', session = NULL, fence = q.fence + 1
FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[]) AS u (date, key, mode, fence)
WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode AND q.fence = u.fence
    AND q.state = 'leased' AND q.session = %(session)b

-- name: release_all
-- leased -> pending for whatever the session still holds here: after a claim whose answer was lost, and at the end.
UPDATE queue SET state = 'pending', session = NULL, fence = fence + 1
WHERE lane = %(lane)s AND state = 'leased' AND session = %(session)s

-- name: withhold
-- leased -> review: no send may start, and a person is to know why.
UPDATE queue q SET state = 'review', session = NULL, next_at = 'infinity', reason = u.reason
FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[], %(reason)b::text[])
    AS u (date, key, mode, fence, reason)
WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode AND q.fence = u.fence
    AND q.state = 'leased' AND q.session = %(session)b

-- name: close_leased
-- leased -> pending -> cancelled | expired, in one step: found at the claim to be over. Never one in doubt.
WITH gone AS (
    DELETE FROM queue q
    USING unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[], %(state)b::text[],
        %(reason)b::text[]) AS u (date, key, mode, fence, state, reason)
    WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode AND q.fence = u.fence
        AND q.state = 'leased' AND q.session = %(session)b AND q.in_doubt_since IS NULL
    RETURNING q.date, q.key, q.mode, u.state, u.reason
)
INSERT INTO closed (date, key, mode, state, reason) SELECT date, key, mode, state::delivery_state, reason FROM gone

-- name: disable_destination
INSERT INTO destination_disabled (lane, destination, reason) VALUES (%(lane)s, %(destination)s, %(reason)s)
ON CONFLICT DO NOTHING
