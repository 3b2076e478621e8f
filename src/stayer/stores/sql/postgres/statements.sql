-- What PostgreSQL says in words of its own: see ../statements.sql. Functions are in schema.sql.

-- name: reserve.next
-- queue, lane, now, how many: along the index, whatever the planner thinks.
SELECT seq FROM stayer_next(?1, ?2, ?3, ?4) AS seq;

-- name: reserve.next_from
-- The same from a place on: priority, created, seq.
SELECT seq FROM stayer_next_from(?1, ?2, ?3, ?4, ?5, ?6, ?7) AS seq;

-- name: reserve.places
-- Of these tasks the best in each lane: where it is quick to begin.
SELECT DISTINCT ON (lane) lane, priority, created, seq FROM stayer_tasks WHERE seq {in numbers ?}
ORDER BY lane, priority DESC, created, seq;

-- name: reserve.next_of_all
-- queue, lanes, now, how many: the best of what is best in each lane, best first. Only those are claimed.
SELECT seq FROM stayer_next_of_lanes(?1, ?2::text[], ?3, ?4, NULL, NULL, NULL) AS seq;

-- name: reserve.next_of_all_from
-- The same from places on: their priorities, moments and numbers, in the order of the lanes.
SELECT seq FROM stayer_next_of_lanes(?1, ?2::text[], ?3, ?4, ?5::bigint[], ?6::float8[], ?7::bigint[]) AS seq;

-- name: reserve.next_of_all unclaimed
-- The same for those who only look.
SELECT t.seq FROM unnest(?2::text[]) AS lanes (value)
CROSS JOIN LATERAL (
    SELECT t.seq, t.priority, t.created FROM stayer_tasks AS t
    WHERE t.queue = ?1 AND t.lane = lanes.value AND t.state = 'pending' AND t.held = {no}
        AND (t.start_before IS NULL OR t.start_before > ?3)
    ORDER BY t.priority DESC, t.created, t.seq
    LIMIT ?4
) AS t
ORDER BY t.priority DESC, t.created, t.seq
LIMIT ?4;

-- name: submit.holders
-- now, queues, unique words (of one length): the tasks that hold these words there.
SELECT {task} FROM stayer_tasks WHERE seq IN (
    SELECT (
        SELECT t.seq FROM stayer_tasks AS t
        WHERE t.queue = wanted.queue AND t."unique" = wanted.word AND t.unique_end > ?1
        ORDER BY t.unique_end DESC
        LIMIT 1
    )
    FROM unnest(?2::text[], ?3::text[]) AS wanted (queue, word)
);

-- name: reserve.queue
-- What runs is counted where there is a limit: the rows themselves are what it is about.
SELECT paused, "limit" - CASE WHEN "limit" IS NULL THEN NULL ELSE (
        SELECT count(*) FROM stayer_tasks AS t
        WHERE t.queue = q.name AND t.state IN ('reserved', 'started')
    ) END,
    lined, key_limit, key_limits, fair, rate, rate_per, tokens, tokens_at
FROM stayer_queues AS q WHERE name = ?;

-- name: queue.running
SELECT (SELECT count(*) FROM stayer_tasks AS t WHERE t.queue = q.name AND t.state IN ('reserved', 'started'))
FROM stayer_queues AS q WHERE name = ?;

-- name: count
-- How many more tasks are in each state (1–8), whether somebody should look (9), the queue (10). A row of its own, so
-- nobody waits for anybody; the queue is made if it is not there.
WITH made AS (
    INSERT INTO stayer_queues (name)
    SELECT ?10 WHERE NOT EXISTS (SELECT 1 FROM stayer_queues WHERE name = ?10)
    ON CONFLICT (name) DO NOTHING
)
INSERT INTO stayer_counts (
    waiting, scheduled, pending, reserved, started, complete, failed, cancelled, queue
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10 WHERE ?9::bigint IS NOT NULL;

-- name: count.only
-- The same for a queue that was made before, by somebody else: the caller's transaction may not see it yet.
INSERT INTO stayer_counts (
    waiting, scheduled, pending, reserved, started, complete, failed, cancelled, queue
)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?10 WHERE ?9::bigint IS NOT NULL;

-- name: queue.make_all
-- Those of these that are not there.
INSERT INTO stayer_queues (name)
SELECT wanted.name FROM unnest(?1::text[]) AS wanted (name)
WHERE NOT EXISTS (SELECT 1 FROM stayer_queues AS q WHERE q.name = wanted.name)
ON CONFLICT (name) DO NOTHING;

-- name: event
-- number (which watchers get later), at, ids, queue, event, attempt, worker, note.
INSERT INTO stayer_new_events (at, ids, queue, event, attempt, worker, note)
SELECT ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE ?1::bigint IS NOT NULL;

-- name: event.old
-- Whoever numbers events sees to it: see stayer_number_events.
SELECT 1 WHERE ?1::bigint IS NULL;

-- name: event.number
SELECT stayer_number_events();

-- name: upkeep
SELECT stayer_upkeep();

-- name: watch
-- since, limit. The row's number is that of its last event. Of tasks that are gone only that is left.
SELECT e.number - json_array_length(e.ids::json) + one.position, e.at, one.id, e.queue, e.event,
    e.attempt, e.worker, e.note
FROM stayer_events AS e
CROSS JOIN LATERAL json_array_elements_text(e.ids::json) WITH ORDINALITY AS one (id, position)
WHERE e.number > ?1 AND e.number - json_array_length(e.ids::json) + one.position > ?1
    AND (
        one.id = '' OR e.event = 'deleted'
        OR EXISTS (SELECT 1 FROM stayer_tasks AS t WHERE t.id = one.id)
    )
ORDER BY e.number, one.position
LIMIT ?2;

-- name: purge.dated
-- For the trigger, which knows only the server's clock.
SELECT set_config('stayer.now', ?1::text, true);

-- name: queue.share
-- Queues: for the time of this transaction nobody changes their settings. Whoever does waits for those who have begun.
SELECT pg_advisory_xact_lock_shared(stayer_key('queue ' || name))
FROM (SELECT name FROM unnest(?1::text[]) AS wanted (name) ORDER BY name) AS ordered;

-- name: queue.keep
-- The other side of that.
SELECT pg_advisory_xact_lock(stayer_key('queue ' || ?1::text));

-- name: unique.lock
-- queues, unique words (of one length): from now on this transaction alone may claim these.
SELECT pg_advisory_xact_lock(key)
FROM (
    SELECT DISTINCT stayer_key('unique ' || queue || ' ' || word) AS key
    FROM unnest(?1::text[], ?2::text[]) AS wanted (queue, word)
    ORDER BY key
) AS ordered;

-- name: unique.lock_of
-- The same for the word of a task.
SELECT pg_advisory_xact_lock(stayer_key('unique ' || queue || ' ' || "unique"))
FROM stayer_tasks WHERE id = ? AND "unique" IS NOT NULL;

-- name: notify
-- channels, messages (of one length), whether somebody may listen is asked by a lock that those who listen hold.
-- Nobody waits for the disk.
SELECT set_config('synchronous_commit', 'off', true), pg_notify(channel, message)
FROM unnest(?1::text[], ?2::text[]) AS messages (channel, message)
WHERE NOT pg_try_advisory_xact_lock(stayer_key(channel));

-- name: notify.within
-- channel, messages: as a part of somebody's own transaction.
SELECT pg_notify(?1, message) FROM unnest(?2::text[]) AS messages (message);

-- name: listening
SELECT pg_advisory_lock_shared(stayer_key(?1));

-- name: clock
SELECT extract(epoch FROM clock_timestamp())::double precision;
