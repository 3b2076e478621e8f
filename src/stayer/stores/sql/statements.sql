-- One named statement an operation, for every database: what they say in different words is a macro in
-- braces, which the dialect expands when it is loaded (dialect.py says which there are). A parameter is
-- `?` or `?2`. A statement may stand in for another by its name, such as {unneeded}; {task},
-- {new} and {schedule} are columns (see rows.py). What a database has to say altogether otherwise is in its own
-- statements.sql, which must also have those that are said for none here (`_OWN` in dialect.py).

-- name: submit
-- id, parameters, the number of the event that it came, and what rows.cells_in_common gives. `updated` is
-- set, so that a trigger for rows by hand stays quiet.
INSERT INTO stayer_tasks (id, parameters, history, share, {new})
VALUES (
    ?1, ?2, '[' || ?3 || ?4,
    (SELECT CASE q.fair WHEN 'owner' THEN coalesce(?6, '') WHEN 'key' THEN coalesce(?7, '') ELSE '' END
     FROM stayer_queues AS q WHERE q.name = ?5 AND q.lined = {yes}),
    {new_values}
)
{or nothing id};

-- name: submit.purged
-- Which of these ids (JSON array) were purged after the moment given.
SELECT id, queue, state, created, finished_at, at FROM stayer_purged
WHERE id {in texts ?} AND at > ?;

-- name: submit.forgotten
-- Ids that may be used again, so their old traces go.
DELETE FROM stayer_purged WHERE id {in texts ?};

-- name: get
SELECT {task} FROM stayer_tasks WHERE id {in texts ?};

-- name: get.seqs
SELECT {task} FROM stayer_tasks WHERE seq {in numbers ?};

-- name: get.locked
-- Locked, so that nobody changes them before this transaction has.
SELECT {task} FROM stayer_tasks WHERE seq {in numbers ?} ORDER BY seq {lock};

-- name: get.seq
SELECT seq, queue FROM stayer_tasks WHERE id = ?;

-- name: reserve.worker
-- Locked, so that nobody declares it lost meanwhile.
SELECT node, CASE WHEN draining = {yes} OR drain = {yes} THEN 1 ELSE 0 END FROM stayer_workers WHERE id = ? AND dead = {no} {lock};

-- name: reserve.queue
SELECT paused, "limit" - reserved - started, lined, key_limit, key_limits, fair, rate, rate_per,
    tokens, tokens_at
FROM {counted queues} WHERE name = ?;

-- name: reserve.lanes
-- queue, how many at most: the lanes that have something to take, from one to the next along the
-- index, never along the tasks.
WITH RECURSIVE lanes (lane) AS (
    SELECT min(lane) FROM stayer_tasks WHERE queue = ?1 AND state = 'pending' AND held = {no}
    UNION ALL
    SELECT (
        SELECT min(t.lane) FROM stayer_tasks AS t
        WHERE t.queue = ?1 AND t.state = 'pending' AND t.held = {no} AND t.lane > lanes.lane
    )
    FROM lanes WHERE lanes.lane IS NOT NULL
)
SELECT lane FROM lanes WHERE lane IS NOT NULL LIMIT ?2;

-- name: reserve.before
-- queue, how many: what goes before those of priority 0, best first. With its lane, and until when it
-- may be taken, for whoever can't look into each lane.
SELECT seq, lane, start_before FROM stayer_tasks
WHERE queue = ?1 AND state = 'pending' AND held = {no} AND priority <> 0 AND priority > 0
ORDER BY priority DESC, created, seq
LIMIT ?2;

-- name: reserve.standing
-- The same of priority 0; a null in the place of one that is held, or of another priority.
SELECT CASE WHEN held = {no} AND priority = 0 THEN seq END, lane, start_before FROM stayer_tasks
WHERE queue = ?1 AND state = 'pending' AND state NOT IN ('reserved', 'started')
ORDER BY created, seq
LIMIT ?2;

-- name: reserve.behind
-- The same of what goes behind those.
SELECT seq, lane, start_before FROM stayer_tasks
WHERE queue = ?1 AND state = 'pending' AND held = {no} AND priority <> 0 AND priority < 0
ORDER BY priority DESC, created, seq
LIMIT ?2;

-- name: reserve.next
-- queue, lane, now, how many: the best tasks of one lane, best first.
SELECT seq FROM stayer_tasks
WHERE queue = ?1 AND lane = ?2 AND state = 'pending' AND held = {no}
    AND (start_before IS NULL OR start_before > ?3)
ORDER BY priority DESC, created, seq
LIMIT ?4
{claim};

-- name: reserve.claim
-- seqs: those of them that still can be taken, and that nobody else takes now.
SELECT seq FROM stayer_tasks {along primary key}
WHERE seq {in numbers ?1} AND state = 'pending' AND held = {no}
{claim};

-- name: reserve.attempts
-- seqs: which attempt was the last of each.
SELECT seq, attempt FROM stayer_tasks WHERE seq {in numbers ?};

