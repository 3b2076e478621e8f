-- What is told to somebody outside: see statements.sql for how these are written. {notice} stands for
-- the columns of a notice (see notices.py).

-- name: notice.add
-- id, task, queue, event, to, attempt, at, record.
INSERT INTO stayer_notices (id, task, queue, event, "to", attempt, at, next, record)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8)
{or nothing id};

-- name: notices.any
-- now, hooks, the moment before which a pending one should have been tried, and that for one that is
-- over: whether there is anything to do. (None is due before it was made: that finds few by an index.)
SELECT CASE WHEN EXISTS (
    SELECT 1 FROM {from texts ?2 h} {join in order} stayer_notices AS n
    ON n.state = 'pending' AND n.hook = h.value AND n.next <= ?1
) OR EXISTS (
    SELECT 1 FROM stayer_notices WHERE state = 'pending' AND at < ?3 AND next < ?3
) OR EXISTS (
    SELECT 1 FROM stayer_notices WHERE state = 'delivered' AND at < ?4
) OR EXISTS (
    SELECT 1 FROM stayer_notices WHERE state = 'failed' AND at < ?4
) THEN 1 ELSE 0 END;

-- name: notices.due
-- now, hook, limit.
SELECT next, seq FROM stayer_notices {along stayer_notices_due}
WHERE state = 'pending' AND hook = ?2 AND next <= ?1
ORDER BY next
LIMIT ?3
{claim};

-- name: notices.take
-- The moment when the lease ends, seqs.
UPDATE stayer_notices SET tries = tries + 1, next = ?1
WHERE seq {in numbers ?2};

-- name: notices.seqs
SELECT {notice} FROM stayer_notices WHERE seq {in numbers ?};

-- name: notices.stale
-- Hooks that somebody knows, the moment before which it should have been tried, what to say, limit.
-- How long it has been due counts, not how old it is: it may have been retried, or be under way.
UPDATE stayer_notices SET state = 'failed', next = NULL, said = ?3
WHERE seq IN (
    SELECT seq FROM (
        SELECT seq FROM stayer_notices
        WHERE state = 'pending' AND at < ?2 AND next < ?2
            AND NOT hook {in texts ?1}
        LIMIT ?4
    ) AS chosen
);

-- name: notices.forget
-- state, the moment before which it is old, limit.
DELETE FROM stayer_notices
WHERE seq IN (
    SELECT seq FROM (SELECT seq FROM stayer_notices WHERE state = ?1 AND at < ?2 LIMIT ?3) AS chosen
);

-- name: notice.settle
-- state, next, said, id, tries, forgiven, how many more are. A failure says nothing of a retry that came meanwhile.
UPDATE stayer_notices SET state = ?1, next = ?2, said = ?3, forgiven = forgiven + ?7
WHERE id = ?4 AND tries = ?5 AND state = 'pending' AND (?1 = 'delivered' OR forgiven = ?6);

-- name: notices
-- The last one before, limit.
SELECT {notice} FROM stayer_notices WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2;

-- name: notices.state
-- The last one before, limit, state.
SELECT {notice} FROM stayer_notices WHERE state = ?3 AND seq < ?1 ORDER BY seq DESC LIMIT ?2;

-- name: notices.task
-- The last one before, limit, state or null, task.
SELECT {notice} FROM stayer_notices
WHERE task = ?4 AND seq < ?1 AND (state = ?3 OR ?3 IS NULL)
ORDER BY seq DESC
LIMIT ?2;

-- name: notices.retry
-- now, ids.
UPDATE stayer_notices SET state = 'pending', forgiven = tries, since = ?1, next = ?1
WHERE id {in texts ?2} AND state <> 'delivered';

-- name: notices.drop
DELETE FROM stayer_notices WHERE id {in texts ?};
