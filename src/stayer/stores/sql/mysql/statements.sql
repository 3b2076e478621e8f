-- What MariaDB and MySQL say in words of their own; see ../statements.sql. There are four reasons:
--
-- - Where another database has a partial index, there is one on a column that is null in the other rows, such as
--   `ready` (schema.sql), and a statement has to name that column.
-- - What claims rows must read them along an index in exactly this order: a sort would lock all that was read. So
--   the index is named.
-- - A subquery that chooses rows to update or delete is not optimized, or not allowed on the same table: ORDER BY and
--   LIMIT of the statement itself do it.
-- - An INSERT that finds its row there fails, and only where it counts is that told apart (transaction.py); the others
--   set a column to what it is.

-- name: submit
-- The share is found once for all rows, by submit.find_share: a subquery in each row opens its table for each.
INSERT INTO stayer_tasks (id, parameters, history, share, {new})
VALUES (?1, ?2, concat('[', ?3, ?4), @stayer_share, {new_values});

-- name: submit.find_share
-- queue, owner, key: the share of tasks that come by the next statements.
SET @stayer_share = ({submit.share});

-- name: submit.joined
-- The same in a transaction of the caller's own, where looking would lock the queue's row: its share is known.
INSERT INTO stayer_tasks (id, parameters, history, share, {new})
VALUES (?1, ?2, concat('[', ?3, ?4), {their_share}, {new_values});

-- name: submit.share
-- queue, owner, key.
SELECT CASE q.fair WHEN 'owner' THEN coalesce(?2, '') WHEN 'key' THEN coalesce(?3, '') ELSE '' END
FROM stayer_queues AS q WHERE q.name = ?1 AND q.lined;

-- name: submit.holders
-- now, queues, unique words (of one length): the tasks that hold these words there.
SELECT {task} FROM stayer_tasks FORCE INDEX (stayer_tasks_unique)
WHERE {pairs "unique" ?3 queue ?2} AND unique_end > ?1
ORDER BY unique_end;

-- name: submit.forgettable
-- ids: those that were purged.
SELECT id FROM stayer_purged WHERE id {in texts ?};

-- name: unique.lock
-- queue, word.
INSERT INTO stayer_words (queue, word) VALUES (?, ?) ON DUPLICATE KEY UPDATE word = word;

-- name: unique.locked
DELETE FROM stayer_words WHERE queue = ? AND word = ?;

-- name: unique.lock_of
SELECT queue, "unique" FROM stayer_tasks WHERE id = ? AND "unique" IS NOT NULL;

-- name: reserve.queue
-- One without a row, whose first tasks have just come, is one without settings: see upkeep.py. Counters are added up
-- only where there is a limit.
SELECT paused,
    CASE WHEN "limit" IS NOT NULL THEN "limit" - (
        SELECT CAST(coalesce(sum(c.reserved + c.started), 0) AS SIGNED) FROM stayer_counts AS c WHERE c.queue = q.name
    ) END,
    lined, key_limit, key_limits, fair, rate, rate_per, tokens, tokens_at
FROM stayer_queues AS q WHERE name = ?;

-- name: queue.expect_no_defaults
-- queues. Fails (1242) if one has defaults, and all that is behind it in the packet is not done: see ../bulk.py.
SELECT (SELECT two.n FROM (SELECT 1 AS n UNION ALL SELECT 2) AS two WHERE two.n <= length(q.defaults))
FROM stayer_queues AS q WHERE q.name {in texts ?} AND q.defaults IS NOT NULL;

-- name: queue.share
SELECT name FROM stayer_queue_locks FORCE INDEX (PRIMARY) WHERE name {in texts ?} ORDER BY name LOCK IN SHARE MODE;

-- name: queue.keep
SELECT name FROM stayer_queue_locks WHERE name = ? {lock};

-- name: reserve.lanes
WITH RECURSIVE lanes (lane_key) AS (
    SELECT min(lane_key) FROM stayer_tasks WHERE ready = ?1
    UNION ALL
    SELECT (SELECT min(t.lane_key) FROM stayer_tasks AS t WHERE t.ready = ?1 AND t.lane_key > lanes.lane_key)
    FROM lanes WHERE lanes.lane_key IS NOT NULL
)
SELECT if(
    char_length(lane_key) <= 260, lane_key,
    (SELECT t.lane FROM stayer_tasks AS t WHERE t.ready = ?1 AND t.lane_key = lanes.lane_key LIMIT 1)
)
FROM lanes WHERE lane_key IS NOT NULL LIMIT ?2;