-- name: lines.running
-- How many tasks of each key run.
SELECT key, count(*) FROM stayer_tasks
WHERE queue = ? AND state IN ('reserved', 'started') AND key IS NOT NULL
GROUP BY key;

-- name: lines.first
-- As reserve.next, with the key.
SELECT -priority, created, seq, key FROM stayer_tasks
WHERE queue = ? AND lane = ? AND state = 'pending' AND held = {no}
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
        WHERE queue = ?1 AND lane = ?2 AND state = 'pending' AND held = {no} AND share IS NOT NULL
            AND (start_before IS NULL OR start_before > ?3)
        ORDER BY line, priority DESC, created, seq
        LIMIT 1
    )
    UNION ALL
    SELECT t.seq, t.line, t.priority, t.created, t.key, t.share
    FROM heads, stayer_tasks AS t
    WHERE t.seq = (
        SELECT n.seq FROM stayer_tasks AS n
        WHERE n.queue = ?1 AND n.lane = ?2 AND n.state = 'pending' AND n.held = {no}
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
WHERE queue = ? AND lane = ? AND line = ? AND state = 'pending' AND held = {no}
    AND share IS NOT NULL AND (start_before IS NULL OR start_before > ?)
ORDER BY priority DESC, created, seq
LIMIT ?;

-- name: shares
SELECT share, used, runs, at FROM stayer_shares WHERE queue = ?;

-- name: shares.running
SELECT share, coalesce(reserved_at, updated) FROM stayer_tasks
WHERE queue = ? AND state IN ('reserved', 'started') AND share IS NOT NULL;

-- name: shares.run
-- queue, share: what it had used before; nothing unless the queue is fair.
SELECT s.used, s.runs, s.at
FROM stayer_queues AS q
LEFT JOIN stayer_shares AS s ON s.queue = ?1 AND s.share = ?2
WHERE q.name = ?1 AND q.fair IS NOT NULL;

-- name: shares.put
INSERT INTO stayer_shares (queue, share, used, runs, at) VALUES (?, ?, ?, ?, ?)
{upsert queue, share}
    used = {excluded used}, runs = {excluded runs}, at = {excluded at};

-- name: shares.forget
DELETE FROM stayer_shares WHERE at < ?;

-- name: reserve
-- now, worker, node, a line of history, seq.
UPDATE stayer_tasks SET {taken}, history = history || ?4 WHERE seq = ?5;

-- name: taken
-- A part: what becomes of a task that is reserved, but for its history. now, worker, node.
state = 'reserved', attempt = attempt + 1, updated = ?1, worker = ?2, node = ?3, pid = NULL,
    ending = NULL, started_at = NULL, returned_from = NULL, paused = {no}, usage = NULL,
    reserved_at = ?1;

-- name: completed
-- A part: what becomes of a task that ran to its end, as core/effects.py has it, but for its result and history. now.
state = 'complete', updated = ?1, finished_at = {greatest}(?1, coalesce(started_at, reserved_at, 0)),
    ending = 'done', returned_from = NULL, error = NULL, orders = NULL, paused = {no};

-- name: held_by
-- A part, which a comparison with the worker follows: what it holds.
state IN ('reserved', 'started') AND worker;

-- name: failed_at
-- A part: when a task failed that has a fingerprint.
finished_at;

-- name: reserve.tokens
UPDATE stayer_queues SET tokens = ?, tokens_at = ? WHERE name = ?;

-- name: share
-- A value, not a statement: what a task that becomes pending has to have there.
(
    SELECT CASE q.fair WHEN 'owner' THEN coalesce(owner, '') WHEN 'key' THEN coalesce(key, '') ELSE '' END
    FROM stayer_queues AS q WHERE q.name = queue AND q.lined = {yes}
);

-- name: promote.due
-- now, limit.
SELECT seq, id, queue, attempt FROM stayer_tasks
WHERE state = 'scheduled' AND eta <= ?
ORDER BY eta
LIMIT ?
{claim};

-- name: promote
UPDATE stayer_tasks SET state = 'pending', updated = ?, share = {share}
WHERE seq {in numbers ?};

-- name: promote.near
-- now, limit: what has waited for its node for long enough, or waits for one that can't take it.
SELECT seq, queue FROM stayer_tasks
WHERE near_node IS NOT NULL AND state = 'pending' AND (
    near_until <= ?1 OR near_node NOT IN (
        SELECT node FROM stayer_workers
        WHERE dead = {no} AND draining = {no} AND drain = {no} AND lease_end > ?1
    )
)
LIMIT ?2
{claim};

-- name: promote.anywhere
UPDATE stayer_tasks SET near_node = NULL, near_until = NULL
WHERE seq {in numbers ?};

-- name: promote.nodes
-- When what waits for a node has waited for long enough, or for one that can't take it any more: by
-- then its workers have beaten again, or nobody waits for them.
SELECT {least}(
    min(until),
    coalesce(
        (SELECT max(lease_end) FROM stayer_workers AS w
         WHERE w.node = near_node AND dead = {no} AND draining = {no} AND drain = {no}),
        0.0
    )
)
FROM (
    SELECT near_node, min(near_until) AS until FROM stayer_tasks
    WHERE near_node IS NOT NULL AND state = 'pending'
    GROUP BY near_node
) AS nodes
GROUP BY near_node;

-- name: promote.rates
-- The queues whose rate may keep tasks waiting.
SELECT rate, rate_per, tokens, tokens_at FROM {counted queues}
WHERE rate IS NOT NULL AND pending > 0 AND paused = {no}
    AND ("limit" IS NULL OR reserved + started < "limit");

-- name: promote.next
-- A moment long past while there is something in the outbox.
SELECT min(at) FROM (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM stayer_outbox) THEN 0.0 END AS at
    UNION ALL
    SELECT min(eta) AS at FROM stayer_tasks WHERE state = 'scheduled'
    UNION ALL
    SELECT min(start_before) FROM stayer_tasks
    WHERE start_before IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending')
    UNION ALL
    SELECT min(next) FROM stayer_schedules WHERE paused = {no} AND next IS NOT NULL
) AS moments;

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
    ON t.queue = mine.queue AND t.state = 'pending' AND t.held = {no}
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

