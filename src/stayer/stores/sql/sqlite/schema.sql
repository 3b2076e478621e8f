-- The tables, version 1. Columns are named as the record's fields are; times are epoch seconds. Those of
-- fields that came later are added by schema.py, which also fills in {…}.
--
-- Anyone may write here: a row of stayer_tasks with only id, queue and parameters is a complete
-- task, and deleting the row of a task that waits removes it. The triggers do the rest. Stayer
-- itself always sets `updated`, which is how the insert trigger knows a row written by hand.

CREATE TABLE stayer_meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE stayer_queues (
    name TEXT PRIMARY KEY,
    paused INTEGER NOT NULL DEFAULT 0,
    "limit" INTEGER,
    key_limit INTEGER,
    key_limits TEXT, -- JSON object: limits of single keys
    rate INTEGER, -- so many starts …
    rate_per REAL, -- … in so many seconds
    tokens REAL, -- how many could have begun …
    tokens_at REAL, -- … at this moment
    fair TEXT CHECK (fair IN ('owner', 'key')),
    -- Whether its tasks wait in lines: see stayer_tasks.share.
    lined INTEGER GENERATED ALWAYS AS (
        key_limit IS NOT NULL OR key_limits IS NOT NULL OR fair IS NOT NULL
    ) VIRTUAL,
    retention TEXT, -- JSON object: seconds by what is kept
    notify TEXT, -- JSON array of hooks, each with its words in front: "ended:mail"
    defaults TEXT, -- JSON object: fields that its tasks have unless they say otherwise
    -- The logs, and the results, of tasks that ended up to this moment have been forgotten.
    logs_gone REAL NOT NULL DEFAULT 0,
    results_gone REAL NOT NULL DEFAULT 0,
    -- How many tasks are in each state, kept with every change, so that nobody has to count.
    waiting INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    pending INTEGER NOT NULL DEFAULT 0,
    reserved INTEGER NOT NULL DEFAULT 0,
    started INTEGER NOT NULL DEFAULT 0,
    complete INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    -- The number of the last event after which there may be something new to take. Numbers never
    -- come again, so a waiter that compares them can't be fooled, not even by a queue made anew.
    wakes INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE INDEX stayer_queues_rate ON stayer_queues (name)
WHERE rate IS NOT NULL;

-- How long the tasks of an owner (or key) have run, where these take turns: see core/ordering/fair_share.py.
CREATE TABLE stayer_shares (
    queue TEXT NOT NULL,
    share TEXT NOT NULL,
    used REAL NOT NULL,
    runs REAL NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (queue, share)
) WITHOUT ROWID;

CREATE TABLE stayer_tasks (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE CHECK (id <> ''),
    queue TEXT NOT NULL DEFAULT 'default' CHECK (queue <> ''),
    name TEXT,
    command TEXT CHECK (
        command IS NULL
        OR (json_type(command) = 'array' AND coalesce(json_type(command, '$[0]'), '') = 'text')
    ),
    cwd TEXT,
    env TEXT CHECK (json_type(env) = 'object'),
    parameters, -- JSON text, or a blob: raw or compressed bytes
    -- Not `IN`, for which SQLite would make a table of the words at every change.
    state TEXT NOT NULL DEFAULT 'pending' CHECK (
        state = 'complete' OR state = 'reserved' OR state = 'started' OR state = 'pending'
        OR state = 'failed' OR state = 'scheduled' OR state = 'cancelled' OR state = 'waiting'
    ),
    held INTEGER NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    interruptions INTEGER NOT NULL DEFAULT 0,
    ending TEXT,
    priority INTEGER NOT NULL DEFAULT 0 CHECK (typeof(priority) = 'integer'),
    owner TEXT,
    tags TEXT CHECK (json_type(tags) = 'array'),
    result, -- as parameters
    error TEXT, -- JSON object
    progress TEXT, -- JSON object
    node TEXT,
    worker TEXT,
    pid INTEGER,
    created REAL NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0)
    CHECK (typeof(created) = 'real'),
    updated REAL,
    eta REAL CHECK (eta IS NULL OR typeof(eta) = 'real'),
    started_at REAL,
    finished_at REAL,
    policy TEXT, -- JSON object
    losses INTEGER NOT NULL DEFAULT 0,
    orders TEXT, -- JSON array of open orders
    last_order INTEGER NOT NULL DEFAULT 0,
    returned_from TEXT, -- 'worker attempt' that the task was taken from as lost
    paused INTEGER NOT NULL DEFAULT 0,
    usage TEXT, -- JSON object
    start_before REAL CHECK (start_before IS NULL OR typeof(start_before) = 'real'),
    flow TEXT, -- stayer_flows.id
    part TEXT, -- its name in the flow
    upstreams INTEGER NOT NULL DEFAULT 0, -- how many rows of stayer_upstreams it has
    dependents INTEGER NOT NULL DEFAULT 0, -- whether others have it among theirs
    near_node TEXT, -- the node that has it for itself while it is pending …
    near_until REAL, -- … and until when
    fingerprint TEXT, -- of what went wrong, while it is failed
    -- What happened to it, a line each, so that a change writes one row and no more (history.py).
    history TEXT NOT NULL DEFAULT '',
    reserved_at REAL, -- its last attempt
    key TEXT CHECK (key <> ''),
    "unique" TEXT CHECK ("unique" <> ''),
    unique_while TEXT NOT NULL DEFAULT 'alive' CHECK (unique_while IN ('waiting', 'alive')),
    unique_for REAL NOT NULL DEFAULT 0,
    notify TEXT CHECK (json_type(notify) = 'array'), -- JSON array of hooks
    checkpoint_at REAL, -- stayer_checkpoints.at
    -- Until when it holds its unique word; it follows from the rest, so that none can be left behind.
    -- Every change of a row computes it, whether it has such a word or not: again without `IN`.
    unique_end REAL GENERATED ALWAYS AS (
        CASE
            WHEN state = 'waiting' OR state = 'scheduled' OR state = 'pending' THEN 9e999
            WHEN state = 'reserved' OR state = 'started'
                THEN iif(unique_while = 'waiting', 0, 9e999)
            ELSE iif(unique_for > 0, finished_at + unique_for, 0)
        END
    ) VIRTUAL,
    -- Null in most queues. Where keys are limited or owners take turns, tasks wait in lines, one for
    -- each share (the owner or key whose turn it may be, '' if nobody takes turns) and key: a full key's line is
    -- passed by, however long it is.
    share TEXT,
    line TEXT GENERATED ALWAYS AS (length(share) || ' ' || share || ifnull(key, '')) VIRTUAL,
    -- Which handler it needs. Workers take from the lanes they can run, so that a long line of
    -- tasks for others costs them nothing. So with those that a node has for itself.
    lane TEXT GENERATED ALWAYS AS (
        iif(
            near_node IS NULL, '',
            'near ' || length(CAST(near_node AS BLOB)) || ' ' || near_node || ' '
        ) || CASE
            WHEN command IS NOT NULL THEN 'command ' || json_extract(command, '$[0]')
            WHEN name IS NOT NULL THEN 'name ' || name
            ELSE ''
        END
    ) VIRTUAL
);