-- name: reserve.before
SELECT seq, lane, start_before FROM stayer_tasks FORCE INDEX (stayer_tasks_ranked)
WHERE ready_ranked = ?1 AND "rank" < 0
ORDER BY "rank", created, seq
LIMIT ?2;

-- name: reserve.standing
SELECT CASE WHEN held = 0 AND priority = 0 THEN seq END, lane, start_before
FROM stayer_tasks FORCE INDEX (stayer_tasks_listing)
WHERE queue = ?1 AND state = 'pending'
ORDER BY created, seq
LIMIT ?2;

-- name: reserve.behind
SELECT seq, lane, start_before FROM stayer_tasks FORCE INDEX (stayer_tasks_ranked)
WHERE ready_ranked = ?1 AND "rank" > 0
ORDER BY "rank", created, seq
LIMIT ?2;

-- name: lane_key
-- A value, not a statement: that of the lane ?2.
if(char_length(?2) <= 260, ?2, concat(left(?2, 260), ' ', md5(?2)));

-- name: reserve.next
SELECT seq FROM stayer_tasks FORCE INDEX (stayer_tasks_ready)
WHERE ready = ?1 AND lane_key = {lane_key} AND (start_before IS NULL OR start_before > ?3)
ORDER BY "rank", created, seq
LIMIT ?4
{claim};

-- name: reserve.next_of_lane
-- As reserve.next, only looking, with the order.
SELECT "rank", created, seq FROM stayer_tasks FORCE INDEX (stayer_tasks_ready)
WHERE ready = ?1 AND lane_key = {lane_key} AND (start_before IS NULL OR start_before > ?3)
ORDER BY "rank", created, seq
LIMIT ?4;

-- name: reserve.next_of_all
-- Chosen lane by lane, then claimed: see bulk.py.
SELECT 1;

-- name: lines.running
SELECT "key", count(*) FROM stayer_tasks WHERE running_lined = ? AND "key" IS NOT NULL GROUP BY "key";

-- name: lines.first
SELECT "rank", created, seq, "key" FROM stayer_tasks FORCE INDEX (stayer_tasks_ready)
WHERE ready = ?1 AND lane_key = {lane_key} AND (start_before IS NULL OR start_before > ?3)
ORDER BY "rank", created, seq
LIMIT ?4;

-- name: lines.heads
WITH RECURSIVE heads (seq, line) AS (
    (SELECT seq, line FROM stayer_tasks FORCE INDEX (stayer_tasks_lines)
     WHERE ready_lined = ?1 AND lane_key = {lane_key} AND (start_before IS NULL OR start_before > ?3)
     ORDER BY line, "rank", created, seq
     LIMIT 1)
    UNION ALL
    SELECT t.seq, t.line FROM heads JOIN stayer_tasks AS t
    ON t.seq = (
        SELECT n.seq FROM stayer_tasks AS n FORCE INDEX (stayer_tasks_lines)
        WHERE n.ready_lined = ?1 AND n.lane_key = {lane_key} AND n.line > heads.line
            AND (n.start_before IS NULL OR n.start_before > ?3)
        ORDER BY n.line, n."rank", n.created, n.seq
        LIMIT 1
    )
)
SELECT t."rank", t.created, t.seq, t."key", t.share, t.line FROM heads JOIN stayer_tasks AS t ON t.seq = heads.seq;

-- name: lines.wrong
-- queue: tasks that wait or run there and are not in the line that they should be in, but for those that somebody else
-- has locked, maybe for long: see upkeep.py.
SELECT t.seq, CASE
    WHEN NOT q.lined THEN NULL
    WHEN q.fair = 'owner' THEN coalesce(t.owner, '')
    WHEN q.fair = 'key' THEN coalesce(t.key, '')
    ELSE ''
END AS wanted, t.share
FROM stayer_tasks AS t FORCE INDEX (stayer_tasks_listing)
JOIN (SELECT name, lined, fair FROM stayer_queues) AS q ON q.name = t.queue
WHERE t.queue = ?1 AND t.state IN ('pending', 'reserved', 'started')
HAVING NOT wanted <=> t.share;

-- name: lines.claim
SELECT seq FROM stayer_tasks FORCE INDEX (PRIMARY) WHERE seq {in numbers ?} {claim};

-- name: lines.right
-- share, seqs.
UPDATE stayer_tasks SET share = ? WHERE seq {in numbers ?};

-- name: lines.queues
SELECT name FROM stayer_queues WHERE lined = 1;

-- name: lines.next
SELECT "rank", created, seq FROM stayer_tasks FORCE INDEX (stayer_tasks_lines)
WHERE ready_lined = ?1 AND lane_key = {lane_key} AND line = ?3 AND (start_before IS NULL OR start_before > ?4)
ORDER BY "rank", created, seq
LIMIT ?5;