-- name: commit
-- The values of the columns, a line of history, then what the conditions ask for. Conditions are those below.
UPDATE stayer_tasks SET {sets}, history = history || ?
{where}
{returning seq, queue, share, reserved_at, dependents, length(history), notify,
    (SELECT q.notify FROM stayer_queues AS q WHERE q.name = stayer_tasks.queue)};

-- name: commit.id
id = ?;

-- name: commit.fence
-- What a change names: state, worker, attempt, last_order.
state = ? AND worker {same} ? AND attempt = ? AND last_order = ?;

-- name: commit.losses
losses = ?;

-- name: commit.returned
-- What was taken from a lost worker: returned_from, attempt.
state = 'pending' AND returned_from = ? AND attempt = ?;

-- name: commit.unique_is_free
-- now. What has ended and is to run again must not meet another that holds its unique word.
("unique" IS NULL OR NOT EXISTS (
    SELECT 1 FROM stayer_tasks AS h
    WHERE h.queue = stayer_tasks.queue AND h."unique" = stayer_tasks."unique" AND h.unique_end > ?
        AND h.seq <> stayer_tasks.seq
));

-- name: set.started_at.bounded
-- Nothing happens before what is known, whatever clock somebody went by.
started_at = {greatest}(?, coalesce(started_at, reserved_at, 0));

-- name: set.finished_at.bounded
finished_at = {greatest}(?, coalesce(started_at, reserved_at, 0));

-- name: set.share.anew
share = {share};

-- name: history.add
UPDATE stayer_tasks SET history = history || ? WHERE seq = ?;

-- name: history.long
-- length, seqs: the histories that are longer.
SELECT seq, history FROM stayer_tasks WHERE seq {in numbers ?2} AND {characters history} > ?1;

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

-- name: attend.unaware
-- Those of these workers that nobody watches by that time.
SELECT id FROM stayer_workers WHERE id {in texts ?} AND watched_until < ?;

-- name: attend
-- now, until when, workers.
UPDATE stayer_workers
SET times_watched = times_watched + CASE WHEN watched_until < ?1 THEN 1 ELSE 0 END, watched_until = {greatest}(watched_until, ?2)
WHERE id {in texts ?3};