-- What can be taken, in the order in which it is.
CREATE INDEX stayer_tasks_ready ON stayer_tasks (
    queue, lane, priority DESC, created, seq, start_before
)
WHERE state = 'pending' AND held = 0;

-- What does not stand in the order in which it came, for queues with more lanes than can be looked into.
CREATE INDEX stayer_tasks_ranked ON stayer_tasks (queue, priority DESC, created, seq)
WHERE priority <> 0 AND state = 'pending' AND held = 0;

-- What can be taken, line by line, where there are lines.
CREATE INDEX stayer_tasks_lines ON stayer_tasks (queue, lane, line, priority DESC, created, seq)
WHERE share IS NOT NULL AND state = 'pending' AND held = 0;

-- Whom a unique word belongs to; what runs of a key.
CREATE INDEX stayer_tasks_unique ON stayer_tasks (queue, "unique", unique_end)
WHERE "unique" IS NOT NULL;
CREATE INDEX stayer_tasks_keys ON stayer_tasks (queue, key)
WHERE key IS NOT NULL AND state IN ('reserved', 'started');

CREATE INDEX stayer_tasks_shares ON stayer_tasks (queue, share)
WHERE share IS NOT NULL AND state IN ('reserved', 'started');

CREATE INDEX stayer_tasks_due ON stayer_tasks (eta)
WHERE state = 'scheduled';

CREATE INDEX stayer_tasks_expiring ON stayer_tasks (start_before)
WHERE start_before IS NOT NULL AND state IN ('waiting', 'scheduled', 'pending');

-- What a worker holds.
CREATE INDEX stayer_tasks_running ON stayer_tasks (worker)
WHERE state IN ('reserved', 'started');

