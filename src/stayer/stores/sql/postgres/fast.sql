-- What is done to many tasks at once, or in one round trip: see fast.py, ../one_trip.py.

-- name: commit.whole
-- A change with its event and its counters, all of it or nothing: the columns, a line of history, what the conditions
-- ask for; then at, ids, event, attempt, worker, note, whether there is an event; then by how much the number of
-- tasks in each state changes, and whether it does. The event's place among others is drawn when its row is made, and that
-- is made from a row of `changed`, so after the task was locked.
WITH changed AS (
    UPDATE stayer_tasks SET {sets}, history = history || ?
    {where} AND EXISTS (SELECT 1 FROM stayer_queues AS q WHERE q.name = stayer_tasks.queue)
    RETURNING {task}
),
told AS (
    INSERT INTO stayer_new_events (at, ids, queue, event, attempt, worker, note)
    SELECT ?::double precision, ?::text, queue, ?::text, ?::bigint, ?::text, ?::text FROM changed
    WHERE ?::boolean
),
counted AS (
    INSERT INTO stayer_counts (
        waiting, scheduled, pending, reserved, started, complete, failed, cancelled, queue
    )
    SELECT ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, ?::bigint, queue
    FROM changed WHERE ?::boolean
)
SELECT * FROM changed;

-- name: commit.applied
-- id, the number of an event: the task, if that is in its history.
SELECT {task} FROM stayer_tasks
WHERE id = ?1 AND position(chr(10) || '[' || ?2::bigint::text || ',' IN chr(10) || history) > 0;

-- name: whole.short
-- The line finds room in the row.
length(history) <= ?;

-- name: whole.last
-- Nobody waits for its end.
dependents = {no};

-- name: whole.uncounted
-- What it used counts for nobody's share.
share IS NULL;

-- name: whole.unheard
-- Nobody outside wants to hear of it.
notify IS NULL AND NOT EXISTS (
    SELECT 1 FROM stayer_queues AS q WHERE q.name = stayer_tasks.queue AND q.notify IS NOT NULL
);

-- name: queue.expect_no_defaults
-- queues.
SELECT stayer_not_as_expected() FROM stayer_queues WHERE name {in texts ?} AND defaults IS NOT NULL;

-- name: turn.whole
-- See schema.sql.
SELECT {task} FROM stayer_turn(
    ?1, ?2, ?3, ?4, ?5::text[], ?6::text[], ?7, ?8, ?9, ?10,
    ?11::text[], ?12::text[], ?13, ?14, ?15, ?16, ?17, ?18, ?19
);

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

-- name: fast.submit_whole
-- The same with their event and the counters, so one statement is all of it. Behind that: when, the state that they are
-- in, how many more are waiting, scheduled and pending, and whether the queue has no defaults, as far as the caller
-- knows; if it has, the transaction ends (../bulk.py).
WITH made AS (
    INSERT INTO stayer_queues (name)
    SELECT ?5 WHERE NOT EXISTS (SELECT 1 FROM stayer_queues AS q WHERE q.name = ?5)
    ON CONFLICT (name) DO NOTHING
),
told AS (
    INSERT INTO stayer_new_events (at, ids, queue, event)
    VALUES ({more 0}, to_json(?1::text[])::text, ?5, {more 1})
),
counted AS (
    INSERT INTO stayer_counts (queue, waiting, scheduled, pending)
    VALUES (?5, {more 2}, {more 3}, {more 4})
)
INSERT INTO stayer_tasks (id, parameters, history, share, {new})
SELECT each.id, each.parameters, '[' || (?3 + each.place - 1)::text || ?4,
    (SELECT CASE
         WHEN {more 5} AND q.defaults IS NOT NULL THEN stayer_not_as_expected()::text
         WHEN NOT q.lined THEN NULL
         WHEN q.fair = 'owner' THEN coalesce(?6, '') WHEN q.fair = 'key' THEN coalesce(?7, '') ELSE ''
     END
     FROM stayer_queues AS q WHERE q.name = ?5),
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
SET {taken}, history = history || '[' || (?4 + chosen.place - 1)::text || ?5 || (attempt + 1)::text || ?6
FROM unnest(?7::bigint[]) WITH ORDINALITY AS chosen (chosen_seq, place)
WHERE seq = chosen.chosen_seq
RETURNING {task};

-- name: fast.complete
-- now, worker, an entry of history from behind its number on, state, attempt, last_order, queue, ids, results, the
-- number of the first event. What becomes of a task that ran to its end, as core/effects.py has it, where
-- that is all there is to do: not for those on which others depend, or whose runs count (share), or of which
-- somebody wants to hear.
UPDATE stayer_tasks
SET {completed}, result = done.done_result, history = history || '[' || (?10 + done.place - 1)::text || ?3
FROM unnest(?8::text[], ?9::text[]) WITH ORDINALITY AS done (done_id, done_result, place)
WHERE id = done.done_id AND state = ?4 AND worker = ?2 AND attempt = ?5 AND last_order = ?6 AND queue = ?7
    AND dependents = {no} AND share IS NULL AND notify IS NULL
    AND (SELECT q.notify FROM stayer_queues AS q WHERE q.name = ?7) IS NULL
RETURNING id;
