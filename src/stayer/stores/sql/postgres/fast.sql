-- What is done to many tasks at once: see fast.py.

-- name: fast.submit
-- ids, parameters, the number of the event that the first one came, and what rows.cells_in_common gives: tasks
-- that were asked for alike. An id that is there ends the transaction. `updated` is set, so the trigger for
-- rows by hand stays quiet.
INSERT INTO stayer_tasks (id, parameters, history, share, {new})
SELECT each.id, each.parameters, '[' || (?3 + each.place - 1)::text || ?4,
    (SELECT CASE q.fair WHEN 'owner' THEN coalesce(?6, '') WHEN 'key' THEN coalesce(?7, '') ELSE '' END
     FROM stayer_queues AS q WHERE q.name = ?5 AND q.lined),
    {new_values}
FROM unnest(?1::text[], ?2::text[]) WITH ORDINALITY AS each (id, parameters, place);

-- name: fast.submit_warily
-- The same in a transaction that is not ours: one that is there is left as it is.
{fast.submit}
ON CONFLICT (id) DO NOTHING;

-- name: fast.take
-- now, worker, node, the number of the first event, what follows it in an entry of history up to the attempt, and
-- from there on, seqs.
UPDATE stayer_tasks
SET state = 'reserved', attempt = attempt + 1, updated = ?1, worker = ?2, node = ?3, pid = NULL,
    ending = NULL, started_at = NULL, returned_from = NULL, paused = {no}, usage = NULL,
    reserved_at = ?1, history = history || '[' || (?4 + taken.place - 1)::text || ?5 || (attempt + 1)::text || ?6
FROM unnest(?7::bigint[]) WITH ORDINALITY AS taken (taken_seq, place)
WHERE seq = taken.taken_seq
RETURNING {task};

-- name: fast.complete
-- now, worker, an entry of history from behind its number on, state, attempt, last_order, queue, ids, results, the
-- number of the first event. What becomes of a task that ran to its end, as core/effects.py has it, where
-- that is all there is to do: not for those on which others depend, or whose runs count (share), or of which
-- somebody wants to hear.
UPDATE stayer_tasks
SET state = 'complete', updated = ?1, finished_at = greatest(?1, coalesce(started_at, reserved_at, 0)),
    ending = 'done', returned_from = NULL, error = NULL, orders = NULL, paused = {no},
    result = done.done_result, history = history || '[' || (?10 + done.place - 1)::text || ?3
FROM unnest(?8::text[], ?9::text[]) WITH ORDINALITY AS done (done_id, done_result, place)
WHERE id = done.done_id AND state = ?4 AND worker = ?2 AND attempt = ?5 AND last_order = ?6 AND queue = ?7
    AND dependents = {no} AND share IS NULL AND notify IS NULL
    AND (SELECT q.notify FROM stayer_queues AS q WHERE q.name = ?7) IS NULL
RETURNING id;
