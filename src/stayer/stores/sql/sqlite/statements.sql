-- One named statement an operation, in SQLite's dialect. A list of values comes as one JSON array
-- and is unfolded by json_each, so that a statement is prepared once whatever the number.
-- {task} stands for rows.TASK_COLUMNS, {unneeded} for the statement of that name.

-- name: submit
-- A row of rows.row_from_new. `updated` is set, so the trigger for rows by hand stays quiet.
INSERT INTO stayer_tasks (
    id, queue, name, command, cwd, env, parameters, state, held, priority, owner, tags, created,
    updated, eta, policy, flow, part, upstreams, dependents
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: submit.last
SELECT coalesce(max(seq), 0) FROM stayer_tasks;

-- name: submit.events
-- For all tasks after the one given.
INSERT INTO stayer_events (at, task, id, queue, event)
SELECT created, seq, id, queue, state FROM stayer_tasks WHERE seq > ?;

-- name: submit.purged
-- Which of these ids (JSON array) were purged after the moment given.
SELECT id, queue, state, created, finished_at, at FROM stayer_purged
WHERE id IN (SELECT value FROM json_each(?)) AND at > ?;

-- name: submit.forgotten
-- Ids that may be used again, so their old traces go.
DELETE FROM stayer_purged WHERE id IN (SELECT value FROM json_each(?));

-- name: get
SELECT {task} FROM stayer_tasks WHERE id IN (SELECT value FROM json_each(?));

-- name: get.seqs
SELECT {task} FROM stayer_tasks WHERE seq IN (SELECT value FROM json_each(?));

-- name: get.seq
SELECT seq FROM stayer_tasks WHERE id = ?;

-- name: reserve.worker
SELECT node FROM stayer_workers WHERE id = ? AND dead = 0;

-- name: reserve.queue
SELECT paused, "limit" - reserved - started FROM stayer_queues WHERE name = ?;

-- name: reserve.lanes
-- The lanes of a queue that have something to take: from one lane to the next along the index,
-- never along the tasks.
WITH RECURSIVE lanes (lane) AS (
    SELECT min(lane) FROM stayer_tasks WHERE queue = ?1 AND state = 'pending' AND held = 0
    UNION ALL
    SELECT (
        SELECT min(t.lane) FROM stayer_tasks AS t
        WHERE t.queue = ?1 AND t.state = 'pending' AND t.held = 0 AND t.lane > lanes.lane
    )
    FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lane FROM lanes WHERE lane IS NOT NULL;

-- name: reserve.next
-- The best tasks of one lane: what orders them, and which they are.
SELECT -priority, created, seq FROM stayer_tasks
WHERE queue = ? AND lane = ? AND state = 'pending' AND held = 0
ORDER BY priority DESC, created, seq
LIMIT ?;

-- name: reserve
-- now, worker, node, seqs. The rows are read afterwards: RETURNING gives whole seconds as integers.
UPDATE stayer_tasks
SET state = 'reserved', attempt = attempt + 1, updated = ?, worker = ?, node = ?, pid = NULL,
    ending = NULL, started_at = NULL, returned_from = NULL, paused = 0, usage = NULL
WHERE seq IN (SELECT value FROM json_each(?));

-- name: reserve.attempts
-- now, seqs.
INSERT INTO stayer_attempts (task, attempt, worker, node, reserved_at)
SELECT seq, attempt, worker, node, ? FROM stayer_tasks
WHERE seq IN (SELECT value FROM json_each(?));

-- name: promote.due
-- now, limit.
SELECT seq, id, queue, attempt FROM stayer_tasks
WHERE state = 'scheduled' AND eta <= ?
ORDER BY eta
LIMIT ?;

-- name: promote
UPDATE stayer_tasks SET state = 'pending', updated = ?
WHERE seq IN (SELECT value FROM json_each(?));

-- name: promote.next
-- A moment long past while there is something in the outbox.
SELECT iif(
    EXISTS (SELECT 1 FROM stayer_outbox),
    0.0,
    (SELECT min(eta) FROM stayer_tasks WHERE state = 'scheduled')
);

-- name: attempt.start
UPDATE stayer_attempts SET started_at = ?, pid = ? WHERE task = ? AND attempt = ?;

-- name: attempt.end
UPDATE stayer_attempts SET finished_at = ?, ending = ?, error = ? WHERE task = ? AND attempt = ?;

-- name: event
INSERT INTO stayer_events (at, task, id, queue, event, attempt, worker, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

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
UPDATE stayer_workers SET wakes = (SELECT max(number) FROM stayer_events) WHERE id = ?;

-- name: wakes
-- queues, worker: the number of the last event that concerns one of them, and how often somebody
-- began to watch the worker.
SELECT
    max(
        coalesce(
            (SELECT max(wakes) FROM stayer_queues WHERE name IN (SELECT value FROM json_each(?1))),
            0
        ),
        coalesce((SELECT wakes FROM stayer_workers WHERE id = ?2), 0)
    ),
    (SELECT times_watched FROM stayer_workers WHERE id = ?2);

-- name: attend
-- now, until when, workers.
UPDATE stayer_workers
SET times_watched = times_watched + (watched_until < ?1), watched_until = max(watched_until, ?2)
WHERE id IN (SELECT value FROM json_each(?3));

-- name: beat.first
-- Registers an identity; the same nonce again is the same beat.
INSERT INTO stayer_workers (
    id, node, pid, queues, slots, version, draining, lease, keeps, number, nonce, started_at,
    beat_at, lease_end
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: beat
-- A lease never ends earlier because of a beat.
UPDATE stayer_workers
SET node = ?1, pid = ?2, queues = ?3, slots = ?4, version = ?5, draining = ?6, lease = ?7,
    keeps = ?8, number = ?9, nonce = ?10, beat_at = ?11, lease_end = max(lease_end, ?11 + ?7)
WHERE id = ?12 AND dead = 0 AND (number < ?9 OR (number = ?9 AND nonce = ?10));

-- name: beat.watched
SELECT watched_until > ? FROM stayer_workers WHERE id = ?;

-- name: beat.orders
SELECT id, attempt, orders FROM stayer_tasks
WHERE worker = ? AND state IN ('reserved', 'started') AND orders IS NOT NULL;

-- name: beat.suspects
-- Silent for over two of their intervals (a lease has eight), or last heard in a future that a clock
-- set back has taken away.
SELECT id, number, lease FROM stayer_workers
WHERE dead = 0 AND keeps = 0 AND id <> ?1 AND abs(?2 - beat_at) > lease / 4;

-- name: report.task
-- What a report may touch: only what (worker, attempt) hold.
SELECT seq, orders FROM stayer_tasks
WHERE id = ? AND worker = ? AND attempt = ? AND state IN ('reserved', 'started');

-- name: report.progress
UPDATE stayer_tasks SET progress = ?, losses = 0, updated = ? WHERE seq = ?;

-- name: report.orders
UPDATE stayer_tasks SET orders = ? WHERE seq = ?;

-- name: report.advanced
UPDATE stayer_tasks SET losses = 0, updated = ? WHERE seq = ?;

-- name: report.checkpoint
INSERT INTO stayer_checkpoints (task, attempt, at, data) VALUES (?, ?, ?, ?)
ON CONFLICT (task) DO UPDATE SET attempt = excluded.attempt, at = excluded.at, data = excluded.data;

-- name: report.usage
UPDATE stayer_tasks SET usage = ? WHERE seq = ?;

-- name: report.paused
UPDATE stayer_tasks SET paused = ?, updated = ? WHERE seq = ? AND state = 'started';

-- name: usage.point
INSERT INTO stayer_usage (task, attempt, slot, usage) VALUES (?, ?, ?, ?)
ON CONFLICT (task, attempt, slot) DO UPDATE SET usage = excluded.usage;

-- name: usage.thin
-- task, attempt, the grid's width.
DELETE FROM stayer_usage WHERE task = ? AND attempt = ? AND slot % ? <> 0;

-- name: usage
SELECT usage FROM stayer_usage WHERE task = ? AND attempt = ? ORDER BY slot;

-- name: report.log
INSERT INTO stayer_logs (task, attempt, start, at, data) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (task, attempt, start) DO UPDATE SET data = excluded.data, at = excluded.at;

-- name: report.log_end
SELECT start + length(data) FROM stayer_logs
WHERE task = ? AND attempt = ?
ORDER BY start DESC
LIMIT 1;

-- name: report.log_trim
-- task, attempt, end of the head, beginning of the tail.
DELETE FROM stayer_logs
WHERE task = ?1 AND attempt = ?2 AND start >= ?3 AND start + length(data) <= ?4;

-- name: bury
UPDATE stayer_workers SET dead = 1 WHERE id = ? AND number = ?;

-- name: bury.held
SELECT {task} FROM stayer_tasks
WHERE state IN ('reserved', 'started')
    AND worker IN (SELECT id FROM stayer_workers WHERE dead = 1)
ORDER BY seq;

-- name: bury.forget
DELETE FROM stayer_workers
WHERE dead = 1 AND NOT EXISTS (
    SELECT 1 FROM stayer_tasks AS t
    WHERE t.worker = stayer_workers.id AND t.state IN ('reserved', 'started')
);

-- name: holdings
SELECT {task} FROM stayer_tasks
WHERE worker = ? AND state IN ('reserved', 'started')
ORDER BY seq;

-- name: workers
SELECT id, node, pid, queues, slots, version, draining, lease, keeps, number, started_at, beat_at,
    lease_end,
    (SELECT count(*) FROM stayer_tasks AS t
     WHERE t.worker = w.id AND t.state IN ('reserved', 'started'))
FROM stayer_workers AS w
WHERE dead = 0
ORDER BY started_at, id;

-- name: worker
SELECT number, lease_end, dead FROM stayer_workers WHERE id = ?;

-- name: attempts
SELECT attempt, worker, node, pid, reserved_at, started_at, finished_at, ending, error,
    (SELECT usage FROM stayer_usage AS u
     WHERE u.task = a.task AND u.attempt = a.attempt
     ORDER BY slot DESC LIMIT 1)
FROM stayer_attempts AS a WHERE task = ? ORDER BY attempt;

-- name: events
SELECT number, at, id, queue, event, attempt, worker, note
FROM stayer_events WHERE task = ? ORDER BY number;

-- name: watch
SELECT number, at, id, queue, event, attempt, worker, note
FROM stayer_events WHERE number > ? ORDER BY number LIMIT ?;

-- name: last_event
SELECT coalesce(max(number), 0) FROM stayer_events;

-- name: log
SELECT start, data, at FROM stayer_logs
WHERE task = ? AND attempt = ? AND start > ?
ORDER BY start;

-- name: checkpoint
SELECT attempt, at, data FROM stayer_checkpoints WHERE task = ?;

-- name: queues
SELECT name, paused, "limit", waiting, scheduled, pending, reserved, started, complete, failed,
    cancelled,
    (SELECT count(*) FROM stayer_workers AS w, json_each(w.queues) AS listened
     WHERE w.dead = 0 AND listened.value = q.name),
    (SELECT created FROM stayer_tasks AS t
     WHERE t.queue = q.name AND t.state = 'pending' AND t.held = 0
     ORDER BY created LIMIT 1)
FROM stayer_queues AS q
WHERE ?1 OR name IN (SELECT value FROM json_each(?2))
ORDER BY name;

-- name: queue.make
INSERT INTO stayer_queues (name) VALUES (?) ON CONFLICT DO NOTHING;

-- name: queue.pause
UPDATE stayer_queues SET paused = ?, wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?;

-- name: queue.limit
UPDATE stayer_queues SET "limit" = ?, wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?;

-- name: queue.running
SELECT reserved + started FROM stayer_queues WHERE name = ?;

-- name: queue.tasks
SELECT seq FROM stayer_tasks WHERE queue = ? LIMIT ?;

-- name: queue.left
SELECT waiting + scheduled + pending + reserved + started + complete + failed + cancelled
FROM stayer_queues WHERE name = ?;

-- name: queue.drop
DELETE FROM stayer_queues WHERE name = ?;

-- name: purge.old
-- state, before, limit.
SELECT seq, id FROM stayer_tasks
WHERE state = ? AND finished_at IS NOT NULL AND finished_at < ? AND {unneeded}
ORDER BY finished_at
LIMIT ?;

-- name: purge.these
-- ids, states, before, limit.
SELECT seq, id FROM stayer_tasks
WHERE id IN (SELECT value FROM json_each(?)) AND state IN (SELECT value FROM json_each(?))
    AND finished_at < ? AND {unneeded}
LIMIT ?;

-- name: purge.remember
-- now, seqs. What never ran to an end may come again.
INSERT INTO stayer_purged (id, queue, state, created, finished_at, at)
SELECT id, queue, state, created, finished_at, ? FROM stayer_tasks
WHERE seq IN (SELECT value FROM json_each(?)) AND finished_at IS NOT NULL
ON CONFLICT (id) DO UPDATE SET at = excluded.at;

-- name: purge
DELETE FROM stayer_tasks WHERE seq IN (SELECT value FROM json_each(?));

-- name: purge.dated
-- The trigger knows only SQLite's own clock.
UPDATE stayer_events SET at = ? WHERE number > ?;

-- name: purge.forget
DELETE FROM stayer_purged WHERE id IN (SELECT id FROM stayer_purged WHERE at < ? LIMIT 1000);

-- name: purge.events
-- Traces of tasks that are gone, older than the moment given; the newest event stays.
DELETE FROM stayer_events
WHERE number IN (
    SELECT number FROM stayer_events
    WHERE task IS NULL AND at < ? AND number < (SELECT max(number) FROM stayer_events)
    LIMIT 1000
);

-- name: find.queues
-- Where to look: the queues asked for (or all) with what is in each state.
SELECT name, waiting, scheduled, pending, reserved, started, complete, failed, cancelled
FROM stayer_queues
WHERE ?1 OR name IN (SELECT value FROM json_each(?2));

-- name: unneeded
-- A condition, not a statement: no task that has not ended is to run after this one.
(dependents = 0 OR NOT EXISTS (
    SELECT 1 FROM stayer_upstreams AS u JOIN stayer_tasks AS t ON t.seq = u.task
    WHERE u.upstream = stayer_tasks.id AND t.finished_at IS NULL
));

-- name: upstreams.states
-- Which of these ids (JSON array) are or were there, and in which state; purged after the moment.
SELECT id, state FROM stayer_purged
WHERE id IN (SELECT value FROM json_each(?1)) AND at > ?2
UNION ALL
SELECT id, state FROM stayer_tasks WHERE id IN (SELECT value FROM json_each(?1));

-- name: upstreams.add
-- id of the task, position, id of the upstream, anyhow, waits.
INSERT INTO stayer_upstreams (task, position, upstream, anyhow, waits)
SELECT seq, ?2, ?3, ?4, ?5 FROM stayer_tasks WHERE id = ?1;

-- name: upstreams.needed
-- These have dependents from now on.
UPDATE stayer_tasks SET dependents = 1
WHERE id IN (SELECT value FROM json_each(?)) AND dependents = 0;

-- name: upstreams
SELECT upstream, anyhow FROM stayer_upstreams
WHERE task = (SELECT seq FROM stayer_tasks WHERE id = ?)
ORDER BY position;

-- name: waits
SELECT upstream FROM stayer_upstreams
WHERE task = (SELECT seq FROM stayer_tasks WHERE id = ?) AND waits = 1
ORDER BY position
LIMIT ?;

-- name: waits.count
SELECT count(*) FROM stayer_upstreams
WHERE task = (SELECT seq FROM stayer_tasks WHERE id = ?) AND waits = 1;

-- name: waits.any
SELECT EXISTS (SELECT 1 FROM stayer_upstreams WHERE task = ? AND waits = 1);

-- name: waits.none
UPDATE stayer_upstreams SET waits = 0 WHERE task = ? AND waits = 1;

-- name: waits.again
UPDATE stayer_upstreams SET waits = 1 WHERE task = ? AND upstream = ?;

-- name: waits.more
-- For one that it was not to run after by itself: a place in a line.
INSERT INTO stayer_upstreams (task, position, upstream, anyhow, waits)
SELECT ?1, coalesce(max(position), -1) + 1, ?2, 1, 1 FROM stayer_upstreams WHERE task = ?1;

-- name: waits.end
-- task, upstream.
UPDATE stayer_upstreams SET waits = 0 WHERE task = ? AND upstream = ? AND waits = 1;

-- name: outbox.add
INSERT INTO stayer_outbox (id, state, at) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state;

-- name: outbox.ended
-- now, ids (JSON array): those of them that have ended already.
INSERT INTO stayer_outbox (id, state, at)
SELECT id, state, ? FROM stayer_tasks
WHERE id IN (SELECT value FROM json_each(?)) AND finished_at IS NOT NULL
ON CONFLICT (id) DO NOTHING;

-- name: outbox
-- limit. The state in which the task is now, else in which it was when it went.
SELECT o.id, coalesce(t.state, o.state) FROM stayer_outbox AS o
LEFT JOIN stayer_tasks AS t ON t.id = o.id
ORDER BY o.at
LIMIT ?;

-- name: outbox.waiters
-- id, limit.
SELECT task, anyhow FROM stayer_upstreams WHERE upstream = ? AND waits = 1 LIMIT ?;

-- name: outbox.acknowledge
DELETE FROM stayer_outbox WHERE id IN (SELECT value FROM json_each(?));

-- name: flow.add
INSERT INTO stayer_flows (id, name, owner, created, parts) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: flows
-- The last one before, limit.
SELECT seq, id, name, owner, created, parts FROM stayer_flows
WHERE seq < ?
ORDER BY seq DESC
LIMIT ?;

-- name: flow
SELECT seq, id, name, owner, created, parts FROM stayer_flows WHERE id = ?;

-- name: flow.counts
SELECT part, state, count(*) FROM stayer_tasks WHERE flow = ? GROUP BY part, state;
