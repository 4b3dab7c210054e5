-- The registry: every schedule's newest state, its numbered revisions, what was answered to each change; the outbox that
-- the relay publishes; and how far each source partition is durably taken in.

-- One row an id, over all its lives. `revision` is the newest number of this incarnation; `sequence` rises with every plan.
-- `landed_sequence` is the highest sequence read back from the topic `schedules`.
CREATE TABLE schedule (
    id text PRIMARY KEY,
    incarnation int NOT NULL CHECK (incarnation >= 1),
    revision bigint NOT NULL CHECK (revision >= 1),
    sequence bigint NOT NULL CHECK (sequence >= 1),
    state text NOT NULL CHECK (state IN ('active', 'paused', 'deleted')),
    tenant text NOT NULL,
    region text NOT NULL,
    zone text NOT NULL,
    landed_sequence bigint NOT NULL DEFAULT 0,
    changed_at timestamptz NOT NULL
) WITH (fillfactor = 80);

-- One row a revision, never changed once written, but for where its plan came to lie on `schedules`. `plan` is the record
-- as published. (source_partition, source_offset) is the change that made it, on the topic `schedule-changes`.
CREATE TABLE revision (
    schedule_id text NOT NULL,
    incarnation int NOT NULL,
    number bigint NOT NULL,
    sequence bigint NOT NULL,
    state text NOT NULL,
    plan bytea NOT NULL,
    change_id text NOT NULL,
    actor text NOT NULL,
    source_partition int NOT NULL,
    source_offset bigint NOT NULL,
    registered_at timestamptz NOT NULL,
    landed_partition int,
    landed_offset bigint,
    landed_at timestamptz,
    PRIMARY KEY (schedule_id, incarnation, number)
) WITH (fillfactor = 90);

-- The answer to each change that names itself; the first answer stays. Kept for some days, for those who wait for it.
CREATE TABLE change_result (
    change_id text NOT NULL,
    schedule_id text NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('accepted', 'unchanged', 'refused')),
    revision bigint,
    sequence bigint,
    problems text NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (change_id, schedule_id)
);
CREATE INDEX change_result_at ON change_result USING brin (at);

-- Where a consumer goes on after a restart: advanced inside the transaction that made its work durable. The topic's id
-- sets a topic apart from an older one of the same name.
CREATE TABLE source_offset (
    topic text NOT NULL,
    topic_id text NOT NULL,
    partition int NOT NULL,
    next_offset bigint NOT NULL,
    duplicates bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, topic_id, partition)
) WITH (fillfactor = 50);

-- Records to be published, each deleted once the broker has it. Rows of one key share a shard, get their ids while the
-- writer holds a lock on what the key names, and are published in the order of ids. `partition` null: by murmur2 of the key.
-- `topic` is the full name. `headers` is an object of text.
CREATE TABLE outbox (
    id bigserial PRIMARY KEY,
    shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 15),
    topic text NOT NULL,
    partition int,
    key bytea NOT NULL,
    value bytea,
    headers jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_insert_scale_factor = 0);
CREATE INDEX outbox_shard ON outbox (shard, id);

-- The shard of a key: the low four bits of the first byte of its sha256.
CREATE FUNCTION outbox_shard(key bytea) RETURNS smallint LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (get_byte(sha256(key), 0) & 15)::smallint;
