-- Lanes with their budget, worker sessions, and the sweep of what dead sessions have left.

-- name: lane
SELECT id FROM lane WHERE region = %(region)s AND provider = %(provider)s

-- name: set_quota
-- Updated first: an insert that meets the row which is there would use up one of 32,767 lane numbers at every start.
WITH known AS (
    UPDATE lane SET rate_per_s = %(rate_per_s)s, burst = %(burst)s
    WHERE region = %(region)s AND provider = %(provider)s RETURNING id
), made AS (
    INSERT INTO lane (region, provider, rate_per_s, burst)
    SELECT %(region)s, %(provider)s, %(rate_per_s)s, %(burst)s WHERE NOT EXISTS (SELECT FROM known)
    ON CONFLICT (region, provider) DO UPDATE SET rate_per_s = excluded.rate_per_s, burst = excluded.burst
    RETURNING id
)
SELECT id FROM known UNION ALL SELECT id FROM made

-- name: reserve
SELECT granted, tat_us, wait_us, now_us, held_reason
FROM reserve_budget(%(lane)s::smallint, %(interval_us)s::bigint, %(longest_us)s::bigint, %(want)s::bigint)

-- name: block_lane
-- The provider said 429: nobody sends before the time it asked for.
UPDATE lane SET blocked_until = greatest(blocked_until, clock_timestamp() + %(wait_s)s * interval '1 second')
WHERE id = %(lane)s

-- name: hold_lane
UPDATE lane SET held = %(reason)s, held_since = clock_timestamp() WHERE id = %(lane)s AND held IS NULL

-- name: release_lane
UPDATE lane SET held = NULL, held_since = NULL, blocked_until = NULL
WHERE region = %(region)s AND provider = %(provider)s AND held IS NOT NULL

-- name: lanes_for_people
SELECT region, provider, rate_per_s, burst, held, held_since, blocked_until FROM lane ORDER BY region, provider

-- name: open_session
INSERT INTO worker_session (session_id, region, expires_at)
VALUES (%(session_id)s::uuid, %(region)s, clock_timestamp() + %(lease_s)s * interval '1 second') RETURNING id

-- name: renew_session
-- Only a lease that still holds is renewed: once it is over, others may have swept its rows.
UPDATE worker_session SET expires_at = clock_timestamp() + %(lease_s)s * interval '1 second'
WHERE id = %(session)s AND NOT ended AND expires_at > clock_timestamp() RETURNING id

-- name: end_session
UPDATE worker_session SET ended = true, expires_at = clock_timestamp() WHERE id = %(session)s

-- name: forget_sessions
DELETE FROM worker_session s WHERE s.expires_at < clock_timestamp() - interval '1 day'
    AND NOT EXISTS (SELECT 1 FROM queue q WHERE q.session = s.id)

-- name: sessions_over
SELECT count(*), max(expires_at) FROM worker_session WHERE expires_at <= clock_timestamp()

-- name: unserved
-- Open rows of a region by provider, for those who look for lanes that no worker serves.
SELECT l.provider, count(*) FROM lane l JOIN queue q ON q.lane = l.id WHERE l.region = %(region)s GROUP BY l.provider

-- name: abandoned
-- Rows that a session which is over had claimed or was sending, locked for the sweep. Also those that a living one has
-- been sending for longer than any send lasts: their start was recorded by a statement whose answer never came.
-- `+ 0`: the planner expects a match at once, and would walk the primary key, row by row all over the table, to find none.
SELECT q.date, q.key, q.mode, q.state::text, q.fence, q.attempts, extract(epoch FROM q.in_doubt_since)::float8
FROM queue q
WHERE q.lane = %(lane)s AND q.state IN ('leased', 'sending')
    AND (
        NOT EXISTS (SELECT 1 FROM worker_session s WHERE s.id = q.session AND s.expires_at > clock_timestamp())
        OR (q.state = 'sending' AND (
            SELECT a.started_at FROM attempt a
            WHERE a.date = q.date AND a.key = q.key AND a.mode = q.mode AND a.n = q.attempts
        ) < clock_timestamp() - %(stuck_s)s * interval '1 second')
    )
ORDER BY q.date + 0, q.key
LIMIT %(most)s
FOR NO KEY UPDATE OF q SKIP LOCKED

-- name: unresolved
-- Rows of which nothing is known, locked for a decision.
SELECT q.date, q.key, q.mode, q.state::text, q.fence, q.attempts, extract(epoch FROM q.in_doubt_since)::float8
FROM queue q
WHERE q.lane = %(lane)s AND q.state = 'unknown'
ORDER BY q.date + 0, q.key
LIMIT %(most)s
FOR NO KEY UPDATE SKIP LOCKED

-- name: move
-- Rows just locked to the state that was decided. What goes back into the line gets its due time again.
UPDATE queue q
SET state = u.state::delivery_state, fence = u.fence, session = NULL, reason = u.reason, not_before = NULL,
    next_at = CASE WHEN u.state IN ('pending', 'retry')
        THEN (SELECT o.due FROM occurrence o WHERE o.date = q.date AND o.key = q.key AND o.mode = q.mode)
        ELSE 'infinity' END
FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(fence)b::int[], %(state)b::text[],
    %(reason)b::text[]) AS u (date, key, mode, fence, state, reason)
WHERE q.date = u.date AND q.key = u.key AND q.mode = u.mode

-- name: close_attempts
-- The attempts in flight of rows just swept: nothing is known of them.
UPDATE attempt a SET finished_at = now(), outcome = 'unknown', detail = 'its worker stopped'
FROM unnest(%(date)b::date[], %(key)b::bytea[], %(mode)b::smallint[], %(n)b::int[]) AS u (date, key, mode, n)
WHERE a.date = u.date AND a.key = u.key AND a.mode = u.mode AND a.n = u.n AND a.outcome IS NULL
