-- One named statement an operation, in SQLite's dialect. A list of values comes as one JSON array
-- and is unfolded by json_each, so that a statement is prepared once whatever the number.
-- {task}, {new}, {schedule}, {reserved} and {unusual} stand for columns (see rows.py), {unneeded} for the
-- statement of that name, {share} for rows.SHARE: what a task that becomes pending has to have there.

-- name: submit
-- Tasks that were asked for alike: [id, parameters] of each (JSON array), the number of the event that
-- the first one came, parameters that are no text (then there is but one task), and what rows.cells_in_common
-- gives. One statement for all, because each one that is run for a single row costs as much again.
-- `updated` is set, so the trigger for rows by hand stays quiet.
INSERT INTO stayer_tasks (id, parameters, history, share, {new})
SELECT
    json_extract(value, '$[0]'), ifnull(?3, json_extract(value, '$[1]')), '[' || (?2 + key) || ?4,
    (SELECT CASE fair WHEN 'owner' THEN ifnull(?6, '') WHEN 'key' THEN ifnull(?7, '') ELSE '' END
     FROM stayer_queues WHERE name = ?5 AND lined),
    {new_values}
FROM json_each(?1)
WHERE true
ON CONFLICT (id) DO NOTHING;

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
SELECT seq, queue FROM stayer_tasks WHERE id = ?;

-- name: reserve.worker
SELECT node, draining FROM stayer_workers WHERE id = ? AND dead = 0;

-- name: reserve.queue
SELECT paused, "limit" - reserved - started, lined, key_limit, key_limits, fair, rate, rate_per,
    tokens, tokens_at
FROM stayer_queues WHERE name = ?;

-- name: reserve.lanes
-- queue, how many at most: the lanes that have something to take, from one to the next along the
-- index, never along the tasks.
WITH RECURSIVE lanes (lane) AS (
    SELECT min(lane) FROM stayer_tasks WHERE queue = ?1 AND state = 'pending' AND held = 0
    UNION ALL
    SELECT (
        SELECT min(t.lane) FROM stayer_tasks AS t
        WHERE t.queue = ?1 AND t.state = 'pending' AND t.held = 0 AND t.lane > lanes.lane
    )
    FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lane FROM lanes WHERE lane IS NOT NULL LIMIT ?2;

-- name: reserve.before
-- queue, how many: what goes before those of priority 0, best first. With its lane, and until when it
-- may be taken, for whoever can't look into each lane.
SELECT seq, lane, start_before FROM stayer_tasks
WHERE queue = ?1 AND state = 'pending' AND held = 0 AND priority <> 0 AND priority > 0
ORDER BY priority DESC, created, seq
LIMIT ?2;

-- name: reserve.standing
-- The same of priority 0; a null in the place of one that is held, or of another priority.
SELECT iif(held = 0 AND priority = 0, seq, NULL), lane, start_before FROM stayer_tasks
WHERE queue = ?1 AND state = 'pending' AND state NOT IN ('reserved', 'started')
ORDER BY created, seq
LIMIT ?2;

-- name: reserve.behind
-- The same of what goes behind those.
SELECT seq, lane, start_before FROM stayer_tasks
WHERE queue = ?1 AND state = 'pending' AND held = 0 AND priority <> 0 AND priority < 0
ORDER BY priority DESC, created, seq
LIMIT ?2;

-- name: reserve.next
-- queue, lane, now, how many: the best tasks of one lane, best first, in one JSON array. (Python lets
-- go of its lock at every row that it reads, and gets it back when others have had enough of it.)
SELECT json_group_array(seq) FROM (
    SELECT seq FROM stayer_tasks
    WHERE queue = ?1 AND lane = ?2 AND state = 'pending' AND held = 0
        AND (start_before IS NULL OR start_before > ?3)
    ORDER BY priority DESC, created, seq
    LIMIT ?4
);

-- name: reserve.next_of_all
-- The same for several lanes, a JSON array: the best of what is best in each.
SELECT json_group_array(seq) FROM (
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
);

-- name: lines.running
-- How many tasks of each key run.
SELECT key, count(*) FROM stayer_tasks
WHERE queue = ? AND state IN ('reserved', 'started') AND key IS NOT NULL
GROUP BY key;

-- name: lines.first
-- As reserve.next, with the key.
SELECT -priority, created, seq, key FROM stayer_tasks
WHERE queue = ? AND lane = ? AND state = 'pending' AND held = 0
    AND (start_before IS NULL OR start_before > ?)
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
            AND (start_before IS NULL OR start_before > ?3)
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
            AND (n.start_before IS NULL OR n.start_before > ?3)
        ORDER BY n.line, n.priority DESC, n.created, n.seq
        LIMIT 1
    )
)
SELECT -priority, created, seq, key, share, line FROM heads;