-- name: shares.running
SELECT share, coalesce(reserved_at, updated) FROM stayer_tasks WHERE running_lined = ? AND share IS NOT NULL;

-- name: held_by
holder;

-- name: failed_at
failed_at;

-- name: promote.due
SELECT seq, id, queue, attempt FROM stayer_tasks FORCE INDEX (stayer_tasks_due)
WHERE due <= ?
ORDER BY due
LIMIT ?
{claim};

-- name: promote.near
SELECT seq, queue FROM stayer_tasks FORCE INDEX (stayer_tasks_near)
WHERE near_pending IS NOT NULL AND (
    near_until <= ?1 OR near_pending NOT IN (
        SELECT node FROM stayer_workers WHERE dead = 0 AND draining = 0 AND drain = 0 AND lease_end > ?1
    )
)
LIMIT ?2
{claim};

-- name: promote.nodes
SELECT least(
    min(until),
    coalesce(
        (SELECT max(lease_end) FROM stayer_workers AS w
         WHERE w.node = near_pending AND dead = 0 AND draining = 0 AND drain = 0),
        0e0
    )
)
FROM (
    SELECT near_pending, min(near_until) AS until FROM stayer_tasks
    WHERE near_pending IS NOT NULL
    GROUP BY near_pending
) AS nodes
GROUP BY near_pending;

-- name: promote.rates
SELECT rate, rate_per, tokens, tokens_at FROM stayer_queues AS q
WHERE rate IS NOT NULL AND paused = 0
    AND (SELECT sum(c.pending) > 0 AND (q."limit" IS NULL OR sum(c.reserved + c.started) < q."limit")
         FROM stayer_counts AS c WHERE c.queue = q.name);

-- name: promote.next
SELECT min(at) FROM (
    SELECT CASE WHEN EXISTS (SELECT 1 FROM stayer_outbox) THEN 0e0 END AS at
    UNION ALL
    SELECT min(due) FROM stayer_tasks WHERE due IS NOT NULL
    UNION ALL
    SELECT min(expires) FROM stayer_tasks WHERE expires IS NOT NULL
    UNION ALL
    SELECT min(next) FROM stayer_schedules WHERE paused = 0 AND next IS NOT NULL
) AS moments;

-- name: promote.expired
SELECT {task} FROM stayer_tasks WHERE expires <= ? ORDER BY expires LIMIT ?;

-- name: ahead
SELECT count(*)
FROM stayer_tasks AS mine
JOIN stayer_tasks AS t
    ON t.ready = mine.queue
    AND (t."rank" < mine."rank" OR (
        t."rank" = mine."rank" AND (t.created < mine.created OR (t.created = mine.created AND t.seq < mine.seq))
    ))
WHERE mine.id = ? AND mine.state = 'pending';

-- name: history
SELECT before, lines FROM (
    SELECT before, lines FROM stayer_history WHERE task = ?1
    UNION ALL
    SELECT NULL, history FROM stayer_tasks WHERE seq = ?1
) AS parts
ORDER BY before IS NULL, before;

-- name: identity.make
INSERT INTO stayer_meta ("key", value) VALUES ('identity', ?) ON DUPLICATE KEY UPDATE "key" = "key";

-- name: figures.submitted
SELECT name, (
    SELECT count(*) FROM stayer_tasks AS t
    WHERE t.queue = q.name AND t.created >= ?1 AND t.created < ?2
        AND t.state IN (
            'waiting', 'scheduled', 'pending', 'reserved', 'started', 'complete', 'failed', 'cancelled'
        )
)
FROM stayer_queues AS q;

-- name: figures.ended
SELECT q.name, states.state, count(*), coalesce(sum(t.finished_at - t.started_at), 0e0),
    coalesce(sum(t.started_at - t.created), 0e0)
FROM (SELECT 'complete' AS state UNION ALL SELECT 'failed' UNION ALL SELECT 'cancelled') AS states
CROSS JOIN stayer_queues AS q
JOIN stayer_tasks AS t FORCE INDEX (stayer_tasks_ended)
    ON t.ended_in = concat(states.state, ' ', q.name) AND t.ended >= ? AND t.ended < ?
GROUP BY q.name, states.state;

-- name: queue.make
-- A queue that is there is not touched: that would lock it.
INSERT INTO stayer_queues (name)
SELECT ?1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM stayer_queues AS q WHERE q.name = ?1)
ON DUPLICATE KEY UPDATE name = stayer_queues.name;

