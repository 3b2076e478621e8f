-- Moving a store (`stayer move`): all that is in the tables, a batch at a time, and back. See statements.sql
-- for how these are written, dump.py and load.py for what they are for.

-- name: seal.get
SELECT value FROM stayer_meta WHERE "key" = 'seal';

-- name: seal.drop
DELETE FROM stayer_meta WHERE "key" = 'seal';

-- name: seal.put
INSERT INTO stayer_meta ("key", value) VALUES ('seal', ?) {upsert key} value = {excluded value};

-- name: dump.queues
-- The last one before, limit.
SELECT name, paused, "limit", key_limit, key_limits, rate, rate_per, tokens, tokens_at, fair, retention, notify,
    logs_gone, results_gone, defaults
FROM stayer_queues
WHERE name > ?1
ORDER BY name
LIMIT ?2;

-- name: dump.tasks
-- The last one before, limit.
SELECT {task}, history FROM stayer_tasks WHERE seq > ?1 ORDER BY seq LIMIT ?2;

-- name: dump.history
-- seqs.
SELECT task, before, lines FROM stayer_history WHERE task {in numbers ?} ORDER BY task, before;

-- name: dump.logs
-- task, attempt and start of the last one before, limit.
SELECT l.task, l.attempt, l.start, t.queue, t.id, l.at, l.data
FROM stayer_logs AS l {join in order} stayer_tasks AS t ON t.seq = l.task
WHERE (l.task, l.attempt, l.start) > (?1, ?2, ?3)
ORDER BY l.task, l.attempt, l.start
LIMIT ?4;

-- name: dump.usage
-- task, attempt and slot of the last one before, limit.
SELECT u.task, u.attempt, u.slot, t.queue, t.id, u.usage
FROM stayer_usage AS u {join in order} stayer_tasks AS t ON t.seq = u.task
WHERE (u.task, u.attempt, u.slot) > (?1, ?2, ?3)
ORDER BY u.task, u.attempt, u.slot
LIMIT ?4;

-- name: dump.checkpoints
-- The task of the last one before, limit.
SELECT c.task, t.queue, t.id, c.attempt, c.at, c.data
FROM stayer_checkpoints AS c {join in order} stayer_tasks AS t ON t.seq = c.task
WHERE c.task > ?1
ORDER BY c.task
LIMIT ?2;

-- name: dump.files
-- The last one before, limit.
SELECT sha256, at, data FROM stayer_files WHERE sha256 > ?1 ORDER BY sha256 LIMIT ?2;

-- name: dump.tied
-- The last one before, limit: tasks that are to run after others.
SELECT t.seq, t.queue, t.id, t.finished_at
FROM stayer_tasks AS t
WHERE t.seq > ?1 AND EXISTS (SELECT 1 FROM stayer_upstreams AS u WHERE u.task = t.seq)
ORDER BY t.seq
LIMIT ?2;

-- name: dump.ties
-- seqs.
SELECT task, upstream, anyhow, waits FROM stayer_upstreams
WHERE task {in numbers ?}
ORDER BY task, position;

-- name: dump.flows
-- The last one before, limit.
SELECT seq, id, name, owner, created, parts FROM stayer_flows WHERE seq > ?1 ORDER BY seq LIMIT ?2;

-- name: dump.schedules
-- The last one before, limit.
SELECT {schedule} FROM stayer_schedules WHERE name > ?1 ORDER BY name LIMIT ?2;

-- name: dump.notices
-- The last one before, limit.
SELECT {notice} FROM stayer_notices WHERE seq > ?1 ORDER BY seq LIMIT ?2;

-- name: dump.purged
-- The last one before, limit.
SELECT id, queue, state, created, finished_at, at FROM stayer_purged WHERE id > ?1 ORDER BY id LIMIT ?2;

-- name: dump.figures
-- step, at and queue of the last one before, limit.
SELECT step, at, queue, depth, running, age, submitted, complete, failed, cancelled, ran, waited
FROM stayer_figures
WHERE (step, at, queue) > (?1, ?2, ?3)
ORDER BY step, at, queue
LIMIT ?4;

-- name: load.sampled
INSERT INTO stayer_meta ("key", value) VALUES ('sampled', ?) {upsert key} value = {excluded value};

-- name: load.last_event
-- number, at: numbers go on from here.
INSERT INTO stayer_events (number, at, ids, queue, event, attempt) VALUES (?, ?, '[""]', '', 'moved', 0)
{or nothing number};

-- name: load.queue
INSERT INTO stayer_queues (
    name, paused, "limit", key_limit, key_limits, rate, rate_per, tokens, tokens_at, fair, retention, notify,
    logs_gone, results_gone, defaults
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{or nothing name};

-- name: load.there
-- ids: those that are there, and where.
SELECT id, seq FROM stayer_tasks WHERE id {in texts ?};

-- name: load.task
-- its history, when its last attempt was reserved, queue, owner, key, and all fields.
INSERT INTO stayer_tasks (history, reserved_at, share, {fields})
VALUES (
    ?1, ?2,
    (SELECT CASE q.fair WHEN 'owner' THEN coalesce(?4, '') WHEN 'key' THEN coalesce(?5, '') ELSE '' END
     FROM stayer_queues AS q WHERE q.name = ?3 AND q.lined = {yes}),
    {field_values}
);

-- name: load.log
INSERT INTO stayer_logs (task, attempt, start, at, data) VALUES (?, ?, ?, ?, ?)
{or nothing task, attempt, start};

-- name: load.usage
INSERT INTO stayer_usage (task, attempt, slot, usage) VALUES (?, ?, ?, ?)
{or nothing task, attempt, slot};

-- name: load.checkpoint
INSERT INTO stayer_checkpoints (task, attempt, at, data) VALUES (?, ?, ?, ?)
{or nothing task};

-- name: load.file
INSERT INTO stayer_files (sha256, at, data) VALUES (?, ?, ?)
{or nothing sha256};

-- name: load.schedule
INSERT INTO stayer_schedules ({schedule}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{or nothing name};

-- name: load.notice
INSERT INTO stayer_notices (
    id, task, queue, event, "to", attempt, at, state, tries, forgiven, since, next, said, record
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{or nothing id};

-- name: load.purged
INSERT INTO stayer_purged (id, queue, state, created, finished_at, at) VALUES (?, ?, ?, ?, ?, ?)
{or nothing id};

-- name: load.figures
INSERT INTO stayer_figures (
    step, at, queue, depth, running, age, submitted, complete, failed, cancelled, ran, waited
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
{or nothing step, at, queue};

-- name: load.tie
-- task (seq), position, upstream, anyhow, waits.
INSERT INTO stayer_upstreams (task, position, upstream, anyhow, waits) VALUES (?, ?, ?, ?, ?)
{or nothing task, position};