-- name: lines.next
-- The best tasks of one line.
SELECT -priority, created, seq FROM stayer_tasks
WHERE queue = ? AND lane = ? AND line = ? AND state = 'pending' AND held = 0
    AND share IS NOT NULL AND (start_before IS NULL OR start_before > ?)
ORDER BY priority DESC, created, seq
LIMIT ?;

-- name: shares
SELECT share, used, runs, at FROM stayer_shares WHERE queue = ?;

-- name: shares.running
SELECT share, reserved_at FROM stayer_tasks
WHERE queue = ? AND state IN ('reserved', 'started') AND share IS NOT NULL;

-- name: shares.run
-- queue, share: what it had used before; nothing unless the queue is fair.
SELECT s.used, s.runs, s.at
FROM stayer_queues AS q
LEFT JOIN stayer_shares AS s ON s.queue = ?1 AND s.share = ?2
WHERE q.name = ?1 AND q.fair IS NOT NULL;

-- name: shares.put
INSERT INTO stayer_shares (queue, share, used, runs, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, share) DO UPDATE SET
    used = excluded.used, runs = excluded.runs, at = excluded.at;

-- name: shares.forget
DELETE FROM stayer_shares WHERE at < ?;

-- name: taken
-- What becomes of a task that is reserved; a part of the next two.
state = 'reserved', attempt = attempt + 1, updated = ?1, worker = ?2, node = ?3, pid = NULL,
    ending = NULL, started_at = NULL, returned_from = NULL, paused = 0, usage = NULL,
    reserved_at = ?1;

-- name: reserve
-- now, worker, node, the number of the first event, what follows it in an entry of history up to
-- the attempt, and from there on, seqs. The rows are read afterwards: RETURNING gives whole seconds
-- as integers.
UPDATE stayer_tasks
SET {taken}, history = history || '[' || (?4 + taken.key) || ?5 || (attempt + 1) || ?6
FROM json_each(?7) AS taken
WHERE seq = taken.value;

-- name: reserve.stretch
-- The same for all from one seq to another, which costs a sixth less.
UPDATE stayer_tasks
SET {taken}, history = history || '[' || (?4 + seq - ?7) || ?5 || (attempt + 1) || ?6
WHERE seq BETWEEN ?7 AND ?8;

-- name: reserve.tokens
UPDATE stayer_queues SET tokens = ?, tokens_at = ? WHERE name = ?;

-- name: reserve.read
-- seqs, the first of them: what most tasks have, as one JSON array of arrays (see reserve.next), and
-- when the first was made. The last of each is 1 if this one has nothing more. As bytes: what others
-- wrote need not be text.
SELECT
    CAST(json_group_array(json_array({reserved}, coalesce({unusual}) IS NULL)) AS BLOB),
    {first_created}
FROM stayer_tasks
WHERE seq IN (SELECT value FROM json_each(?1));

-- name: promote.due
-- now, limit.
SELECT seq, id, queue, attempt FROM stayer_tasks
WHERE state = 'scheduled' AND eta <= ?
ORDER BY eta
LIMIT ?;

-- name: promote
UPDATE stayer_tasks SET state = 'pending', updated = ?, share = {share}
WHERE seq IN (SELECT value FROM json_each(?));

-- name: promote.near
-- now, limit: what has waited for its node for long enough, or waits for one that can't take it.
SELECT seq, queue FROM stayer_tasks
WHERE near_node IS NOT NULL AND state = 'pending' AND (
    near_until <= ?1 OR near_node NOT IN (
        SELECT node FROM stayer_workers
        WHERE dead = 0 AND draining = 0 AND drain = 0 AND lease_end > ?1
    )
)
LIMIT ?2;

-- name: promote.anywhere
UPDATE stayer_tasks SET near_node = NULL, near_until = NULL
WHERE seq IN (SELECT value FROM json_each(?));

