-- One named statement an operation, in SQLite's dialect. A list of values comes as one JSON array
-- and is unfolded by json_each, so that a statement is prepared once whatever the number.
-- {task} stands for rows.TASK_COLUMNS, {share} for rows.SHARE: what a task that becomes pending has to
-- have there.

-- name: submit
-- A row of rows.row_from_new. `updated` is set, so the trigger for rows by hand stays quiet.
INSERT INTO stayer_tasks (
    id, queue, name, command, cwd, env, parameters, state, held, priority, owner, tags, created,
    updated, eta, policy, key, "unique", unique_while, unique_for, share
) VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
    (SELECT CASE fair WHEN 'owner' THEN ifnull(?11, '') WHEN 'key' THEN ifnull(?17, '') ELSE '' END
     FROM stayer_queues WHERE name = ?2 AND lined)
)
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

-- name: submit.holders
-- now, pairs of queue and unique word (JSON array of arrays): the tasks that hold them.
SELECT {task} FROM stayer_tasks WHERE seq IN (
    SELECT (
        SELECT t.seq FROM stayer_tasks AS t
        WHERE t.queue = json_extract(pairs.value, '$[0]')
            AND t."unique" = json_extract(pairs.value, '$[1]') AND t.unique_end > ?1
        ORDER BY t.unique_end DESC
        LIMIT 1
    )
    FROM json_each(?2) AS pairs
);

-- name: get
SELECT {task} FROM stayer_tasks WHERE id IN (SELECT value FROM json_each(?));

-- name: get.seqs
SELECT {task} FROM stayer_tasks WHERE seq IN (SELECT value FROM json_each(?));

-- name: get.seq
SELECT seq FROM stayer_tasks WHERE id = ?;

-- name: reserve.worker
SELECT node FROM stayer_workers WHERE id = ? AND dead = 0;

-- name: reserve.queue
SELECT paused, "limit" - reserved - started, lined, key_limit, key_limits, fair, rate, rate_per,
    tokens, tokens_at
FROM stayer_queues WHERE name = ?;

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

-- name: lines.running
-- How many tasks of each key run.
SELECT key, count(*) FROM stayer_tasks
WHERE queue = ? AND state IN ('reserved', 'started') AND key IS NOT NULL
GROUP BY key;

-- name: lines.first
-- As reserve.next, with the key.
SELECT -priority, created, seq, key FROM stayer_tasks
WHERE queue = ? AND lane = ? AND state = 'pending' AND held = 0
ORDER BY priority DESC, created, seq
LIMIT ?;

-- name: lines.heads
-- The first task of every line of a lane: from one line to the next along the index, never along
-- the tasks.
WITH RECURSIVE heads (seq, line, priority, created, key, share) AS (
    SELECT seq, line, priority, created, key, share FROM stayer_tasks
    WHERE seq = (
        SELECT seq FROM stayer_tasks
        WHERE queue = ?1 AND lane = ?2 AND state = 'pending' AND held = 0 AND share IS NOT NULL
        ORDER BY line, priority DESC, created, seq
        LIMIT 1
    )
    UNION ALL
    SELECT t.seq, t.line, t.priority, t.created, t.key, t.share
    FROM heads, stayer_tasks AS t
    WHERE t.seq = (
        SELECT n.seq FROM stayer_tasks AS n
        WHERE n.queue = ?1 AND n.lane = ?2 AND n.state = 'pending' AND n.held = 0
            AND n.share IS NOT NULL AND n.line > heads.line
        ORDER BY n.line, n.priority DESC, n.created, n.seq
        LIMIT 1
    )
)
SELECT -priority, created, seq, key, share, line FROM heads;

-- name: lines.next
-- The best tasks of one line.
SELECT -priority, created, seq FROM stayer_tasks
WHERE queue = ? AND lane = ? AND line = ? AND state = 'pending' AND held = 0
    AND share IS NOT NULL
ORDER BY priority DESC, created, seq
LIMIT ?;

-- name: shares
SELECT share, used, runs, at FROM stayer_shares WHERE queue = ?;

-- name: shares.running
SELECT t.share, a.reserved_at FROM stayer_tasks AS t, stayer_attempts AS a
WHERE t.queue = ? AND t.state IN ('reserved', 'started') AND t.share IS NOT NULL
    AND a.task = t.seq AND a.attempt = t.attempt;

-- name: shares.run
-- queue, share, task, attempt: since when it ran, and what its share had used before; nothing unless
-- the queue is fair.
SELECT a.reserved_at, s.used, s.runs, s.at
FROM stayer_queues AS q
INNER JOIN stayer_attempts AS a ON a.task = ?3 AND a.attempt = ?4
LEFT JOIN stayer_shares AS s ON s.queue = ?1 AND s.share = ?2
WHERE q.name = ?1 AND q.fair IS NOT NULL;

-- name: shares.put
INSERT INTO stayer_shares (queue, share, used, runs, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, share) DO UPDATE SET
    used = excluded.used, runs = excluded.runs, at = excluded.at;

-- name: shares.forget
DELETE FROM stayer_shares WHERE at < ?;

-- name: reserve
-- now, worker, node, seqs. The rows are read afterwards: RETURNING gives whole seconds as integers.
UPDATE stayer_tasks
SET state = 'reserved', attempt = attempt + 1, updated = ?, worker = ?, node = ?, pid = NULL,
    ending = NULL, started_at = NULL, returned_from = NULL, paused = 0, usage = NULL
WHERE seq IN (SELECT value FROM json_each(?));

-- name: reserve.tokens
UPDATE stayer_queues SET tokens = ?, tokens_at = ? WHERE name = ?;

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
UPDATE stayer_tasks SET state = 'pending', updated = ?, share = {share}
WHERE seq IN (SELECT value FROM json_each(?));

-- name: promote.rates
-- The queues whose rate may keep tasks waiting.
SELECT rate, rate_per, tokens, tokens_at FROM stayer_queues
WHERE rate IS NOT NULL AND pending > 0 AND paused = 0
    AND ("limit" IS NULL OR reserved + started < "limit");

-- name: promote.next
SELECT min(eta) FROM stayer_tasks WHERE state = 'scheduled';

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
SELECT name, paused, "limit", key_limit, key_limits, rate, rate_per, tokens, tokens_at, fair, waiting, scheduled, pending, reserved, started, complete, failed,
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

-- name: queue.key_limit
UPDATE stayer_queues SET key_limit = ?, wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?;

-- name: queue.key_limits
-- A JSON object that is merged into the one there; null takes a key out.
UPDATE stayer_queues
SET key_limits = nullif(json_patch(ifnull(key_limits, '{}'), ?), '{}'),
    wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?;

-- name: queue.rate
-- A new bucket is full.
UPDATE stayer_queues
SET rate = ?1, rate_per = ?2, tokens = ?1, tokens_at = NULL,
    wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?3;

-- name: queue.fair
UPDATE stayer_queues SET fair = ?, wakes = (SELECT max(number) FROM stayer_events)
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

-- name: queue.drop_shares
DELETE FROM stayer_shares WHERE queue = ?;

-- name: purge.old
-- state, before, limit.
SELECT seq, id FROM stayer_tasks
WHERE state = ? AND finished_at IS NOT NULL AND finished_at < ?
ORDER BY finished_at
LIMIT ?;

-- name: purge.these
-- ids, states, before, limit.
SELECT seq, id FROM stayer_tasks
WHERE id IN (SELECT value FROM json_each(?)) AND state IN (SELECT value FROM json_each(?))
    AND finished_at < ?
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
