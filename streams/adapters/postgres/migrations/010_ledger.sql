-- The ledger: what was promised (occurrence), what is open (queue), what was tried (attempt), what ended without a send
-- (closed), each apart. The key hashes the date, so a key can't land in two partitions; its primary key is the guard.

CREATE TYPE delivery_state AS ENUM (
    'waiting', 'pending', 'leased', 'sending', 'retry', 'unknown', 'review',
    'done', 'cancelled', 'expired', 'superseded', 'shadowed', 'discarded'
);

-- One region x one named provider, its budget (see domain/budget.py), and what keeps it from sending.
CREATE TABLE lane (
    id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    region text NOT NULL,
    provider text NOT NULL,
    rate_per_s double precision,                -- as the last worker that started was told
    burst int,
    tat_us bigint NOT NULL DEFAULT 0,           -- GCRA's theoretical arrival time, microseconds since the epoch
    server_started timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
    blocked_until timestamptz,                  -- the provider said 429
    held text,                                  -- why a person has to look before anything is sent
    held_since timestamptz,
    UNIQUE (region, provider)
) WITH (fillfactor = 10);

-- Lanes whose budget is as it was last written. Not logged: whatever may cost the last writes (a crash, another server
-- taking over) leaves it empty.
CREATE UNLOGGED TABLE lane_budget_kept (lane smallint PRIMARY KEY);

-- What was promised: immutable. mode: 0 live, 1 shadow. nominal: the wall clock's own time, no zone.
CREATE TABLE occurrence (
    instant timestamptz NOT NULL,
    due timestamptz NOT NULL,
    deliver_by timestamptz,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    nominal timestamp,
    revision bigint NOT NULL,
    tick_offset bigint NOT NULL,
    tick_watermark bigint NOT NULL,
    source_offset bigint NOT NULL,
    date date NOT NULL,
    incarnation int NOT NULL,
    tick_partition int NOT NULL,
    source_partition int NOT NULL,
    mode smallint NOT NULL,
    lane smallint NOT NULL,                     -- no foreign key: it would lock the lane's busy row at every insert
    copy smallint NOT NULL,
    key bytea NOT NULL,
    schedule_id text NOT NULL,
    promise text NOT NULL,
    gap text NOT NULL,
    overlap text NOT NULL,
    zone text NOT NULL,
    tz_version text NOT NULL,
    late_policy text NOT NULL,
    on_delete text NOT NULL,
    tenant text NOT NULL,
    account text,
    destination text NOT NULL,
    payload text NOT NULL,
    scenario text,
    traceparent text,
    source_topic text NOT NULL,
    PRIMARY KEY (date, key, mode)
) PARTITION BY RANGE (date);

-- What is open. Half of each page is left free, so that a row's whole life is updates in place; next_at (delivery time)
-- moves only when a row leaves or re-enters the line: 'infinity' while it waits for a person or a lookup.
CREATE TABLE queue (
    next_at timestamptz NOT NULL,
    not_before timestamptz,                     -- real time: a retry's pause
    in_doubt_since timestamptz,
    date date NOT NULL,
    fence int NOT NULL DEFAULT 0,
    attempts int NOT NULL DEFAULT 0,
    session int,
    state delivery_state NOT NULL,
    mode smallint NOT NULL,
    lane smallint NOT NULL,
    key bytea NOT NULL,
    tenant text NOT NULL,
    schedule_id text NOT NULL,
    reason text,                                -- why it is in review, or what the last attempt said
    PRIMARY KEY (date, key, mode)
) WITH (
    fillfactor = 45, vacuum_truncate = off,
    autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 2000, autovacuum_analyze_scale_factor = 0.5
);
-- Without deduplication: a posting list of equal due times can't be killed item by item, and claims would walk it.
CREATE INDEX queue_due ON queue (lane, tenant, next_at, key) WITH (deduplicate_items = off);
CREATE INDEX queue_schedule ON queue (schedule_id);

-- What was tried. n counts from 1; outcome is a word of domain/outcome.py, none while it is in flight.
CREATE TABLE attempt (
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    date date NOT NULL,
    n int NOT NULL,
    fence int NOT NULL,
    session int NOT NULL,
    code int,
    mode smallint NOT NULL,
    key bytea NOT NULL,
    outcome text,
    detail text,
    body bytea,                                 -- as rendered, on the first attempt only
    PRIMARY KEY (date, key, mode, n)
) PARTITION BY RANGE (date);

-- How a key ended without a send by us: cancelled, expired, superseded, shadowed, discarded, or done by a person's word.
CREATE TABLE closed (
    at timestamptz NOT NULL DEFAULT now(),
    date date NOT NULL,
    mode smallint NOT NULL,
    state delivery_state NOT NULL,
    key bytea NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (date, key, mode)
) PARTITION BY RANGE (date);

-- A worker's lease: everything it has claimed is its own until expires_at.
CREATE TABLE worker_session (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session_id uuid NOT NULL UNIQUE,
    region text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    ended boolean NOT NULL DEFAULT false        -- it stopped by itself
) WITH (fillfactor = 50);