-- name: queue.make_lock
INSERT INTO stayer_queue_locks (name)
SELECT ?1 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM stayer_queue_locks AS q WHERE q.name = ?1)
ON DUPLICATE KEY UPDATE name = stayer_queue_locks.name;

-- name: purge.old
SELECT updated, seq, id FROM stayer_tasks FORCE INDEX (stayer_tasks_ended)
WHERE ended_in = concat(?2, ' ', ?1) AND ended < ?3
    AND NOT EXISTS (SELECT 1 FROM stayer_schedules WHERE last_task = stayer_tasks.id)
    AND {unneeded}
ORDER BY ended
LIMIT ?4
{claim};

-- name: forget.end
SELECT updated FROM stayer_tasks FORCE INDEX (stayer_tasks_ended)
WHERE ended_in = concat(?2, ' ', ?1) AND ended > ?3 AND ended < ?4
ORDER BY ended
LIMIT 1 OFFSET ?5;

-- name: forget.ended
SELECT seq FROM stayer_tasks WHERE ended_in = concat(?2, ' ', ?1) AND ended > ?3 AND ended <= ?4;

-- name: forget.spared
SELECT seq FROM stayer_tasks FORCE INDEX (stayer_tasks_inputs)
WHERE queue = ? AND input_since <= ? AND {unneeded}
ORDER BY input_since
LIMIT ?;

-- name: forget.spare
-- seqs: those whose results nobody needs. An UPDATE may not look into its own table.
SELECT seq FROM stayer_tasks WHERE seq {in numbers ?} AND result IS NOT NULL AND {unneeded} {lock};

-- name: forget.results
UPDATE stayer_tasks SET result = NULL WHERE seq {in numbers ?};

-- name: purge.forget
DELETE FROM stayer_purged WHERE at < ? ORDER BY at LIMIT 1000;

-- name: purge.events
DELETE FROM stayer_events
WHERE number IS NOT NULL AND at < ? AND number <= (
    SELECT oldest.number FROM (
        SELECT max(some.number) AS number FROM (
            SELECT number FROM stayer_events WHERE number IS NOT NULL ORDER BY number LIMIT 1000
        ) AS some
    ) AS oldest
);

-- name: flow.counts
SELECT part, flow_state, count(*) FROM stayer_tasks WHERE flow = ? GROUP BY part, flow_state;

-- name: notice.add
INSERT INTO stayer_notices (id, task, queue, event, "to", attempt, at, next, record)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)
ON DUPLICATE KEY UPDATE id = id;

-- name: notices.stale
UPDATE stayer_notices SET state = 'failed', next = NULL, said = ?3
WHERE state = 'pending' AND at < ?2 AND next < ?2 AND NOT hook {in texts ?1}
LIMIT ?4;

-- name: notices.forget
DELETE FROM stayer_notices WHERE state = ?1 AND at < ?2 LIMIT ?3;