-- What lists show, but for what runs, which is little and would change places too often; what purge
-- takes. A statement uses it if it says the same about the state in the same words.
CREATE INDEX stayer_tasks_listing ON stayer_tasks (queue, state, created)
WHERE state NOT IN ('reserved', 'started');
-- By when the store heard of the end, which no later one can be before.
CREATE INDEX stayer_tasks_finished ON stayer_tasks (queue, state, updated)
WHERE finished_at IS NOT NULL;

-- Whose results are kept for others, maybe for longer than is usual.
CREATE INDEX stayer_tasks_inputs ON stayer_tasks (queue, updated)
WHERE dependents = 1 AND result IS NOT NULL AND finished_at IS NOT NULL;

-- What a node has for itself.
CREATE INDEX stayer_tasks_near ON stayer_tasks (near_node, near_until)
WHERE near_node IS NOT NULL AND state = 'pending';

-- What failed, by fault.
CREATE INDEX stayer_tasks_failures ON stayer_tasks (fingerprint, queue, finished_at)
WHERE fingerprint IS NOT NULL;

CREATE TABLE stayer_schedules (
    name TEXT PRIMARY KEY,
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    task TEXT NOT NULL, -- JSON object: what each tick submits
    overlap TEXT NOT NULL,
    catch_up TEXT NOT NULL,
    jitter REAL NOT NULL,
    paused INTEGER NOT NULL,
    origin TEXT, -- the file or app that declares it
    next REAL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    last REAL,
    last_task TEXT,
    waiting INTEGER NOT NULL DEFAULT 0 -- a tick waits for the end of what it has cancelled
) WITHOUT ROWID;

CREATE INDEX stayer_schedules_due ON stayer_schedules (next)
WHERE paused = 0 AND next IS NOT NULL;

CREATE INDEX stayer_schedules_task ON stayer_schedules (last_task);

CREATE INDEX stayer_tasks_flow ON stayer_tasks (flow, part, state)
WHERE flow IS NOT NULL;

-- What tasks are to run after. `waits` is 1 until the upstream's end was passed on to the task.
CREATE TABLE stayer_upstreams (
    task INTEGER NOT NULL, -- stayer_tasks.seq
    position INTEGER NOT NULL,
    upstream TEXT NOT NULL, -- stayer_tasks.id
    anyhow INTEGER NOT NULL DEFAULT 0, -- 1: it need only have ended, and is no input; 2: since a retry
    waits INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (task, position)
) WITHOUT ROWID;

CREATE INDEX stayer_upstreams_waits ON stayer_upstreams (task) WHERE waits = 1;
CREATE INDEX stayer_upstreams_waiters ON stayer_upstreams (upstream, task) WHERE waits = 1;
CREATE INDEX stayer_upstreams_dependents ON stayer_upstreams (upstream);

-- Tasks that have ended and whose dependents have not all heard of it.
CREATE TABLE stayer_outbox (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL, -- how it ended, should it be gone
    at REAL NOT NULL
) WITHOUT ROWID;

CREATE INDEX stayer_outbox_at ON stayer_outbox (at);

-- What is to be told to somebody outside, and what was told. It outlives its task.
CREATE TABLE stayer_notices (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL, -- stayer_tasks.id
    queue TEXT NOT NULL,
    event TEXT NOT NULL,
    "to" TEXT NOT NULL, -- the name of a hook, or a URL
    attempt INTEGER NOT NULL,
    at REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    tries INTEGER NOT NULL DEFAULT 0,
    forgiven INTEGER NOT NULL DEFAULT 0, -- tries before the last retry
    since REAL, -- when it was last retried
    next REAL,
    said TEXT,
    record TEXT NOT NULL, -- JSON object: the task as it was
    hook TEXT GENERATED ALWAYS AS (iif(instr("to", '://'), '', "to")) VIRTUAL
);

CREATE INDEX stayer_notices_due ON stayer_notices (hook, next) WHERE state = 'pending';
CREATE INDEX stayer_notices_old ON stayer_notices (state, at);
CREATE INDEX stayer_notices_task ON stayer_notices (task);
CREATE INDEX stayer_notices_state ON stayer_notices (state);

CREATE TABLE stayer_flows (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    owner TEXT,
    created REAL NOT NULL,
    parts TEXT NOT NULL -- JSON array
);

-- Older lines of a history, moved out of the task's row when it grows. Of very many the first and the
-- last are kept: what came before a part may be more than is there.
CREATE TABLE stayer_history (
    task INTEGER NOT NULL, -- stayer_tasks.seq
    before INTEGER NOT NULL, -- how many lines came before these
    count INTEGER NOT NULL,
    lines TEXT NOT NULL,
    PRIMARY KEY (task, before)
) WITHOUT ROWID;