-- name: promote.nodes
-- When what waits for a node has waited for long enough, or for one that can't take it any more: by
-- then its workers have beaten again, or nobody waits for them.
SELECT min(
    min(until),
    coalesce(
        (SELECT max(lease_end) FROM stayer_workers AS w
         WHERE w.node = near_node AND dead = 0 AND draining = 0 AND drain = 0),
        0.0
    )
)
FROM (
    SELECT near_node, min(near_until) AS until FROM stayer_tasks
    WHERE near_node IS NOT NULL AND state = 'pending'
    GROUP BY near_node
)
GROUP BY near_node;

-- name: promote.rates
-- The queues whose rate may keep tasks waiting.
SELECT rate, rate_per, tokens, tokens_at FROM stayer_queues
WHERE rate IS NOT NULL AND pending > 0 AND paused = 0
    AND ("limit" IS NULL OR reserved + started < "limit");

-- name: promote.next
-- A moment long past while there is something in the outbox.
SELECT min(at) FROM (
    SELECT 0.0 AS at WHERE EXISTS (SELECT 1 FROM stayer_outbox)
    UNION ALL
    SELECT min(eta) AS at FROM stayer_tasks WHERE state = 'scheduled'
    UNION ALL
    SELECT min(start_before) FROM stayer_tasks
    WHERE start_before IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending')
    UNION ALL
    SELECT min(next) FROM stayer_schedules WHERE paused = 0 AND next IS NOT NULL
);

-- name: promote.expired
-- now, limit.
SELECT {task} FROM stayer_tasks
WHERE start_before IS NOT NULL AND start_before <= ?
    AND state IN ('waiting', 'scheduled', 'pending')
ORDER BY start_before
LIMIT ?;

-- name: ahead
-- The id: how many tasks of the queue are taken before it.
SELECT count(*)
FROM stayer_tasks AS mine
JOIN stayer_tasks AS t
    ON t.queue = mine.queue AND t.state = 'pending' AND t.held = 0
    AND (t.priority > mine.priority OR (
        t.priority = mine.priority AND (t.created, t.seq) < (mine.created, mine.seq)
    ))
WHERE mine.id = ? AND mine.state = 'pending';

-- name: durations
-- queue, limit.
SELECT name, command, finished_at - started_at
FROM stayer_tasks
WHERE queue = ? AND state = 'complete' AND state NOT IN ('reserved', 'started')
    AND started_at IS NOT NULL
ORDER BY created DESC
LIMIT ?;

-- name: completed
-- What becomes of a task that ran to its end, as core/effects.py has it (a test compares); a part of the
-- statements that follow.
state = 'complete', updated = ?1, finished_at = max(?1, coalesce(started_at, reserved_at, 0)), ending = 'done',
    returned_from = NULL, error = NULL, orders = NULL, paused = 0;

-- name: plainly
-- Where that is all there is to do: not for those on which others depend, or whose runs count (share), or of
-- which somebody wants to hear. The signs keep other indexes than those of id and seq out.
+state = ?4 AND +worker = ?2 AND attempt = ?5 AND last_order = ?6 AND +queue = ?7
    AND dependents = 0 AND share IS NULL AND notify IS NULL
    AND (SELECT q.notify FROM stayer_queues AS q WHERE q.name = ?7) IS NULL;

-- name: commit.done
-- now, worker, an entry of history from behind its number on, state, attempt, last_order, queue,
-- {id: number and result}. The plainest of all changes, for many tasks at once; the number has
-- 16 digits, an empty result is none.
UPDATE stayer_tasks
SET {completed}, result = nullif(substr(done.value, 17), ''),
    history = history || '[' || (substr(done.value, 1, 16) + 0) || ?3
FROM json_each(?8) AS done
WHERE stayer_tasks.id = done.key AND {plainly};

-- name: commit.done_stretch
-- The same for all from one seq to another, which costs a third less; then the number of the first,
-- the results as bytes, filled up with spaces, and how many bytes each has.
UPDATE stayer_tasks
SET {completed},
    result = nullif(rtrim(CAST(substr(?11, (seq - ?8) * ?12 + 1, ?12) AS TEXT)), ''),
    history = history || '[' || (?10 + seq - ?8) || ?3
WHERE seq BETWEEN ?8 AND ?9 AND {plainly};