-- name: count
INSERT INTO stayer_counts (
    waiting, scheduled, pending, reserved, started, complete, failed, cancelled, wakes, queue
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- name: counts
-- Behind a number, up to so many that are committed, for one who adds them up.
SELECT number, queue, waiting, scheduled, pending, reserved, started, complete, failed, cancelled, wakes
FROM stayer_counts FORCE INDEX (PRIMARY)
WHERE number > ?
ORDER BY number
LIMIT ?
{claim};

-- name: counts.of
-- The same of one queue.
SELECT number FROM stayer_counts WHERE queue = ? {claim};

-- name: counts.added
DELETE FROM stayer_counts WHERE number {in numbers ?};

-- name: wake.worker
INSERT INTO stayer_marks (worker, at) VALUES (?, ?);

-- name: marks.forget
DELETE FROM stayer_marks WHERE at < ? ORDER BY number LIMIT 1000;

-- name: wakes
-- queues, worker: sums that change when there is something for them.
SELECT
    (SELECT CAST(sum(wakes) AS SIGNED) FROM stayer_counts WHERE queue {in texts ?1}),
    (SELECT max(number) FROM stayer_marks WHERE worker = ?2),
    (SELECT times_watched FROM stayer_workers WHERE id = ?2);

-- name: watch
SELECT e.number - json_length(e.ids) + one.place AS each_number, e.at, one.id, e.queue, e.event,
    e.attempt, e.worker, e.note
FROM stayer_events AS e FORCE INDEX (stayer_events_number)
STRAIGHT_JOIN json_table(
    e.ids, '$[*]' COLUMNS (
        place FOR ORDINALITY, id VARCHAR(300) CHARACTER SET utf8mb4 COLLATE {collation} PATH '$'
    )
) AS one
WHERE e.number > ?1 AND e.number - json_length(e.ids) + one.place > ?1
    AND (
        one.id = '' OR e.event = 'deleted'
        OR EXISTS (SELECT 1 FROM stayer_tasks AS t WHERE t.id = one.id)
    )
ORDER BY e.number
LIMIT ?2;

-- name: event
-- number (its own, which watchers do not see), at, ids, queue, event, attempt, worker, note.
INSERT INTO stayer_events (at, ids, queue, event, attempt, worker, note)
VALUES (?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: event.old
-- Whoever numbers them does that.
DO ?;

-- name: events.too_many
-- Rows up to the number given.
DELETE FROM stayer_events WHERE number <= ? ORDER BY number LIMIT 10000;

-- name: events.lock
-- The number of the last one that has one; nothing if somebody else gives numbers just now.
SELECT value FROM stayer_meta WHERE "key" = 'numbered' {claim};

-- name: events.fresh
-- The next that have none, as far as they are committed; and how many each one is.
SELECT seq, json_length(ids) FROM stayer_events FORCE INDEX (stayer_events_number)
WHERE number IS NULL
ORDER BY seq
LIMIT ?;

-- name: events.number
UPDATE stayer_events SET number = ? WHERE seq = ?;

-- name: events.numbered
UPDATE stayer_meta SET value = ? WHERE "key" = 'numbered';

-- name: last_event
SELECT CAST(value AS SIGNED) FROM stayer_meta WHERE "key" = 'numbered';

-- name: events.mark
SELECT value, EXISTS (SELECT 1 FROM stayer_events WHERE number IS NULL) FROM stayer_meta WHERE "key" = 'numbered';

-- name: number.draw
INSERT INTO stayer_numbers VALUES ();

-- name: number.drawn
SELECT last_insert_id();

-- name: number.drop
DELETE FROM stayer_numbers WHERE number BETWEEN ? AND ?;

-- name: reserve.next_rows
-- As reserve.next, with all that is to be known of what is claimed.
SELECT {task} FROM stayer_tasks FORCE INDEX (stayer_tasks_ready)
WHERE ready = ?1 AND lane_key = {lane_key} AND (start_before IS NULL OR start_before > ?3)
ORDER BY "rank", created, seq
LIMIT ?4
{claim};

-- name: reserve.claim_rows
-- As reserve.claim.
SELECT {task} FROM stayer_tasks FORCE INDEX (PRIMARY)
WHERE seq {in numbers ?1} AND state = 'pending' AND held = 0
{claim};

-- name: fast.reserve
-- now, worker, node, the number of the first event, what follows it in an entry of history up to the attempt, and
-- from there on, seqs. The history comes first: here an assignment sees what one before it has written.
UPDATE stayer_tasks
SET history = concat(history, '[', ?4 + field(seq, {list ?7}) - 1, ?5, attempt + 1, ?6), {taken}
WHERE seq {in numbers ?7};

-- name: fast.reserve_stretch
-- The same for all from one seq to another.
UPDATE stayer_tasks
SET history = concat(history, '[', ?4 + seq - ?7, ?5, attempt + 1, ?6), {taken}
WHERE seq BETWEEN ?7 AND ?8;

-- name: fast.completable
-- worker, state, attempt, last_order, queue, ids: those where a plain end is all there is to do. Not those on which
-- others depend, or whose runs count (share), or of which somebody wants to hear.
SELECT id, seq FROM stayer_tasks FORCE INDEX (stayer_tasks_id)
WHERE id {in texts ?6} AND state = ?2 AND worker = ?1 AND attempt = ?3 AND last_order = ?4 AND queue = ?5
    AND dependents = 0 AND share IS NULL AND notify IS NULL
    AND (SELECT q.notify FROM stayer_queues AS q WHERE q.name = ?5) IS NULL
{lock};

-- name: fast.complete
-- now, an entry of history from behind its number on, that number, result, seq.
UPDATE stayer_tasks SET {completed}, result = ?4, history = concat(history, '[', ?3, ?2) WHERE seq = ?5;

-- name: fast.complete_alike
-- The same for those with one result: the number of the first, seqs.
UPDATE stayer_tasks
SET {completed}, result = ?4, history = concat(history, '[', ?3 + field(seq, {list ?5}) - 1, ?2)
WHERE seq {in numbers ?5};

-- name: load.last_event
-- number: numbers go on from here.
UPDATE stayer_meta SET value = CAST(greatest(CAST(value AS SIGNED), ?1) AS CHAR) WHERE "key" = 'numbered';
