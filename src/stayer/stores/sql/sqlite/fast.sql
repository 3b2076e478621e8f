-- What makes SQLite fast where much is done at once: see fast.py. {reserved}, {unusual} and {first_created}
-- are columns (see just_reserved.py).

-- name: fast.submit
-- Tasks that were asked for alike: [id, parameters] of each (JSON array), the number of the event that
-- the first one came, parameters that are no text (then there is but one task), and what rows.cells_in_common
-- gives. One statement for all, because each one that is run for a single row costs as much again.
-- `updated` is set, so the trigger for rows by hand stays quiet.
INSERT INTO stayer_tasks (id, parameters, history, share, {new})
SELECT
    json_extract(value, '$[0]'), coalesce(?3, json_extract(value, '$[1]')), '[' || (?2 + key) || ?4,
    (SELECT CASE fair WHEN 'owner' THEN coalesce(?6, '') WHEN 'key' THEN coalesce(?7, '') ELSE '' END
     FROM stayer_queues WHERE name = ?5 AND lined),
    {new_values}
FROM json_each(?1)
WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: reserve.next.json
-- As one JSON array: Python lets go of its lock at every row that it reads, and gets it back when others
-- have had enough of it.
SELECT json_group_array(seq) FROM ({reserve.next});

-- name: reserve.next_of_all.json
SELECT json_group_array(seq) FROM ({reserve.next_of_all});

-- name: fast.reserve
-- now, worker, node, the number of the first event, what follows it in an entry of history up to
-- the attempt, and from there on, seqs. The rows are read afterwards: RETURNING gives whole seconds
-- as integers.
UPDATE stayer_tasks
SET {taken}, history = history || '[' || (?4 + taken.key) || ?5 || (attempt + 1) || ?6
FROM json_each(?7) AS taken
WHERE seq = taken.value;

-- name: fast.reserve_stretch
-- The same for all from one seq to another, which costs a sixth less.
UPDATE stayer_tasks
SET {taken}, history = history || '[' || (?4 + seq - ?7) || ?5 || (attempt + 1) || ?6
WHERE seq BETWEEN ?7 AND ?8;

-- name: reserve.read
-- seqs, the first of them: what most tasks have, as one JSON array of arrays (see reserve.next), and
-- when the first was made. The last of each is 1 if this one has nothing more. As bytes: what others
-- wrote need not be text.
SELECT
    CAST(json_group_array(json_array({reserved}, coalesce({unusual}) IS NULL)) AS BLOB),
    {first_created}
FROM stayer_tasks
WHERE seq {in numbers ?1};

-- name: plainly
-- Where that is all there is to do: not for those on which others depend, or whose runs count (share), or of
-- which somebody wants to hear. The signs keep other indexes than those of id and seq out.
+state = ?4 AND +worker = ?2 AND attempt = ?5 AND last_order = ?6 AND +queue = ?7
    AND dependents = {no} AND share IS NULL AND notify IS NULL
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