-- name: commit.seqs
-- Where tasks (JSON array of ids) stand in the table, as a JSON array: see reserve.next.
SELECT json_group_array(t.seq)
FROM json_each(?1) AS asked CROSS JOIN stayer_tasks AS t ON t.id = asked.value;

-- name: commit.done_which
-- {id: number and result}: those whose history has got that number.
SELECT done.key FROM json_each(?1) AS done
WHERE EXISTS (
    SELECT 1 FROM stayer_tasks
    WHERE stayer_tasks.id = done.key
        AND instr(char(10) || history, char(10) || '[' || (substr(done.value, 1, 16) + 0) || ',') > 0
);

-- name: history.add
UPDATE stayer_tasks SET history = history || ? WHERE seq = ?;

-- name: history.long
-- length, seqs: the histories that are longer.
SELECT seq, history FROM stayer_tasks
WHERE seq IN (SELECT value FROM json_each(?2)) AND length(history) > ?1;

-- name: history.last
-- How many lines there are up to the last part.
SELECT before + count FROM stayer_history WHERE task = ? ORDER BY before DESC LIMIT 1;

-- name: history.move
-- task, how many lines came before, how many these are, the lines.
INSERT INTO stayer_history (task, before, count, lines) VALUES (?, ?, ?, ?);

-- name: history.moved
UPDATE stayer_tasks SET history = '' WHERE seq = ?;

-- name: history.head
-- task, head: the last part that holds some of the first lines.
SELECT lines FROM stayer_history WHERE task = ? AND before < ? ORDER BY before DESC LIMIT 1;

-- name: history.middle
-- task, head, tail: the last of the parts that lie between.
SELECT before, lines FROM stayer_history
WHERE task = ?1 AND before >= ?2 AND before < ?3 AND before + count <= ?3
ORDER BY before DESC
LIMIT 1;

-- name: history.forget
-- task, the first part that goes and the last, by what came before them.
DELETE FROM stayer_history WHERE task = ? AND before BETWEEN ? AND ?;

-- name: history.forget_logs
-- task, and the attempts between which they lie.
DELETE FROM stayer_logs WHERE task = ? AND attempt > ? AND attempt < ?;

-- name: history.forget_usage
DELETE FROM stayer_usage WHERE task = ? AND attempt > ? AND attempt < ?;

-- name: event
-- number, at, ids, queue, event, attempt, worker, note.
INSERT INTO stayer_events (number, at, ids, queue, event, attempt, worker, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: event.old
-- Rows that end before the number given.
DELETE FROM stayer_events WHERE number < ?;

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
-- began to watch the worker, or wanted it to drain.
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
    id, node, pid, queues, slots, version, draining, lease, keeps, handles, number, nonce,
    started_at, beat_at, lease_end
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO NOTHING;

-- name: beat
-- A lease never ends earlier because of a beat.
UPDATE stayer_workers
SET node = ?1, pid = ?2, queues = ?3, slots = ?4, version = ?5, draining = ?6, lease = ?7,
    keeps = ?8, handles = ?9, number = ?10, nonce = ?11, beat_at = ?12,
    lease_end = max(lease_end, ?12 + ?7)
WHERE id = ?13 AND dead = 0 AND (number < ?10 OR (number = ?10 AND nonce = ?11));

-- name: beat.wanted
-- Whether somebody watches the worker, and whether it is to drain.
SELECT watched_until > ?, drain FROM stayer_workers WHERE id = ?;

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

-- name: report.saved
UPDATE stayer_tasks SET losses = 0, checkpoint_at = ?1, updated = ?1 WHERE seq = ?2;

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
SELECT id, node, pid, queues, slots, version, draining, lease, keeps, handles, number, started_at,
    beat_at, lease_end,
    (SELECT count(*) FROM stayer_tasks AS t
     WHERE t.worker = w.id AND t.state IN ('reserved', 'started'))
FROM stayer_workers AS w
WHERE dead = 0
ORDER BY started_at, id;

-- name: drain
UPDATE stayer_workers SET drain = 1, times_watched = times_watched + (drain = 0)
WHERE id = ? AND dead = 0;

-- name: worker
SELECT number, lease_end, dead FROM stayer_workers WHERE id = ?;

-- name: history
-- The parts of a task's history, the oldest first: how many lines came before (null for those that
-- stand in its row), and the lines.
SELECT before, lines FROM stayer_history WHERE task = ?1
UNION ALL
SELECT NULL, history FROM stayer_tasks WHERE seq = ?1
ORDER BY before NULLS LAST;

