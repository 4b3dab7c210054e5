-- The outbox: written in the transaction of what it tells, published and deleted by relays.

-- name: insert
-- In the order given; ids order the rows of a key, so the writer holds a lock on what the key names.
INSERT INTO outbox (shard, topic, partition, key, value, headers)
SELECT shard, topic, partition, key, value, headers::jsonb FROM unnest(
    %(shard)b::smallint[], %(topic)b::text[], %(partition)b::int[], %(key)b::bytea[], %(value)b::bytea[],
    %(headers)b::text[]
) WITH ORDINALITY AS g (shard, topic, partition, key, value, headers, place)
ORDER BY place

-- name: notify
-- Wake the relays when this transaction commits.
SELECT pg_notify('townclock_outbox_' || md5(current_schema()), '')

-- name: channel
SELECT 'townclock_outbox_' || md5(current_schema())

-- name: take_shards
-- Lock, to the end of the transaction, some shards that have rows and that no other relay holds; in random order, so that
-- relays share. The list of those with rows is made first: locks are tried one by one until there are enough.
WITH filled AS MATERIALIZED (
    SELECT s.shard FROM generate_series(0, 15) AS s (shard)
    WHERE EXISTS (SELECT FROM outbox o WHERE o.shard = s.shard)
    ORDER BY random()
)
SELECT shard FROM filled WHERE pg_try_advisory_xact_lock(hashtext('townclock outbox ' || current_schema()), shard)
LIMIT %(most)s

-- name: rows
-- The oldest rows of each shard, in the order of ids: so many, or so many bytes and one row more. Asked after they are
-- locked: what another relay published is gone.
SELECT o.id, o.topic, o.partition, o.key, o.value, o.headers
FROM unnest(%(shards)b::smallint[]) AS s (shard) CROSS JOIN LATERAL (
    SELECT oldest.*, sum(octet_length(coalesce(value, ''))) OVER (ORDER BY id ROWS UNBOUNDED PRECEDING)
        - octet_length(coalesce(value, '')) AS bytes_before
    FROM (SELECT * FROM outbox WHERE outbox.shard = s.shard ORDER BY outbox.id LIMIT %(most)s) oldest
) o
WHERE o.bytes_before < %(most_bytes)s

-- name: delete
DELETE FROM outbox WHERE id = ANY(%(ids)b::bigint[])

-- name: oldest_age_s
-- How long the oldest row has been waiting, and how many there are.
SELECT extract(epoch FROM clock_timestamp() - min(created_at))::float8, count(*) FROM outbox