-- name: beat.first
-- Registers an identity; the same nonce again is the same beat.
INSERT INTO stayer_workers (
    id, node, pid, queues, slots, version, draining, lease, keeps, handles, number, nonce,
    started_at, beat_at, lease_end
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{or nothing id};

-- name: beat
-- A lease never ends earlier because of a beat.
UPDATE stayer_workers
SET node = ?1, pid = ?2, queues = ?3, slots = ?4, version = ?5, draining = ?6, lease = ?7,
    keeps = ?8, handles = ?9, number = ?10, nonce = ?11, beat_at = ?12,
    lease_end = {greatest}(lease_end, ?12 + ?7)
WHERE id = ?13 AND dead = {no} AND (number < ?10 OR (number = ?10 AND nonce = ?11));

-- name: beat.unordered
-- The same, if there is no order to the worker.
{beat} AND worker_order IS NULL;

-- name: beat.wanted
-- Whether somebody watches the worker, whether it is to drain, and what else is wanted of it.
SELECT CASE WHEN watched_until > ? THEN 1 ELSE 0 END, drain, worker_order FROM stayer_workers WHERE id = ?;

-- name: beat.orders
SELECT id, attempt, orders FROM stayer_tasks WHERE {held_by} = ? AND orders IS NOT NULL;

-- name: beat.suspects
-- Silent for over two of their intervals (a lease has eight), or last heard in a future that a clock
-- set back has taken away.
SELECT id, number, lease FROM stayer_workers
WHERE dead = {no} AND keeps = {no} AND id <> ?1 AND abs(?2 - beat_at) > lease / 4;

-- name: report.task
-- What a report may touch: only what (worker, attempt) hold.
SELECT seq, orders FROM stayer_tasks
WHERE id = ? AND worker = ? AND attempt = ? AND state IN ('reserved', 'started')
{lock};

-- name: report.progress
UPDATE stayer_tasks SET progress = ?, losses = 0, updated = ? WHERE seq = ?;

-- name: report.orders
UPDATE stayer_tasks SET orders = ? WHERE seq = ?;

-- name: report.saved
UPDATE stayer_tasks SET losses = 0, checkpoint_at = ?1, updated = ?1 WHERE seq = ?2;

-- name: report.checkpoint
INSERT INTO stayer_checkpoints (task, attempt, at, data) VALUES (?, ?, ?, ?)
{upsert task} attempt = {excluded attempt}, at = {excluded at}, data = {excluded data};

-- name: report.usage
UPDATE stayer_tasks SET usage = ? WHERE seq = ?;

-- name: report.metrics
UPDATE stayer_tasks SET metrics = ?1, losses = 0, updated = ?2 WHERE seq = ?3;

-- name: report.paused
UPDATE stayer_tasks SET paused = ?, updated = ? WHERE seq = ? AND state = 'started';

-- name: usage.point
INSERT INTO stayer_usage (task, attempt, slot, usage) VALUES (?, ?, ?, ?)
{upsert task, attempt, slot} usage = {excluded usage};

-- name: usage.thin
-- task, attempt, the grid's width.
DELETE FROM stayer_usage WHERE task = ? AND attempt = ? AND slot > 0 AND slot % ? <> 0;

-- name: usage
SELECT usage FROM stayer_usage WHERE task = ? AND attempt = ? AND slot >= 0 ORDER BY slot;

-- name: statistics
-- What an attempt reports of itself has a slot of its own.
SELECT usage FROM stayer_usage WHERE task = ? AND attempt = ? AND slot = ?;

-- name: report.log
INSERT INTO stayer_logs (task, attempt, start, at, data) VALUES (?, ?, ?, ?, ?)
{upsert task, attempt, start} data = {excluded data}, at = {excluded at};

-- name: report.log_trim
-- task, attempt, end of the head, beginning of the tail.
DELETE FROM stayer_logs
WHERE task = ?1 AND attempt = ?2 AND start >= ?3 AND start + length(data) <= ?4;

-- name: declare_lost
UPDATE stayer_workers SET dead = {yes} WHERE id = ? AND number = ? AND dead = {no};

-- name: declare_lost.held
SELECT {task} FROM stayer_tasks
WHERE {held_by} IN (SELECT w.id FROM stayer_workers AS w WHERE w.dead = {yes})
ORDER BY seq;

-- name: declare_lost.forget
DELETE FROM stayer_workers
WHERE dead = {yes} AND NOT EXISTS (SELECT 1 FROM stayer_tasks WHERE {held_by} = stayer_workers.id);

-- name: holdings
SELECT {task} FROM stayer_tasks WHERE {held_by} = ? ORDER BY seq;

-- name: workers
SELECT id, node, pid, queues, slots, version, draining, lease, keeps, handles, number, started_at,
    beat_at, lease_end,
    (SELECT count(*) FROM stayer_tasks WHERE {held_by} = w.id), worker_order
FROM stayer_workers AS w
WHERE dead = {no}
ORDER BY started_at, id;

-- name: lost.worker
SELECT node, pid, version, started_at, beat_at FROM stayer_workers WHERE id = ?;

-- name: lost.get
SELECT value FROM stayer_meta WHERE "key" = 'lost';

-- name: lost.look
-- Locked, so that nobody adds to it meanwhile.
SELECT value FROM stayer_meta WHERE "key" = 'lost' {lock};

-- name: lost.first
INSERT INTO stayer_meta ("key", value) VALUES ('lost', '[]') {or nothing key};

-- name: lost.put
UPDATE stayer_meta SET value = ? WHERE "key" = 'lost';

-- name: drain
UPDATE stayer_workers
SET times_watched = times_watched + CASE WHEN drain = {no} THEN 1 ELSE 0 END, drain = {yes}
WHERE id = ? AND dead = {no};

-- name: order.last
SELECT worker_order FROM stayer_workers WHERE id = ? AND dead = {no} {lock};

-- name: order
UPDATE stayer_workers SET worker_order = ?, times_watched = times_watched + 1 WHERE id = ?;

-- name: worker
-- Locked, so that it neither beats nor takes anything meanwhile.
SELECT number, lease_end, dead FROM stayer_workers WHERE id = ? {lock};

-- name: history
-- The parts of a task's history, the oldest first: how many lines came before (null for those that
-- stand in its row), and the lines.
SELECT before, lines FROM stayer_history WHERE task = ?1
UNION ALL
SELECT NULL, history FROM stayer_tasks WHERE seq = ?1
ORDER BY before NULLS LAST;

-- name: last_event
SELECT coalesce(max(number), 0) FROM stayer_events;