-- name: attempts.usage
-- The newest of each attempt.
SELECT attempt, usage, max(slot) FROM stayer_usage WHERE task = ? GROUP BY attempt;

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

-- name: last_event
SELECT coalesce(max(number), 0) FROM stayer_events;

-- name: log
SELECT start, data, at FROM stayer_logs
WHERE task = ? AND attempt = ? AND start > ?
ORDER BY start;

-- name: checkpoint
SELECT attempt, at, data FROM stayer_checkpoints WHERE task = ?;

-- name: checkpoint.forget
DELETE FROM stayer_checkpoints WHERE task = ?;

-- name: queues
SELECT name, paused, "limit", retention, key_limit, key_limits, rate, rate_per, tokens, tokens_at,
    fair, notify, waiting, scheduled, pending, reserved, started, complete, failed, cancelled,
    (SELECT count(*) FROM stayer_workers AS w, json_each(w.queues) AS listened
     WHERE w.dead = 0 AND listened.value = q.name),
    (SELECT created FROM stayer_tasks AS t
     WHERE t.queue = q.name AND t.state = 'pending' AND t.state NOT IN ('reserved', 'started')
         AND t.held = 0
     ORDER BY created LIMIT 1)
FROM stayer_queues AS q
WHERE ?1 OR name IN (SELECT value FROM json_each(?2))
ORDER BY name;

-- name: identity.get
SELECT value FROM stayer_meta WHERE key = 'identity';

-- name: identity.make
INSERT INTO stayer_meta (key, value) VALUES ('identity', ?) ON CONFLICT (key) DO NOTHING;

-- name: figures.last
SELECT value FROM stayer_meta WHERE key = 'sampled';

-- name: figures.first
INSERT INTO stayer_meta (key, value) VALUES ('sampled', ?) ON CONFLICT (key) DO NOTHING;

-- name: figures.claim
-- Up to when it is counted now, and was before: only one of several who count comes through.
UPDATE stayer_meta SET value = ? WHERE key = 'sampled' AND value = ?;

-- name: figures.submitted
-- From, to: how many of each queue. A state at a time, along the index of lists; and what runs.
WITH running (queue, number) AS MATERIALIZED (
    SELECT queue, count(*) FROM stayer_tasks
    WHERE state IN ('reserved', 'started') AND created >= ?1 AND created < ?2
    GROUP BY queue
)

SELECT name, (
    SELECT count(*) FROM stayer_tasks AS t
    WHERE t.queue = q.name AND t.created >= ?1 AND t.created < ?2
        AND t.state NOT IN ('reserved', 'started')
        AND t.state IN ('waiting', 'scheduled', 'pending', 'complete', 'failed', 'cancelled')
) + coalesce((SELECT number FROM running WHERE queue = q.name), 0)
FROM stayer_queues AS q;

-- name: figures.ended
-- From, to: queue, state, how many, how long they ran and had waited. By when their ends came, which
-- may be long after they were: a minute that has been counted does not change any more.
-- Queue by queue, as the index of what has ended goes.
SELECT t.queue, t.state, count(*), coalesce(sum(t.finished_at - t.started_at), 0.0),
    coalesce(sum(t.started_at - t.created), 0.0)
FROM stayer_queues AS q
CROSS JOIN stayer_tasks AS t
    ON t.queue = q.name AND t.state IN ('complete', 'failed', 'cancelled')
    AND t.finished_at IS NOT NULL AND t.updated >= ? AND t.updated < ?
GROUP BY t.queue, t.state;