-- The latest instant at which a schedule was deleted or paused: older unsent occurrences end, whenever they arrive.
CREATE TABLE schedule_ended (
    schedule_id text PRIMARY KEY,
    instant timestamptz NOT NULL,
    incarnation int NOT NULL,
    revision bigint NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE destination_disabled (
    lane smallint NOT NULL REFERENCES lane,
    destination text NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (lane, destination)
);

-- Records that can't be taken in, whole.
CREATE TABLE quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text NOT NULL,
    topic_id text NOT NULL,
    partition int NOT NULL,
    source_offset bigint NOT NULL,
    key bytea,
    value bytea,
    headers jsonb NOT NULL,                     -- [[name, value in hex or null], ...]
    reason text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (topic, topic_id, partition, source_offset)
);

-- One row counts the duplicates of one batch. keys: the first 8 bytes of each key, one after the other.
CREATE TABLE duplicate_batch (
    at timestamptz NOT NULL DEFAULT now(),
    first_date date NOT NULL,
    last_date date NOT NULL,
    duplicates int NOT NULL,
    topic text NOT NULL,
    keys bytea NOT NULL
);
CREATE INDEX duplicate_batch_dates ON duplicate_batch (first_date, last_date);

-- Partitions of a month, made when a date of it first arrives. Attached, not created in place: that takes no lock
-- which stops readers or writers.
CREATE FUNCTION ensure_month(day date) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    first_day date := date_trunc('month', day)::date;
    parent text;
    child text;
    options text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('townclock month ' || current_schema()));
    FOREACH parent IN ARRAY ARRAY['occurrence', 'attempt', 'closed'] LOOP
        child := parent || to_char(first_day, '_YYYY_MM');
        CONTINUE WHEN to_regclass(quote_ident(current_schema()) || '.' || child) IS NOT NULL;
        options := CASE parent WHEN 'attempt' THEN 'fillfactor = 50, ' ELSE '' END
            || 'autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1';
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL) WITH (%s)', child, parent, options);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            parent, child, first_day, (first_day + interval '1 month')::date);
    END LOOP;
END $$;

-- Up to `want` slots of a lane's budget: domain/budget.py Gcra.reserve, on the database's own clock. The row may have
-- lost its last writes when the server restarts, crashes or is replaced (they are not waited for): then it starts one
-- reservation later.
CREATE FUNCTION reserve_budget(lane_id smallint, interval_us bigint, longest_us bigint, want bigint,
    OUT granted bigint, OUT tat_us bigint, OUT wait_us bigint, OUT now_us bigint, OUT held_reason text)
LANGUAGE plpgsql AS $$
DECLARE
    budget lane%ROWTYPE;
    kept boolean;
    lost boolean;
    start_us bigint;
BEGIN
    SELECT * INTO STRICT budget FROM lane WHERE id = lane_id FOR NO KEY UPDATE;
    now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    granted := 0;
    tat_us := budget.tat_us;
    held_reason := budget.held;
    wait_us := 1000000;
    IF budget.held IS NOT NULL THEN
        RETURN;
    END IF;
    IF budget.blocked_until > clock_timestamp() THEN
        wait_us := (extract(epoch FROM budget.blocked_until - clock_timestamp()) * 1000000)::bigint + 1;
        RETURN;
    END IF;
    kept := EXISTS (SELECT FROM lane_budget_kept k WHERE k.lane = lane_id);
    lost := budget.server_started <> pg_postmaster_start_time() OR (budget.tat_us > 0 AND NOT kept);
    IF NOT kept THEN
        INSERT INTO lane_budget_kept VALUES (lane_id);
    END IF;
    IF lost THEN
        budget.tat_us := greatest(budget.tat_us, now_us + longest_us);
    END IF;
    start_us := greatest(now_us, budget.tat_us);
    granted := least(want, (now_us + longest_us - start_us) / interval_us);
    tat_us := start_us;
    IF granted < 1 THEN
        granted := 0;
        wait_us := greatest(interval_us - (now_us + longest_us - start_us), 1);
    ELSE
        wait_us := 0;
    END IF;
    UPDATE lane SET tat_us = start_us + granted * interval_us, server_started = pg_postmaster_start_time()
    WHERE id = lane_id AND (granted > 0 OR lost);
END $$;

-- One row a key, for people.
CREATE VIEW ledger AS
SELECT
    o.date, encode(o.key, 'hex') AS key, CASE o.mode WHEN 0 THEN 'live' ELSE 'shadow' END AS mode,
    o.schedule_id, o.incarnation, o.revision, o.tenant, o.account, l.region, l.provider,
    to_char(o.nominal, 'YYYY-MM-DD"T"HH24:MI') AS nominal, o.zone, o.instant, o.due,
    -- 'unaccounted' is never seen unless somebody changed rows by hand
    coalesce(q.state::text, c.state::text, CASE WHEN a.done THEN 'done' ELSE 'unaccounted' END) AS state,
    coalesce(q.attempts, a.attempts, 0) AS attempts, q.in_doubt_since
FROM occurrence o
JOIN lane l ON l.id = o.lane
LEFT JOIN queue q ON q.date = o.date AND q.key = o.key AND q.mode = o.mode
LEFT JOIN closed c ON c.date = o.date AND c.key = o.key AND c.mode = o.mode
LEFT JOIN LATERAL (
    SELECT max(t.n) AS attempts, bool_or(t.outcome = 'done') AS done
    FROM attempt t WHERE t.date = o.date AND t.key = o.key AND t.mode = o.mode
) a ON true;