-- name: attempts.usage
-- The newest of each attempt.
SELECT attempt, usage FROM stayer_usage AS u
WHERE task = ?1 AND slot >= 0 AND slot = (
    SELECT max(n.slot) FROM stayer_usage AS n WHERE n.task = ?1 AND n.attempt = u.attempt
);

-- name: log
SELECT start, data, at FROM stayer_logs
WHERE task = ? AND attempt = ? AND start > ?
ORDER BY start;

-- name: checkpoint
SELECT attempt, at, data FROM stayer_checkpoints WHERE task = ?;

-- name: checkpoint.forget
DELETE FROM stayer_checkpoints WHERE task = ?;

-- name: file.put
INSERT INTO stayer_files (sha256, at, data) VALUES (?, ?, ?)
{upsert sha256} at = {excluded at};

-- name: file.renew
UPDATE stayer_files SET at = ? WHERE sha256 = ?;

-- name: file.there
SELECT 1 FROM stayer_files WHERE sha256 = ?;

-- name: file.get
SELECT data FROM stayer_files WHERE sha256 = ?;

-- name: file.old
SELECT sha256 FROM stayer_files WHERE at < ? ORDER BY at LIMIT ?;

-- name: file.drop
DELETE FROM stayer_files WHERE at < ? AND sha256 {in texts ?};

-- name: queues
SELECT name, paused, "limit", retention, key_limit, key_limits, rate, rate_per, tokens, tokens_at,
    fair, notify, waiting, scheduled, pending, reserved, started, complete, failed, cancelled,
    (SELECT count(*) FROM stayer_workers AS w
     WHERE w.dead = {no} AND {contains w.queues q.name}),
    (SELECT created FROM stayer_tasks AS t
     WHERE t.queue = q.name AND t.state = 'pending' AND t.state NOT IN ('reserved', 'started')
         AND t.held = {no}
     ORDER BY created LIMIT 1)
FROM {counted queues} AS q
WHERE ?1 = {yes} OR name {in texts ?2}
ORDER BY name;

-- name: identity.get
SELECT value FROM stayer_meta WHERE key = 'identity';

-- name: identity.make
INSERT INTO stayer_meta (key, value) VALUES ('identity', ?) {or nothing key};

-- name: once.forget
-- What begins with a time before this one. As text: times of 14 digits and a point stand in their order.
DELETE FROM stayer_meta WHERE "key" LIKE 'once %' AND value < ?;

-- name: once.get
SELECT value FROM stayer_meta WHERE "key" = ?;

-- name: once.look
SELECT value FROM stayer_meta WHERE "key" = ? {lock};

-- name: once.make
INSERT INTO stayer_meta ("key", value) VALUES (?, ?) {or nothing key};

-- name: once.renew
UPDATE stayer_meta SET value = ? WHERE "key" = ?;

-- name: figures.last
SELECT value FROM stayer_meta WHERE key = 'sampled';

-- name: figures.first
INSERT INTO stayer_meta (key, value) VALUES ('sampled', ?) {or nothing key};

-- name: figures.claim
-- Up to when it is counted now, and was before: only one of several who count comes through.
UPDATE stayer_meta SET value = ? WHERE key = 'sampled' AND value = ?;

-- name: shared
SELECT value FROM stayer_meta WHERE "key" = ?;

-- name: shared.first
INSERT INTO stayer_meta ("key", value) VALUES (?, ?) {or nothing key};

-- name: shared.replace
-- new, name, known.
UPDATE stayer_meta SET value = ? WHERE "key" = ? AND value = ?;

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
{join in order} stayer_tasks AS t
    ON t.queue = q.name AND t.state IN ('complete', 'failed', 'cancelled')
    AND t.finished_at IS NOT NULL AND t.updated >= ? AND t.updated < ?
GROUP BY t.queue, t.state;