-- What happened lately, to whoever watches: events of one kind that came together are one row,
-- under the number of the last of them. The newest row is never deleted, so numbers only grow.
CREATE TABLE stayer_events (
    number INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    ids TEXT NOT NULL, -- JSON array; the id is '' where it happened to the queue
    queue TEXT NOT NULL,
    event TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    note TEXT
);

CREATE TABLE stayer_logs (
    task INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    start INTEGER NOT NULL,
    at REAL NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (task, attempt, start)
);

-- What an attempt has used: a point in each slot of its time; in slot -1 what it has reported of itself.
CREATE TABLE stayer_usage (
    task INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    usage TEXT NOT NULL, -- JSON object
    PRIMARY KEY (task, attempt, slot)
) WITHOUT ROWID;

CREATE TABLE stayer_checkpoints (
    task INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    at REAL NOT NULL,
    data BLOB NOT NULL
);

-- What was sent along with tasks, by its hash. Younger than the rest: see _missing_tables in schema.py.
CREATE TABLE stayer_files (
    sha256 TEXT PRIMARY KEY,
    at REAL NOT NULL, -- when somebody last put it, or found it to be in use
    data BLOB NOT NULL
);

CREATE TABLE stayer_workers (
    id TEXT PRIMARY KEY,
    node TEXT NOT NULL,
    pid INTEGER NOT NULL,
    queues TEXT NOT NULL, -- JSON array
    slots INTEGER NOT NULL,
    version TEXT NOT NULL,
    draining INTEGER NOT NULL,
    lease REAL NOT NULL,
    keeps INTEGER NOT NULL DEFAULT 0,
    handles TEXT, -- JSON object; null if it did not say what it can run
    drain INTEGER NOT NULL DEFAULT 0, -- somebody wants it to take no more
    number INTEGER NOT NULL,
    nonce TEXT NOT NULL,
    started_at REAL NOT NULL,
    beat_at REAL NOT NULL,
    lease_end REAL NOT NULL,
    dead INTEGER NOT NULL DEFAULT 0,
    wakes INTEGER NOT NULL DEFAULT 0,
    watched_until REAL NOT NULL DEFAULT 0,
    times_watched INTEGER NOT NULL DEFAULT 0,
    worker_order TEXT -- JSON object: what an operator wants of it
) WITHOUT ROWID;

-- What queues did in a stretch of time; the queue '' is all of them together.
CREATE TABLE stayer_figures (
    step INTEGER NOT NULL, -- its length in seconds: 60, 3600 or 86400
    at REAL NOT NULL,
    queue TEXT NOT NULL,
    depth INTEGER,
    running INTEGER,
    age REAL,
    submitted INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    ran REAL NOT NULL,
    waited REAL NOT NULL,
    PRIMARY KEY (step, at, queue)
) WITHOUT ROWID;

-- Ids of tasks that are gone, refused until they are forgotten.
CREATE TABLE stayer_purged (
    id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    created REAL NOT NULL,
    finished_at REAL,
    at REAL NOT NULL
) WITHOUT ROWID;

CREATE INDEX stayer_purged_at ON stayer_purged (at);

