-- What people and waiting commands ask of the registry. Nothing here writes.

-- name: answers
-- Answers that are final: refused, or with its plan read back from the topic `schedules`.
SELECT c.change_id, c.schedule_id, c.outcome, c.revision, c.problems
FROM change_result c
LEFT JOIN schedule s ON s.id = c.schedule_id
WHERE c.change_id = ANY(%(change_ids)s::text[])
    AND (c.outcome = 'refused' OR s.landed_sequence >= c.sequence)

-- name: one
SELECT s.id, s.incarnation, s.revision, s.sequence, s.state, s.tenant, s.region, s.zone, s.changed_at,
    s.landed_sequence >= s.sequence, r.plan
FROM schedule s
JOIN revision r ON r.schedule_id = s.id AND r.incarnation = s.incarnation AND r.number = s.revision
WHERE s.id = %(id)s

-- name: history
-- Every revision of one id, oldest first, and where its plan lies on the topic `schedules`.
SELECT incarnation, number, sequence, state, change_id, actor, registered_at, landed_partition, landed_offset, landed_at
FROM revision WHERE schedule_id = %(id)s ORDER BY sequence

-- name: states
-- What each of these ids is now; an unknown one is left out.
SELECT id, state, revision FROM schedule WHERE id = ANY(%(ids)s::text[])

-- name: list
-- By id; a filter that is null does not filter, but for the state: then all that are not deleted.
SELECT id, incarnation, revision, sequence, state, tenant, region, zone, changed_at, landed_sequence >= sequence
FROM schedule
WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    AND (%(region)s::text IS NULL OR region = %(region)s)
    AND (%(zone)s::text IS NULL OR zone = %(zone)s)
    AND CASE WHEN %(state)s::text IS NULL THEN state <> 'deleted' ELSE state = %(state)s END
ORDER BY id