-- name: figures.add
INSERT INTO stayer_figures (
    step, at, queue, depth, running, age, submitted, complete, failed, cancelled, ran, waited
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{upsert step, at, queue}
    depth = {greatest}(
        coalesce(stayer_figures.depth, {excluded depth}), coalesce({excluded depth}, stayer_figures.depth)
    ),
    running = {greatest}(
        coalesce(stayer_figures.running, {excluded running}),
        coalesce({excluded running}, stayer_figures.running)
    ),
    age = {greatest}(
        coalesce(stayer_figures.age, {excluded age}), coalesce({excluded age}, stayer_figures.age)
    ),
    submitted = stayer_figures.submitted + {excluded submitted},
    complete = stayer_figures.complete + {excluded complete},
    failed = stayer_figures.failed + {excluded failed},
    cancelled = stayer_figures.cancelled + {excluded cancelled},
    ran = stayer_figures.ran + {excluded ran},
    waited = stayer_figures.waited + {excluded waited};

-- name: figures.forget
DELETE FROM stayer_figures WHERE step = ? AND at < ?;

-- name: figures
-- step, since, until, all queues?, queues.
SELECT at, queue, depth, running, age, submitted, complete, failed, cancelled, ran, waited
FROM stayer_figures
WHERE step = ?1 AND at >= ?2 AND at < ?3
    AND CASE WHEN ?4 = {yes} THEN queue <> '' ELSE queue {in texts ?5} END
ORDER BY at, queue;

-- name: queue.make
INSERT INTO stayer_queues (name) VALUES (?) {or nothing name};

-- name: queue.pause
UPDATE stayer_queues SET paused = ? WHERE name = ?;

-- name: queue.limit
UPDATE stayer_queues SET "limit" = ? WHERE name = ?;

-- name: queue.key_limit
UPDATE stayer_queues SET key_limit = ? WHERE name = ?;

-- name: queue.key_limits
UPDATE stayer_queues SET key_limits = ? WHERE name = ?;

-- name: queue.rate
-- A new bucket is full; one that is changed, or set again as it was, has no more than it had.
UPDATE stayer_queues
SET tokens = CASE WHEN rate IS NULL THEN ?1 ELSE {least}(tokens, ?1) END,
    tokens_at = CASE WHEN rate IS NULL OR ?1 IS NULL THEN NULL ELSE tokens_at END,
    rate = ?1, rate_per = ?2
WHERE name = ?3;

-- name: queue.fair
UPDATE stayer_queues SET fair = ? WHERE name = ?;

-- name: queue.notify
UPDATE stayer_queues SET notify = ? WHERE name = ?;

-- name: queue.set_defaults
UPDATE stayer_queues SET defaults = ? WHERE name = ?;

-- name: queue.defaults
-- Names: what those of them that have defaults say for tasks that say nothing.
SELECT name, defaults FROM stayer_queues WHERE name {in texts ?} AND defaults IS NOT NULL;

-- name: queue.all_defaults
SELECT name, defaults FROM stayer_queues WHERE defaults IS NOT NULL;

-- name: queue.retention
UPDATE stayer_queues SET retention = ? WHERE name = ?;

-- name: queue.lock
-- Names: for the time of this transaction nobody else changes, or takes from, these queues.
SELECT name FROM stayer_queues {along primary key} WHERE name {in texts ?} ORDER BY name {lock};

-- name: queue.lock_limited
-- The same for those of them that have limits, lines or a rate.
SELECT name FROM stayer_queues {along primary key}
WHERE name {in texts ?} AND ("limit" IS NOT NULL OR lined = {yes} OR rate IS NOT NULL)
ORDER BY name {lock};

-- name: queue.there
SELECT name FROM stayer_queues WHERE name = ?;

-- name: queue.lock_new
-- A row that is always there, in the place of those of queues that are not yet.
SELECT value FROM stayer_meta WHERE key = 'identity' {lock};

-- name: queue.names
SELECT name FROM stayer_queues;

-- name: queue.running
SELECT reserved + started FROM {counted queues} WHERE name = ?;

-- name: queue.tasks
-- None of them runs.
SELECT seq FROM stayer_tasks WHERE queue = ? AND state NOT IN ('reserved', 'started') LIMIT ?
{claim};

-- name: queue.left
SELECT waiting + scheduled + pending + reserved + started + complete + failed + cancelled
FROM {counted queues} WHERE name = ?;

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
LIMIT ?
{claim};

-- name: forget.queues
SELECT name, retention, logs_gone, results_gone FROM stayer_queues;

-- name: forget.end
-- queue, state, after, before, how many but one: when the end of the last one of these came; nothing if fewer did.
SELECT updated FROM stayer_tasks
WHERE queue = ?1 AND state = ?2 AND finished_at IS NOT NULL AND updated > ?3 AND updated < ?4
ORDER BY updated
LIMIT 1 OFFSET ?5;

-- name: forget.ended
-- queue, state, after, up to.
SELECT seq FROM stayer_tasks
WHERE queue = ? AND state = ? AND finished_at IS NOT NULL AND updated > ? AND updated <= ?;

-- name: forget.spared
-- queue, up to, limit: whose results were passed over while others needed them, which none does now.
SELECT seq FROM stayer_tasks
WHERE queue = ? AND dependents = {yes} AND result IS NOT NULL AND finished_at IS NOT NULL
    AND updated <= ? AND {unneeded}
ORDER BY updated
LIMIT ?;

-- name: forget.logs
DELETE FROM stayer_logs WHERE task {in numbers ?};

-- name: forget.results
UPDATE stayer_tasks SET result = NULL
WHERE seq {in numbers ?} AND result IS NOT NULL AND {unneeded};

-- name: forget.logs_gone
UPDATE stayer_queues SET logs_gone = ? WHERE name = ?;

-- name: forget.results_gone
UPDATE stayer_queues SET results_gone = ? WHERE name = ?;

-- name: schedules
-- all, names.
SELECT {schedule} FROM stayer_schedules
WHERE ?1 = {yes} OR name {in texts ?2}
ORDER BY name;

-- name: schedules.due
-- now, limit.
SELECT {schedule} FROM stayer_schedules
WHERE paused = {no} AND next IS NOT NULL AND next <= ?
ORDER BY next
LIMIT ?;

-- name: schedule.put
-- With another expression or zone, or after a pause, it begins to count anew.
INSERT INTO stayer_schedules (
    name, cron, zone, task, overlap, catch_up, jitter, paused, origin, next, created, updated, last
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11)
{upsert name}
    last = CASE
        WHEN stayer_schedules.cron = ?2 AND stayer_schedules.zone = ?3
            AND NOT (stayer_schedules.paused = {yes} AND ?8 = {no})
        THEN stayer_schedules.last ELSE ?11
    END,
    cron = ?2, zone = ?3, task = ?4, overlap = ?5, catch_up = ?6, jitter = ?7, paused = ?8,
    origin = ?9, next = ?10, updated = ?11, waiting = {no};

-- name: schedule.fire
-- last, next, waiting, name, the `updated` and the `last` that were seen.
UPDATE stayer_schedules SET last = ?1, next = ?2, waiting = ?3
WHERE name = ?4 AND updated = ?5 AND last {same} ?6;

-- name: schedule.newest
UPDATE stayer_schedules SET last_task = ? WHERE name = ?;

-- name: schedule.drop
DELETE FROM stayer_schedules WHERE name = ?;

-- name: purge.these
-- ids, states, before, limit.
SELECT seq, id FROM stayer_tasks
WHERE id {in texts ?} AND state {in texts ?}
    AND finished_at IS NOT NULL AND updated < ? AND {unneeded}
LIMIT ?
{claim};

-- name: purge.remember
-- now, seqs. What never ran to an end may come again.
INSERT INTO stayer_purged (id, queue, state, created, finished_at, at)
SELECT id, queue, state, created, finished_at, ? FROM stayer_tasks
WHERE seq {in numbers ?} AND finished_at IS NOT NULL
{upsert id} at = {excluded at};

-- name: purge
DELETE FROM stayer_tasks WHERE seq {in numbers ?};

-- name: purge.forget
-- Some of those that were purged before then.
DELETE FROM stayer_purged
WHERE id IN (SELECT id FROM (SELECT id FROM stayer_purged WHERE at < ? LIMIT 1000) AS chosen);

-- name: purge.events
-- The oldest, as far as they are older than the moment given; the newest event stays.
DELETE FROM stayer_events
WHERE number IN (
    SELECT number FROM (SELECT number, at FROM stayer_events ORDER BY number LIMIT 1000) AS chosen
    WHERE at < ? AND number < (SELECT max(number) FROM stayer_events)
);

-- name: find.queues
-- Where to look: the queues asked for (or all) with what is in each state.
SELECT name, waiting, scheduled, pending, reserved, started, complete, failed, cancelled
FROM {counted queues}
WHERE ?1 = {yes} OR name {in texts ?2};

-- name: find.newest
-- Created, seq: the end of the table, as far as the conditions hold. One of those below; the limit.
SELECT created, seq FROM stayer_tasks {where} ORDER BY seq DESC LIMIT ?;

-- name: find.of_state
-- queue, state, then the conditions, the limit: the newest of these along the index of lists.
SELECT created, seq FROM stayer_tasks {where} ORDER BY created DESC, seq DESC LIMIT ?;

-- name: find.is_queue
queue = ?;

-- name: find.is_state
state = ?;

-- name: find.is_running
-- What is true of it anyway, in the words of the index that has it: see the schema.
state IN ('reserved', 'started');

-- name: find.is_not_running
state NOT IN ('reserved', 'started');

-- name: find.ids
id {in texts ?};

-- name: find.prefix
id >= ? AND id < ?;

-- name: find.name
-- Twice: of a function, or the first word of a command.
(name = ? OR {first command} = ?);

-- name: find.held
held = ?;

-- name: find.has_files
code LIKE '%"files"%';

-- name: find.tag
{contains tags ?};

-- name: find.search
-- A word, as it is and as it stands in JSON: see `core/search.py`.
({has id ?} OR {has name ?} OR {has command ?} OR {has tags ?} OR {has parameters ?}
    OR {has meta ?} OR {has error.type ?} OR {has error.message ?});

-- name: find.meta
-- The path, the text and the number (or null) of a condition: see core/json_match.py.
{json meta ? ? ?};

-- name: find.where
{json parameters ? ? ?};

-- name: find.since
created >= ?;

-- name: find.until
created < ?;

-- name: find.queues_named
queue {in texts ?};

-- name: find.states_named
state {in texts ?};

-- name: find.below
seq < ?;

-- name: find.before
(created, seq) < (?, ?);

-- name: failures
-- all queues?, queues: how many of each fault in each queue, and when the first and the last.
SELECT fingerprint, queue, count(*), min({failed_at}), max({failed_at}) FROM stayer_tasks
WHERE fingerprint IS NOT NULL AND {failed_at} IS NOT NULL
    AND (?1 = {yes} OR queue {in texts ?2})
GROUP BY fingerprint, queue;

-- name: failures.newest
-- fingerprint, queue.
SELECT id, name, command, ending, error FROM stayer_tasks
WHERE fingerprint = ? AND queue = ?
ORDER BY {failed_at} DESC
LIMIT 1;

-- name: failures.lately
-- now, the length of a step, how many, fingerprint, queues: how many failed how many steps ago.
SELECT {whole (?1 - {failed_at}) / ?2} AS ago, count(*) FROM stayer_tasks
WHERE fingerprint = ?4 AND queue {in texts ?5}
    AND {failed_at} > ?1 - ?2 * ?3 AND {failed_at} <= ?1
GROUP BY ago;

-- name: unneeded
-- A condition, not a statement: no task that has not ended is to run after this one.
(dependents = {no} OR NOT EXISTS (
    SELECT 1 FROM stayer_upstreams AS u JOIN stayer_tasks AS t ON t.seq = u.task
    WHERE u.upstream = stayer_tasks.id AND t.finished_at IS NULL
));

-- name: upstreams.there
-- Which of these ids are there, and in which state: locked, so that none ends before it is known that
-- others wait for it.
SELECT id, state FROM stayer_tasks WHERE id {in texts ?} ORDER BY id {lock};

-- name: upstreams.purged
-- Which of these ids were purged after the moment, and how they had ended.
SELECT id, state FROM stayer_purged WHERE id {in texts ?} AND at > ?;

-- name: upstreams.add
-- id of the task, position, id of the upstream, anyhow, waits.
INSERT INTO stayer_upstreams (task, position, upstream, anyhow, waits)
SELECT seq, ?2, ?3, ?4, ?5 FROM stayer_tasks WHERE id = ?1;

-- name: upstreams.needed
-- These have dependents from now on.
UPDATE stayer_tasks SET dependents = {yes}
WHERE id {in texts ?} AND dependents = {no};

-- name: upstreams
SELECT upstream, anyhow FROM stayer_upstreams
WHERE task = (SELECT seq FROM stayer_tasks WHERE id = ?) AND anyhow < 2
ORDER BY position;

-- name: waits
SELECT upstream FROM stayer_upstreams
WHERE task = (SELECT seq FROM stayer_tasks WHERE id = ?) AND waits = {yes}
ORDER BY position
LIMIT ?;

-- name: waits.count
SELECT count(*) FROM stayer_upstreams
WHERE task = (SELECT seq FROM stayer_tasks WHERE id = ?) AND waits = {yes};

-- name: waits.any
SELECT CASE WHEN EXISTS (SELECT 1 FROM stayer_upstreams WHERE task = ? AND waits = {yes}) THEN 1 ELSE 0 END;

-- name: waits.of
-- What these, which wait, wait for.
SELECT DISTINCT u.upstream FROM stayer_upstreams AS u JOIN stayer_tasks AS t ON t.seq = u.task
WHERE t.id {in texts ?} AND t.state = 'waiting' AND u.waits = {yes};

-- name: waits.none
UPDATE stayer_upstreams SET waits = {no} WHERE task = ? AND waits = {yes};

-- name: waits.again
UPDATE stayer_upstreams SET waits = {yes} WHERE task = ? AND upstream = ?;

-- name: waits.more
-- For one that it was not to run after by itself: a place in a line, for this time.
INSERT INTO stayer_upstreams (task, position, upstream, anyhow, waits)
SELECT ?1, coalesce(max(position), -1) + 1, ?2, 2, {yes} FROM stayer_upstreams WHERE task = ?1;

-- name: waits.end
-- task, upstream.
UPDATE stayer_upstreams SET waits = {no} WHERE task = ? AND upstream = ? AND waits = {yes};

-- name: outbox.add
INSERT INTO stayer_outbox (id, state, at) VALUES (?, ?, ?)
{upsert id} state = {excluded state};

-- name: outbox.ended
-- now, ids (JSON array): those of them that have ended already, or are gone.
INSERT INTO stayer_outbox (id, state, at)
SELECT named.value, coalesce(t.state, p.state, 'cancelled'), ?1 FROM {from texts ?2 named}
LEFT JOIN stayer_tasks AS t ON t.id = named.value
LEFT JOIN stayer_purged AS p ON p.id = named.value
WHERE t.id IS NULL OR t.finished_at IS NOT NULL
{upsert id} state = {excluded state};

-- name: outbox
-- limit. The state in which the task is now, if it is there, and the one that was noted.
SELECT o.id, (SELECT t.state FROM stayer_tasks AS t WHERE t.id = o.id), o.state
FROM stayer_outbox AS o {along stayer_outbox_at}
ORDER BY o.at
LIMIT ?
{claim};

-- name: states
-- The states that these are in now.
SELECT id, state FROM stayer_tasks WHERE id {in texts ?};

-- name: outbox.waiters
-- id, limit.
SELECT task, anyhow FROM stayer_upstreams WHERE upstream = ? AND waits = {yes} LIMIT ?;

-- name: outbox.acknowledge
DELETE FROM stayer_outbox WHERE id {in texts ?};

-- name: flow.add
INSERT INTO stayer_flows (id, name, owner, created, parts) VALUES (?, ?, ?, ?, ?)
{or nothing id};

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