CREATE TRIGGER stayer_task_by_hand AFTER INSERT ON stayer_tasks
WHEN new.updated IS NULL
BEGIN
    -- revision {revision}: files that have an older one, or none, get this one when they are opened (schema.py).
    SELECT raise(ABORT, 'stayer: a task has either a name or a command, not both')
    WHERE new.name IS NOT NULL AND new.command IS NOT NULL;
    SELECT raise(ABORT, 'stayer: the words of a command have to be text')
    WHERE EXISTS (SELECT 1 FROM json_each(new.command) WHERE type <> 'text');
    SELECT raise(ABORT, 'stayer: the values of env have to be text')
    WHERE EXISTS (SELECT 1 FROM json_each(new.env) WHERE type <> 'text');
    SELECT raise(ABORT, 'stayer: tags, and hooks in notify, have to be text')
    WHERE EXISTS (SELECT 1 FROM json_each(new.tags) WHERE type <> 'text')
        OR EXISTS (SELECT 1 FROM json_each(new.notify) WHERE type <> 'text');
    SELECT raise(ABORT, 'stayer: policy has to be a JSON object, such as {"retries": 3}')
    WHERE new.policy IS NOT NULL
        AND NOT iif(json_valid(new.policy), json_type(new.policy) = 'object', 0);
    SELECT raise(ABORT, 'stayer: policy has a field that there is not: see docs/reference/tables.md')
    WHERE EXISTS (
        SELECT 1 FROM json_each(new.policy)
        WHERE key NOT IN ({policy fields})
    );
    SELECT raise(ABORT, 'stayer: policy has a field of another kind: numbers are numbers from 0 on')
    WHERE EXISTS (
        SELECT 1 FROM json_each(new.policy)
        WHERE NOT CASE
            {policy kinds}
            ELSE type = 'null' OR (type IN ('integer', 'real') AND atom BETWEEN 0 AND 3155760000)
        END
    );
    -- As core/limits.py has it.
    {texts}
    SELECT raise(ABORT, 'stayer: a task has at most 64,000 bytes without its parameters')
    WHERE length(CAST(
        ifnull(new.command, '') || ifnull(new.cwd, '') || ifnull(new.env, '') || ifnull(new.tags, '')
        || ifnull(new.notify, '') || ifnull(new.policy, '') || ifnull(new.code, '') || ifnull(new.meta, '')
        || ifnull(new.cloned_from, '') || ifnull(new.submitted_by, '') || ifnull(new.source_commit, '') AS BLOB
    )) > 64000;
    SELECT raise(ABORT, 'stayer: parameters have at most 1 MB')
    WHERE length(CAST(new.parameters AS BLOB)) > 1000000;
    SELECT raise(ABORT, 'stayer: leave out the state of a task that you insert')
    WHERE new.state <> 'pending';
    SELECT raise(ABORT, 'stayer: an id may not begin with -, nor be . or ..')
    WHERE substr(new.id, 1, 1) = '-' OR new.id = '.' OR new.id = '..';
    SELECT raise(ABORT, 'stayer: a task with this id has been here and was purged')
    WHERE EXISTS (
        SELECT 1 FROM stayer_purged
        WHERE id = new.id AND at > (julianday('now') - 2440587.5) * 86400.0 - 30 * 86400.0
    );
    SELECT raise(ABORT, 'stayer: another task of this queue holds this unique word')
    WHERE EXISTS (
        SELECT 1 FROM stayer_tasks
        WHERE queue = new.queue AND "unique" = new."unique" AND seq <> new.seq
            AND unique_end > (julianday('now') - 2440587.5) * 86400.0
    );
    -- As core/submit/defaults.py and core/submit/fresh.py have it.
    UPDATE stayer_tasks
    SET policy = json_patch(json_remove(q.defaults, {queue places}), ifnull(new.policy, '{}')),
        {queue defaults}
    FROM stayer_queues AS q
    WHERE seq = new.seq AND q.name = new.queue AND json_valid(q.defaults);
    UPDATE stayer_tasks
    SET finish_before = created + json_extract(policy, '$.deadline'),
        start_before = min(
            ifnull(start_before, created + json_extract(policy, '$.deadline')),
            created + json_extract(policy, '$.deadline')
        )
    WHERE seq = new.seq AND json_extract(policy, '$.deadline') IS NOT NULL;
    INSERT INTO stayer_events (at, ids, queue, event)
    VALUES (
        new.created, json_array(new.id), new.queue,
        iif(new.eta > new.created, 'scheduled', 'pending')
    );
    UPDATE stayer_tasks
    SET updated = created,
        state = iif(new.eta > new.created, 'scheduled', 'pending'),
        history = printf(
            '[%d,%!.17g,"%s"]%s',
            (SELECT max(number) FROM stayer_events), new.created,
            iif(new.eta > new.created, 'scheduled', 'pending'), char(10)
        ),
        share = (
            SELECT CASE fair WHEN 'owner' THEN ifnull(new.owner, '')
                WHEN 'key' THEN ifnull(new.key, '') ELSE '' END
            FROM stayer_queues WHERE name = new.queue AND lined
        )
    WHERE seq = new.seq;
    INSERT INTO stayer_queues (name) VALUES (new.queue) ON CONFLICT DO NOTHING;
    UPDATE stayer_queues
    SET scheduled = scheduled + (new.eta IS NOT NULL AND new.eta > new.created),
        pending = pending + (new.eta IS NULL OR new.eta <= new.created),
        wakes = (SELECT max(number) FROM stayer_events)
    WHERE name = new.queue;
END;

