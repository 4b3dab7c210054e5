-- The registry. Rows are locked and written in the order of ids; offsets before schedules. Unsorted batches deadlock.

-- name: lock_offsets
-- Lock the batch's source partitions, making those never seen; how far each is taken in.
INSERT INTO source_offset AS s (topic, topic_id, partition, next_offset)
SELECT topic, topic_id, partition, 0 FROM unnest(%(topic)b::text[], %(topic_id)b::text[], %(partition)b::int[])
    WITH ORDINALITY AS g (topic, topic_id, partition, place)
ORDER BY place
ON CONFLICT (topic, topic_id, partition) DO UPDATE SET next_offset = s.next_offset
RETURNING topic, topic_id, partition, next_offset

-- name: lock_schedules
SELECT 1 FROM schedule WHERE id = ANY(%(ids)b::text[]) ORDER BY id FOR NO KEY UPDATE

-- name: plans
-- The newest plan of each id. Asked after they are locked, or a change under way would hide its row.
SELECT s.id, s.sequence, r.plan, s.landed_sequence
FROM schedule s
JOIN revision r ON r.schedule_id = s.id AND r.incarnation = s.incarnation AND r.number = s.revision
WHERE s.id = ANY(%(ids)b::text[])

-- name: write_schedules
-- The newest state of each id of the batch.
INSERT INTO schedule (id, incarnation, revision, sequence, state, tenant, region, zone, changed_at)
SELECT id, incarnation, revision, sequence, state, tenant, region, zone, now() FROM unnest(
    %(id)b::text[], %(incarnation)b::int[], %(revision)b::bigint[], %(sequence)b::bigint[], %(state)b::text[],
    %(tenant)b::text[], %(region)b::text[], %(zone)b::text[]
) WITH ORDINALITY AS g (id, incarnation, revision, sequence, state, tenant, region, zone, place)
ORDER BY place
ON CONFLICT (id) DO UPDATE
SET incarnation = excluded.incarnation, revision = excluded.revision, sequence = excluded.sequence,
    state = excluded.state, tenant = excluded.tenant, region = excluded.region, zone = excluded.zone,
    changed_at = excluded.changed_at

-- name: write_revisions
-- Fails, and with it the batch, where another registrar has numbered the same.
INSERT INTO revision (
    schedule_id, incarnation, number, sequence, state, plan, change_id, actor, source_partition, source_offset,
    registered_at
)
SELECT *, now() FROM unnest(
    %(schedule_id)b::text[], %(incarnation)b::int[], %(number)b::bigint[], %(sequence)b::bigint[], %(state)b::text[],
    %(plan)b::bytea[], %(change_id)b::text[], %(actor)b::text[], %(partition)b::int[], %(offset)b::bigint[]
)

-- name: write_answers
-- The first answer to a change stays.
INSERT INTO change_result (change_id, schedule_id, outcome, revision, sequence, problems, at)
SELECT change_id, schedule_id, outcome, revision, sequence, problems, now() FROM unnest(
    %(change_id)b::text[], %(schedule_id)b::text[], %(outcome)b::text[], %(revision)b::bigint[],
    %(sequence)b::bigint[], %(problems)b::text[]
) WITH ORDINALITY AS g (change_id, schedule_id, outcome, revision, sequence, problems, place)
ORDER BY place
ON CONFLICT DO NOTHING

-- name: mark_landed
-- Where plans came to lie on `schedules`, each where it lay first; and the highest sequence of each id. An id, and even a
-- plan, can be there several times, and an UPDATE takes any one of several rows that match: hence first and highest.
WITH g AS MATERIALIZED (
    SELECT * FROM unnest(
        %(schedule_id)b::text[], %(incarnation)b::int[], %(number)b::bigint[], %(sequence)b::bigint[],
        %(partition)b::int[], %(offset)b::bigint[], %(append_ms)b::bigint[]
    ) AS g (schedule_id, incarnation, number, sequence, partition, "offset", append_ms)
), first AS (
    SELECT DISTINCT ON (schedule_id, incarnation, number) * FROM g ORDER BY schedule_id, incarnation, number, "offset"
), highest AS (
    SELECT schedule_id, max(sequence) AS sequence FROM g GROUP BY schedule_id
), history AS (
    UPDATE revision r
    SET landed_partition = f.partition, landed_offset = f."offset", landed_at = to_timestamp(f.append_ms / 1000.0)
    FROM first f
    WHERE r.schedule_id = f.schedule_id AND r.incarnation = f.incarnation AND r.number = f.number
        AND r.landed_offset IS NULL
)
UPDATE schedule s SET landed_sequence = h.sequence FROM highest h
WHERE s.id = h.schedule_id AND s.landed_sequence < h.sequence

-- name: advance_offsets
UPDATE source_offset s SET next_offset = g.next_offset, duplicates = s.duplicates + g.duplicates
FROM unnest(
    %(topic)b::text[], %(topic_id)b::text[], %(partition)b::int[], %(next_offset)b::bigint[], %(duplicates)b::bigint[]
) AS g (topic, topic_id, partition, next_offset, duplicates)
WHERE s.topic = g.topic AND s.topic_id = g.topic_id AND s.partition = g.partition

-- name: next_offsets
-- How far each partition of one topic is durably taken in.
SELECT partition, next_offset FROM source_offset WHERE topic = %(topic)s AND topic_id = %(topic_id)s

-- name: prune_answers
-- Nobody waits for these any more.
DELETE FROM change_result WHERE at < now() - interval '7 days'