-- name: figures.add
INSERT INTO stayer_figures (
    step, at, queue, depth, running, age, submitted, complete, failed, cancelled, ran, waited
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (step, at, queue) DO UPDATE SET
    depth = max(coalesce(depth, excluded.depth), coalesce(excluded.depth, depth)),
    running = max(coalesce(running, excluded.running), coalesce(excluded.running, running)),
    age = max(coalesce(age, excluded.age), coalesce(excluded.age, age)),
    submitted = submitted + excluded.submitted,
    complete = complete + excluded.complete,
    failed = failed + excluded.failed,
    cancelled = cancelled + excluded.cancelled,
    ran = ran + excluded.ran,
    waited = waited + excluded.waited;

-- name: figures.forget
DELETE FROM stayer_figures WHERE step = ? AND at < ?;

-- name: figures
-- step, since, until, all queues?, queues.
SELECT at, queue, depth, running, age, submitted, complete, failed, cancelled, ran, waited
FROM stayer_figures
WHERE step = ?1 AND at >= ?2 AND at < ?3
    AND iif(?4, queue <> '', queue IN (SELECT value FROM json_each(?5)))
ORDER BY at, queue;

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
UPDATE stayer_queues SET key_limits = ?, wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?;

-- name: queue.rate
-- A new bucket is full; one that is changed, or set again as it was, has no more than it had.
UPDATE stayer_queues
SET rate = ?1, rate_per = ?2,
    tokens = CASE WHEN rate IS NULL THEN ?1 ELSE min(tokens, ?1) END,
    tokens_at = CASE WHEN rate IS NULL OR ?1 IS NULL THEN NULL ELSE tokens_at END,
    wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?3;

-- name: queue.fair
UPDATE stayer_queues SET fair = ?, wakes = (SELECT max(number) FROM stayer_events)
WHERE name = ?;

-- name: queue.notify
UPDATE stayer_queues SET notify = ? WHERE name = ?;

-- name: queue.retention
UPDATE stayer_queues SET retention = ? WHERE name = ?;

-- name: queue.names
SELECT name FROM stayer_queues;

-- name: queue.running
SELECT reserved + started FROM stayer_queues WHERE name = ?;

-- name: queue.tasks
-- None of them runs.
SELECT seq FROM stayer_tasks WHERE queue = ? AND state NOT IN ('reserved', 'started') LIMIT ?;

-- name: queue.left
SELECT waiting + scheduled + pending + reserved + started + complete + failed + cancelled
FROM stayer_queues WHERE name = ?;

-- name: queue.drop
DELETE FROM stayer_queues WHERE name = ?;

-- name: queue.drop_shares
DELETE FROM stayer_shares WHERE queue = ?;

-- name: purge.old
-- queue, state, before, limit. What a schedule refers to stays.
SELECT updated, seq, id FROM stayer_tasks
WHERE queue = ? AND state = ? AND finished_at IS NOT NULL AND updated < ?
    AND NOT EXISTS (SELECT 1 FROM stayer_schedules WHERE last_task = stayer_tasks.id)
    AND {unneeded}
ORDER BY updated
LIMIT ?;

-- name: forget.queues
SELECT name, retention, logs_gone, results_gone FROM stayer_queues;

-- name: forget.end
-- queue, state, after, before, how many: when the end of the last one of these came; nothing if fewer did.
SELECT updated FROM stayer_tasks
WHERE queue = ?1 AND state = ?2 AND finished_at IS NOT NULL AND updated > ?3 AND updated < ?4
ORDER BY updated
LIMIT 1 OFFSET ?5 - 1;

-- name: forget.ended
-- queue, state, after, up to.
SELECT seq FROM stayer_tasks
WHERE queue = ? AND state = ? AND finished_at IS NOT NULL AND updated > ? AND updated <= ?;

-- name: forget.spared
-- queue, up to, limit: whose results were passed over while others needed them, which none does now.
SELECT seq FROM stayer_tasks
WHERE queue = ? AND dependents = 1 AND result IS NOT NULL AND finished_at IS NOT NULL
    AND updated <= ? AND {unneeded}
ORDER BY updated
LIMIT ?;

-- name: forget.logs
DELETE FROM stayer_logs WHERE task IN (SELECT value FROM json_each(?));

-- name: forget.results
UPDATE stayer_tasks SET result = NULL
WHERE seq IN (SELECT value FROM json_each(?)) AND result IS NOT NULL AND {unneeded};

-- name: forget.logs_gone
UPDATE stayer_queues SET logs_gone = ? WHERE name = ?;

-- name: forget.results_gone
UPDATE stayer_queues SET results_gone = ? WHERE name = ?;

-- name: schedules
-- all, names.
SELECT {schedule} FROM stayer_schedules
WHERE ?1 OR name IN (SELECT value FROM json_each(?2))
ORDER BY name;

-- name: schedules.due
-- now, limit.
SELECT {schedule} FROM stayer_schedules
WHERE paused = 0 AND next IS NOT NULL AND next <= ?
ORDER BY next
LIMIT ?;

-- name: schedule.put
-- With another expression or zone, or after a pause, it begins to count anew.
INSERT INTO stayer_schedules (
    name, cron, zone, task, overlap, catch_up, jitter, paused, origin, next, created, updated, last
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11)
ON CONFLICT (name) DO UPDATE SET
    cron = ?2, zone = ?3, task = ?4, overlap = ?5, catch_up = ?6, jitter = ?7, paused = ?8,
    origin = ?9, next = ?10, updated = ?11, waiting = 0,
    last = iif(cron = ?2 AND zone = ?3 AND NOT (paused AND NOT ?8), last, ?11);

-- name: schedule.fire
-- last, next, waiting, name, the `updated` and the `last` that were seen.
UPDATE stayer_schedules SET last = ?1, next = ?2, waiting = ?3
WHERE name = ?4 AND updated = ?5 AND last IS ?6;

-- name: schedule.newest
UPDATE stayer_schedules SET last_task = ? WHERE name = ?;

-- name: schedule.drop
DELETE FROM stayer_schedules WHERE name = ?;

-- name: purge.these
-- ids, states, before, limit.
SELECT seq, id FROM stayer_tasks
WHERE id IN (SELECT value FROM json_each(?)) AND state IN (SELECT value FROM json_each(?))
    AND finished_at IS NOT NULL AND updated < ? AND {unneeded}
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
-- The oldest, as far as they are older than the moment given; the newest event stays.
DELETE FROM stayer_events
WHERE number IN (
    SELECT number FROM (SELECT number, at FROM stayer_events ORDER BY number LIMIT 1000)
    WHERE at < ? AND number < (SELECT max(number) FROM stayer_events)
);

-- name: find.queues
-- Where to look: the queues asked for (or all) with what is in each state.
SELECT name, waiting, scheduled, pending, reserved, started, complete, failed, cancelled
FROM stayer_queues
WHERE ?1 OR name IN (SELECT value FROM json_each(?2));

-- name: failures
-- all queues?, queues: how many of each fault in each queue, and when the first and the last.
SELECT fingerprint, queue, count(*), min(finished_at), max(finished_at) FROM stayer_tasks
WHERE fingerprint IS NOT NULL AND finished_at IS NOT NULL
    AND (?1 OR queue IN (SELECT value FROM json_each(?2)))
GROUP BY fingerprint, queue;

-- name: failures.newest
-- fingerprint, queue.
SELECT id, name, command, ending, error FROM stayer_tasks
WHERE fingerprint = ? AND queue = ?
ORDER BY finished_at DESC
LIMIT 1;

-- name: failures.lately
-- now, the length of a step, how many, fingerprint, queues: how many failed how many steps ago.
SELECT CAST((?1 - finished_at) / ?2 AS INTEGER) AS ago, count(*) FROM stayer_tasks
WHERE fingerprint = ?4 AND queue IN (SELECT value FROM json_each(?5))
    AND finished_at > ?1 - ?2 * ?3 AND finished_at <= ?1
GROUP BY ago;

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
WHERE task = (SELECT seq FROM stayer_tasks WHERE id = ?) AND anyhow < 2
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
-- For one that it was not to run after by itself: a place in a line, for this time.
INSERT INTO stayer_upstreams (task, position, upstream, anyhow, waits)
SELECT ?1, coalesce(max(position), -1) + 1, ?2, 2, 1 FROM stayer_upstreams WHERE task = ?1;

-- name: waits.end
-- task, upstream.
UPDATE stayer_upstreams SET waits = 0 WHERE task = ? AND upstream = ? AND waits = 1;

-- name: outbox.add
INSERT INTO stayer_outbox (id, state, at) VALUES (?, ?, ?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state;

-- name: outbox.ended
-- now, ids (JSON array): those of them that have ended already, or are gone.
INSERT INTO stayer_outbox (id, state, at)
SELECT named.value, coalesce(t.state, p.state, 'cancelled'), ?1 FROM json_each(?2) AS named
LEFT JOIN stayer_tasks AS t ON t.id = named.value
LEFT JOIN stayer_purged AS p ON p.id = named.value
WHERE t.id IS NULL OR t.finished_at IS NOT NULL
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