-- Lines come and go with the settings that need them.
CREATE TRIGGER stayer_queue_lined AFTER UPDATE OF key_limit, key_limits, fair ON stayer_queues
WHEN old.lined <> new.lined OR old.fair IS NOT new.fair
BEGIN
    UPDATE stayer_tasks
    SET share = CASE
        WHEN NOT new.lined THEN NULL
        WHEN new.fair = 'owner' THEN ifnull(owner, '')
        WHEN new.fair = 'key' THEN ifnull(key, '')
        ELSE ''
    END
    WHERE queue = new.name AND state IN ('pending', 'reserved', 'started');
END;

CREATE TRIGGER stayer_task_deleted AFTER DELETE ON stayer_tasks
BEGIN
    INSERT INTO stayer_events (at, ids, queue, event, attempt)
    VALUES (
        (julianday('now') - 2440587.5) * 86400.0, json_array(old.id), old.queue, 'deleted',
        old.attempt
    );
    UPDATE stayer_queues
    SET waiting = waiting - (old.state = 'waiting'),
        scheduled = scheduled - (old.state = 'scheduled'),
        pending = pending - (old.state = 'pending'),
        reserved = reserved - (old.state = 'reserved'),
        started = started - (old.state = 'started'),
        complete = complete - (old.state = 'complete'),
        failed = failed - (old.state = 'failed'),
        cancelled = cancelled - (old.state = 'cancelled'),
        wakes = iif(
            old.state IN ('reserved', 'started'), (SELECT max(number) FROM stayer_events), wakes
        )
    WHERE name = old.queue;
    DELETE FROM stayer_history WHERE task = old.seq;
    DELETE FROM stayer_logs WHERE task = old.seq;
    DELETE FROM stayer_usage WHERE task = old.seq;
    DELETE FROM stayer_checkpoints WHERE task = old.seq;
    DELETE FROM stayer_upstreams WHERE task = old.seq;
    INSERT INTO stayer_outbox (id, state, at)
    SELECT old.id, iif(old.finished_at IS NULL, 'cancelled', old.state),
        (julianday('now') - 2440587.5) * 86400.0
    WHERE old.dependents = 1 AND EXISTS (
        SELECT 1 FROM stayer_upstreams WHERE upstream = old.id AND waits = 1
    )
    ON CONFLICT (id) DO UPDATE SET state = excluded.state;
    DELETE FROM stayer_flows
    WHERE id = old.flow AND NOT EXISTS (SELECT 1 FROM stayer_tasks WHERE flow = old.flow);
END;

-- The attempts of all tasks, read from their histories, for people who ask with SQL.
CREATE VIEW stayer_attempts AS
WITH parts (task, lines) AS (
    SELECT task, lines FROM stayer_history
    UNION ALL
    SELECT seq, history FROM stayer_tasks
),

entries (task, entry) AS (
    SELECT task, value
    FROM parts, json_each('[' || replace(rtrim(lines, char(10)), char(10), ',') || ']')
),

-- What was told late says itself when it was.
found AS (
    SELECT
        task,
        entry ->> 3 AS attempt,
        max(iif(entry ->> 2 = 'reserved', entry ->> 4, NULL)) AS worker,
        max(iif(entry ->> 2 = 'reserved', entry ->> 8, NULL)) AS node,
        max(entry ->> 9) AS pid,
        max(iif(entry ->> 2 = 'reserved', entry ->> 1, NULL)) AS reserved_at,
        max(iif(entry ->> 2 = 'started', coalesce(entry ->> 10, entry ->> 1), NULL)) AS started_at,
        -- Those of the last line that has one: a late end may follow a loss.
        CAST(substr(max(iif(
            entry ->> 6 IS NULL, NULL,
            printf('%016d%!.7f', entry ->> 0, coalesce(entry ->> 10, entry ->> 1))
        )), 17) AS REAL) AS finished_at,
        substr(max(printf('%016d', entry ->> 0) || (entry ->> 6)), 17) AS ending,
        substr(max(printf('%016d', entry ->> 0) || (entry ->> 7)), 17) AS error
    FROM entries
    GROUP BY task, attempt
)

SELECT
    task, attempt, worker, node, pid, reserved_at,
    max(started_at, reserved_at) AS started_at,
    max(finished_at, coalesce(max(started_at, reserved_at), reserved_at)) AS finished_at,
    ending, error
FROM found
-- One whose end was dropped must not seem to go on.
WHERE reserved_at IS NOT NULL AND (
    finished_at IS NOT NULL OR attempt = (SELECT attempt FROM stayer_tasks WHERE seq = task)
);
