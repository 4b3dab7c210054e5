-- name: counts
-- Schedules in force, and rows of the outbox still to be published.
SELECT
    (SELECT count(*) FROM schedule WHERE state <> 'deleted'),
    (SELECT count(*) FROM outbox);

-- name: lanes
-- Each lane: what is open, what waits for a person, what was delivered of the dates from yesterday on, how old the
-- oldest is that is due, and whether it is held. Costs the open rows and two dates, however long the history.
SELECT
    l.region,
    l.provider,
    coalesce(q.open, 0),
    coalesce(q.in_review, 0),
    coalesce(d.done, 0),
    q.oldest_due_age_s,
    l.held IS NOT NULL
FROM lane l
LEFT JOIN (
    SELECT
        queue.lane,
        count(*) FILTER (WHERE queue.state <> 'review') AS open,
        count(*) FILTER (WHERE queue.state = 'review') AS in_review,
        extract(epoch FROM clock_timestamp() - min(o.due) FILTER (WHERE queue.state <> 'review'
            AND o.due <= clock_timestamp()))::float8 AS oldest_due_age_s
    FROM queue JOIN occurrence o ON o.date = queue.date AND o.key = queue.key AND o.mode = queue.mode
    GROUP BY queue.lane
) q ON q.lane = l.id
LEFT JOIN (
    SELECT o.lane, count(*) AS done
    FROM attempt a JOIN occurrence o ON o.date = a.date AND o.key = a.key AND o.mode = a.mode
    WHERE a.date >= current_date - 1 AND a.outcome = 'done'
    GROUP BY o.lane
) d ON d.lane = l.id
ORDER BY l.region, l.provider;
