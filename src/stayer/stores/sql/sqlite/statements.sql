-- What SQLite says in words of its own; it has one writer at a time, so what is read here is true until
-- the end of the transaction. See ../statements.sql.

-- name: submit.holders
-- now, queues, unique words (of one length): the tasks that hold these words there.
SELECT {task} FROM stayer_tasks WHERE seq IN (
    SELECT (
        SELECT t.seq FROM stayer_tasks AS t
        WHERE t.queue = queues.value AND t."unique" = words.value AND t.unique_end > ?1
        ORDER BY t.unique_end DESC
        LIMIT 1
    )
    FROM json_each(?2) AS queues CROSS JOIN json_each(?3) AS words ON words.key = queues.key
);

-- name: reserve.next_of_all
-- queue, lanes, now, how many: the best of what is best in each lane, best first.
SELECT best.seq
FROM json_each(?2) AS lanes
CROSS JOIN stayer_tasks AS best
    ON best.seq IN (
        SELECT t.seq FROM stayer_tasks AS t
        WHERE t.queue = ?1 AND t.lane = lanes.value AND t.state = 'pending' AND t.held = 0
            AND (t.start_before IS NULL OR t.start_before > ?3)
        ORDER BY t.priority DESC, t.created, t.seq
        LIMIT ?4
    )
ORDER BY best.priority DESC, best.created, best.seq
LIMIT ?4
{claim best};

-- name: count
-- How many more tasks are in each state (1–8), whether somebody should look (9), the queue (10).
INSERT INTO stayer_queues (
    waiting, scheduled, pending, reserved, started, complete, failed, cancelled, wakes, name
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, (SELECT max(number) FROM stayer_events), ?10)
ON CONFLICT (name) DO UPDATE SET
    waiting = waiting + excluded.waiting,
    scheduled = scheduled + excluded.scheduled,
    pending = pending + excluded.pending,
    reserved = reserved + excluded.reserved,
    started = started + excluded.started,
    complete = complete + excluded.complete,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    wakes = iif(?9, excluded.wakes, wakes);

-- name: wake.worker
UPDATE stayer_workers SET wakes = (SELECT coalesce(max(number), 0) FROM stayer_events) WHERE id = ?;

-- name: wakes
-- queues, worker: the number of the last event that concerns one of them, and how often somebody
-- began to watch the worker, or wanted something of it.
SELECT
    max(
        coalesce(
            (SELECT max(wakes) FROM stayer_queues WHERE name {in texts ?1}),
            0
        ),
        coalesce((SELECT wakes FROM stayer_workers WHERE id = ?2), 0)
    ),
    (SELECT times_watched FROM stayer_workers WHERE id = ?2);

-- name: watch
-- since, limit. The row's number is that of its last event. Of tasks that are gone only that is
-- left. json_each goes through an array from its beginning to its end.
SELECT e.number - json_array_length(e.ids) + 1 + one.key AS each, e.at, one.value, e.queue, e.event,
    e.attempt, e.worker, e.note
FROM stayer_events AS e CROSS JOIN json_each(e.ids) AS one
WHERE e.number > ?1 AND each > ?1
    AND (
        one.value = '' OR e.event = 'deleted'
        OR EXISTS (SELECT 1 FROM stayer_tasks AS t WHERE t.id = one.value)
    )
ORDER BY e.number
LIMIT ?2;

-- name: event
-- number, at, ids, queue, event, attempt, worker, note.
INSERT INTO stayer_events (number, at, ids, queue, event, attempt, worker, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: event.old
-- Rows that end before the number given.
DELETE FROM stayer_events WHERE number < ?;

-- name: purge.dated
-- The trigger knows only SQLite's own clock.
UPDATE stayer_events SET at = ? WHERE number > ?;
