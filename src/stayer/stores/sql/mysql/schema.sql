-- The tables, version 1, as MariaDB and MySQL have them; ../sqlite/schema.sql says what they are for. Columns are
-- named as the record's fields are; times are epoch seconds. schema.py fills in {…}, and adds the columns of fields
-- that came later. Each statement can be run again: DDL does not roll back here, so what was begun is gone on with.
--
-- There are no partial indexes. In their place are columns that follow from others, and are null in all rows that
-- such an index would not have; all columns of an index that change often are of this kind, so that a change of
-- state touches no more indexes than it must. They are stored: an index on a column that is not would have to be
-- computed again by the threads that clean up behind changes.
--
-- Anyone may write here: a row of stayer_tasks with only id, queue and parameters is a complete task, and deleting
-- the row of a task that waits removes it. The triggers do the rest. Stayer itself always sets `updated`, which is
-- how the insert trigger knows a row written by hand.

CREATE TABLE IF NOT EXISTS stayer_meta (
    "key" VARCHAR(100) PRIMARY KEY,
    value LONGTEXT NOT NULL
) {table};

CREATE TABLE IF NOT EXISTS stayer_queues (
    name VARCHAR(200) PRIMARY KEY,
    paused BOOLEAN NOT NULL DEFAULT 0,
    "limit" BIGINT,
    key_limit BIGINT,
    key_limits LONGTEXT, -- JSON object: limits of single keys
    rate BIGINT, -- so many starts …
    rate_per DOUBLE, -- … in so many seconds
    tokens DOUBLE, -- how many could have begun …
    tokens_at DOUBLE, -- … at this moment
    fair VARCHAR(10) CHECK (fair IN ('owner', 'key')),
    -- Whether its tasks wait in lines: see stayer_tasks.share.
    lined BOOLEAN GENERATED ALWAYS AS (
        key_limit IS NOT NULL OR key_limits IS NOT NULL OR fair IS NOT NULL
    ) VIRTUAL,
    retention LONGTEXT, -- JSON object: seconds by what is kept
    notify LONGTEXT, -- JSON array of hooks
    defaults LONGTEXT, -- JSON object: fields that its tasks have unless they say otherwise
    -- The logs, and the results, of tasks that ended up to this moment have been forgotten.
    logs_gone DOUBLE NOT NULL DEFAULT 0,
    results_gone DOUBLE NOT NULL DEFAULT 0
) {table};

-- Those who take from a queue share its row here, and who changes its settings has it alone: so no limit is exceeded
-- that was set while somebody took. Not the row above, which who takes under a limit has alone: two who share it could
-- not both get it.
CREATE TABLE IF NOT EXISTS stayer_queue_locks (
    name VARCHAR(200) PRIMARY KEY
) {table};

-- Unique words that somebody is about to give to a task. A row is gone again before it is committed; until then
-- nobody else gets one like it.
CREATE TABLE IF NOT EXISTS stayer_words (
    queue VARCHAR(200) NOT NULL,
    word VARCHAR(200) NOT NULL,
    PRIMARY KEY (queue, word)
) {table};

-- How many more tasks of a queue came into each state than left it: a row for each change, so that nobody who
-- writes waits for another. They are added up (stayer_counted), and from time to time many become one (upkeep.py).
-- `wakes` is a number at random where there may be something new to take: its sum tells that to those who wait.
CREATE TABLE IF NOT EXISTS stayer_counts (
    number BIGINT AUTO_INCREMENT PRIMARY KEY,
    queue VARCHAR(200) NOT NULL,
    waiting BIGINT NOT NULL DEFAULT 0,
    scheduled BIGINT NOT NULL DEFAULT 0,
    pending BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    started BIGINT NOT NULL DEFAULT 0,
    complete BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    cancelled BIGINT NOT NULL DEFAULT 0,
    wakes BIGINT NOT NULL DEFAULT 0,
    KEY stayer_counts_queue (queue)
) {table};

-- What workers are to look at; a row for each time, forgotten soon.
CREATE TABLE IF NOT EXISTS stayer_marks (
    number BIGINT AUTO_INCREMENT PRIMARY KEY,
    worker VARCHAR(500) NOT NULL,
    at DOUBLE NOT NULL,
    KEY stayer_marks_worker (worker)
) {table};

-- Gives out numbers of events, 4096 at a time, and holds no rows for longer than it takes: the counter of the table
-- is all that is wanted. No transaction waits for another.
CREATE TABLE IF NOT EXISTS stayer_numbers (
    number BIGINT AUTO_INCREMENT PRIMARY KEY
) {table};

-- How long the tasks of an owner (or key) have run, where these take turns: see core/ordering/fair_share.py.
CREATE TABLE IF NOT EXISTS stayer_shares (
    queue VARCHAR(200) NOT NULL,
    share VARCHAR(200) NOT NULL,
    used DOUBLE NOT NULL,
    runs DOUBLE NOT NULL,
    at DOUBLE NOT NULL,
    PRIMARY KEY (queue, share)
) {table};

CREATE TABLE IF NOT EXISTS stayer_tasks (
    seq BIGINT AUTO_INCREMENT PRIMARY KEY,
    id VARCHAR(256) NOT NULL CHECK (id <> ''),
    queue VARCHAR(200) NOT NULL DEFAULT 'default' CHECK (queue <> ''),
    name VARCHAR(200),
    command LONGTEXT CHECK (
        command IS NULL OR (
            json_valid(command) AND json_type(command) = 'ARRAY'
            AND coalesce(json_type(json_extract(command, '$[0]')), '') = 'STRING'
        )
    ),
    cwd LONGTEXT,
    env LONGTEXT CHECK (env IS NULL OR (json_valid(env) AND json_type(env) = 'OBJECT')),
    parameters LONGBLOB, -- JSON text, or bytes, raw (behind one of value 255) or compressed
    state VARCHAR(9) NOT NULL DEFAULT 'pending' CHECK (
        state IN ('waiting', 'scheduled', 'pending', 'reserved', 'started', 'complete', 'failed', 'cancelled')
    ),
    held BOOLEAN NOT NULL DEFAULT 0,
    attempt BIGINT NOT NULL DEFAULT 0,
    failures BIGINT NOT NULL DEFAULT 0,
    interruptions BIGINT NOT NULL DEFAULT 0,
    ending VARCHAR(200),
    priority BIGINT NOT NULL DEFAULT 0,
    owner VARCHAR(200),
    tags LONGTEXT CHECK (tags IS NULL OR (json_valid(tags) AND json_type(tags) = 'ARRAY')),
    result LONGBLOB, -- as parameters
    error LONGTEXT, -- JSON object
    progress LONGTEXT, -- JSON object
    node VARCHAR(500),
    worker VARCHAR(500),
    pid BIGINT,
    created DOUBLE NOT NULL DEFAULT ({now}),
    updated DOUBLE,
    eta DOUBLE,
    started_at DOUBLE,
    finished_at DOUBLE,
    policy LONGTEXT, -- JSON object
    losses BIGINT NOT NULL DEFAULT 0,
    orders LONGTEXT, -- JSON array of open orders
    last_order BIGINT NOT NULL DEFAULT 0,
    returned_from VARCHAR(600), -- 'worker attempt' that the task was taken from as lost
    paused BOOLEAN NOT NULL DEFAULT 0,
    "usage" LONGTEXT, -- JSON object
    start_before DOUBLE,
    flow VARCHAR(200), -- stayer_flows.id
    part VARCHAR(200), -- its name in the flow
    upstreams BIGINT NOT NULL DEFAULT 0, -- how many rows of stayer_upstreams it has
    dependents BOOLEAN NOT NULL DEFAULT 0, -- whether others have it among theirs
    near_node VARCHAR(500), -- the node that has it for itself while it is pending …
    near_until DOUBLE, -- … and until when
    fingerprint VARCHAR(200), -- of what went wrong, while it is failed
    -- What happened to it, a line each, so that a change writes one row and no more (history.py).
    history LONGTEXT NOT NULL DEFAULT (''),
    reserved_at DOUBLE, -- its last attempt
    "key" VARCHAR(200) CHECK ("key" <> ''),
    "unique" VARCHAR(200) CHECK ("unique" <> ''),
    unique_while VARCHAR(10) NOT NULL DEFAULT 'alive' CHECK (unique_while IN ('waiting', 'alive')),
    unique_for DOUBLE NOT NULL DEFAULT 0,
    notify LONGTEXT CHECK (notify IS NULL OR (json_valid(notify) AND json_type(notify) = 'ARRAY')),
    checkpoint_at DOUBLE, -- stayer_checkpoints.at
    -- Null in most queues: see ../sqlite/schema.sql.
    share VARCHAR(200),

    -- Until when it holds its unique word, if it has one.
    unique_end DOUBLE GENERATED ALWAYS AS (
        CASE
            WHEN "unique" IS NULL THEN NULL
            WHEN state IN ('waiting', 'scheduled', 'pending') THEN 1e300
            WHEN state IN ('reserved', 'started') THEN if(unique_while = 'waiting', 0e0, 1e300)
            ELSE if(unique_for > 0, finished_at + unique_for, 0e0)
        END
    ) STORED,
    -- Which handler it needs, and the node that has it for itself.
    lane LONGTEXT GENERATED ALWAYS AS (concat(
        if(near_node IS NULL, '', concat('near ', octet_length(near_node), ' ', near_node, ' ')),
        CASE
            WHEN command IS NOT NULL THEN concat('command ', json_unquote(json_extract(command, '$[0]')) COLLATE {collation})
            WHEN name IS NOT NULL THEN concat('name ', name)
            ELSE ''
        END
    )) VIRTUAL,
    -- As an index can hold it: a program may have 4,096 characters.
    lane_key VARCHAR(300) GENERATED ALWAYS AS (
        if(char_length(lane) <= 260, lane, concat(left(lane, 260), ' ', md5(lane)))
    ) STORED,
    -- The same as the priority, but the best is the least: MariaDB has no descending indexes before 10.8.
    "rank" BIGINT GENERATED ALWAYS AS (-priority) STORED,
    -- The line in which it waits where there are lines: its share and key.
    line CHAR(32) CHARACTER SET ascii COLLATE ascii_bin GENERATED ALWAYS AS (
        if(share IS NULL, NULL, md5(concat(char_length(share), ' ', share, coalesce("key", ''))))
    ) STORED,

    -- The queue, while it can be taken; while it can be taken from a line; while it runs there.
    ready VARCHAR(200) GENERATED ALWAYS AS (if(state = 'pending' AND held = 0, queue, NULL)) STORED,
    ready_ranked VARCHAR(200) GENERATED ALWAYS AS (
        if(priority <> 0 AND state = 'pending' AND held = 0, queue, NULL)
    ) STORED,
    ready_lined VARCHAR(200) GENERATED ALWAYS AS (
        if(share IS NOT NULL AND state = 'pending' AND held = 0, queue, NULL)
    ) STORED,
    running_lined VARCHAR(200) GENERATED ALWAYS AS (
        if((share IS NOT NULL OR "key" IS NOT NULL) AND state IN ('reserved', 'started'), queue, NULL)
    ) STORED,
    -- The worker, while it has it.
    holder VARCHAR(500) GENERATED ALWAYS AS (if(state IN ('reserved', 'started'), worker, NULL)) STORED,
    -- When it becomes due; until when it has to have begun.
    due DOUBLE GENERATED ALWAYS AS (if(state = 'scheduled', eta, NULL)) STORED,
    expires DOUBLE GENERATED ALWAYS AS (
        if(state IN ('waiting', 'scheduled', 'pending'), start_before, NULL)
    ) STORED,
    -- State and queue of what has ended, and when the store heard of it, which no later one can be before.
    ended_in VARCHAR(210) GENERATED ALWAYS AS (
        if(finished_at IS NULL, NULL, concat(state, ' ', queue))
    ) STORED,
    ended DOUBLE GENERATED ALWAYS AS (if(finished_at IS NULL, NULL, updated)) STORED,
    -- When it ended, if its result is kept for others, maybe for longer than is usual.
    input_since DOUBLE GENERATED ALWAYS AS (
        if(dependents AND result IS NOT NULL AND finished_at IS NOT NULL, updated, NULL)
    ) STORED,
    near_pending VARCHAR(500) GENERATED ALWAYS AS (if(state = 'pending', near_node, NULL)) STORED,
    failed_at DOUBLE GENERATED ALWAYS AS (if(fingerprint IS NULL, NULL, finished_at)) STORED,
    flow_state VARCHAR(9) GENERATED ALWAYS AS (if(flow IS NULL, NULL, state)) STORED,

    UNIQUE KEY stayer_tasks_id (id),
    -- What can be taken, in the order in which it is. Statements that claim must go along these, or the
    -- database sorts, and locks all that it has read.
    KEY stayer_tasks_ready (ready, lane_key, "rank", created, seq, start_before),
    KEY stayer_tasks_ranked (ready_ranked, "rank", created, seq),
    KEY stayer_tasks_lines (ready_lined, lane_key, line, "rank", created, seq),
    KEY stayer_tasks_unique ("unique", queue, unique_end),
    KEY stayer_tasks_running_lined (running_lined),
    KEY stayer_tasks_due (due),
    KEY stayer_tasks_expires (expires),
    KEY stayer_tasks_holder (holder),
    KEY stayer_tasks_listing (queue, state, created, seq),
    KEY stayer_tasks_ended (ended_in, ended),
    KEY stayer_tasks_inputs (queue, input_since),
    KEY stayer_tasks_near (near_pending, near_until),
    KEY stayer_tasks_failures (fingerprint, queue, failed_at),
    KEY stayer_tasks_flow (flow, part, flow_state)
) {table};

CREATE TABLE IF NOT EXISTS stayer_schedules (
    name VARCHAR(200) PRIMARY KEY,
    cron VARCHAR(200) NOT NULL,
    zone VARCHAR(200) NOT NULL,
    task LONGTEXT NOT NULL, -- JSON object: what each tick submits
    overlap VARCHAR(200) NOT NULL,
    catch_up VARCHAR(200) NOT NULL,
    jitter DOUBLE NOT NULL,
    paused BOOLEAN NOT NULL,
    origin LONGTEXT, -- the file or app that declares it
    next DOUBLE,
    created DOUBLE NOT NULL,
    updated DOUBLE NOT NULL,
    last DOUBLE,
    last_task VARCHAR(256),
    waiting BOOLEAN NOT NULL DEFAULT 0, -- a tick waits for the end of what it has cancelled
    KEY stayer_schedules_due (paused, next),
    KEY stayer_schedules_task (last_task)
) {table};

-- What tasks are to run after. `waits` is 1 until the upstream's end was passed on to the task.
CREATE TABLE IF NOT EXISTS stayer_upstreams (
    task BIGINT NOT NULL, -- stayer_tasks.seq
    position BIGINT NOT NULL,
    upstream VARCHAR(256) NOT NULL, -- stayer_tasks.id
    anyhow TINYINT NOT NULL DEFAULT 0, -- 1: it need only have ended, and is no input; 2: since a retry
    waits BOOLEAN NOT NULL DEFAULT 1,
    PRIMARY KEY (task, position),
    KEY stayer_upstreams_waits (task, waits),
    KEY stayer_upstreams_waiters (upstream, waits, task)
) {table};

-- Tasks that have ended and whose dependents have not all heard of it.
CREATE TABLE IF NOT EXISTS stayer_outbox (
    id VARCHAR(256) PRIMARY KEY,
    state VARCHAR(9) NOT NULL, -- how it ended, should it be gone
    at DOUBLE NOT NULL,
    KEY stayer_outbox_at (at)
) {table};

-- What is to be told to somebody outside, and what was told. It outlives its task.
CREATE TABLE IF NOT EXISTS stayer_notices (
    seq BIGINT AUTO_INCREMENT PRIMARY KEY,
    id VARCHAR(300) NOT NULL,
    task VARCHAR(256) NOT NULL, -- stayer_tasks.id
    queue VARCHAR(200) NOT NULL,
    event VARCHAR(200) NOT NULL,
    "to" VARCHAR(2200) NOT NULL, -- the name of a hook, or a URL
    attempt BIGINT NOT NULL,
    at DOUBLE NOT NULL,
    state VARCHAR(9) NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    tries BIGINT NOT NULL DEFAULT 0,
    forgiven BIGINT NOT NULL DEFAULT 0, -- tries before the last retry
    since DOUBLE, -- when it was last retried
    next DOUBLE,
    said LONGTEXT,
    record LONGTEXT NOT NULL, -- JSON object: the task as it was
    hook VARCHAR(200) GENERATED ALWAYS AS (if(instr("to", '://') > 0, '', left("to", 200))) STORED,
    UNIQUE KEY stayer_notices_id (id),
    KEY stayer_notices_due (state, hook, next),
    KEY stayer_notices_old (state, at),
    KEY stayer_notices_task (task)
) {table};

CREATE TABLE IF NOT EXISTS stayer_flows (
    seq BIGINT AUTO_INCREMENT PRIMARY KEY,
    id VARCHAR(200) NOT NULL,
    name LONGTEXT NOT NULL,
    owner LONGTEXT,
    created DOUBLE NOT NULL,
    parts LONGTEXT NOT NULL, -- JSON array
    UNIQUE KEY stayer_flows_id (id)
) {table};

-- Older lines of a history, moved out of the task's row when it grows.
CREATE TABLE IF NOT EXISTS stayer_history (
    task BIGINT NOT NULL, -- stayer_tasks.seq
    "before" BIGINT NOT NULL, -- how many lines came before these
    count BIGINT NOT NULL,
    "lines" LONGTEXT NOT NULL,
    PRIMARY KEY (task, "before")
) {table};

-- What happened lately, to whoever watches: events of one kind that came together are one row. `number` is that of
-- the last of them for those who watch, and null until somebody has numbered what is committed (upkeep.py): what
-- commits later comes later, whoever began first. `seq` is drawn when all rows of the tasks concerned are locked, so
-- those of one task are in their order.
CREATE TABLE IF NOT EXISTS stayer_events (
    seq BIGINT AUTO_INCREMENT PRIMARY KEY,
    number BIGINT,
    at DOUBLE NOT NULL,
    ids LONGTEXT NOT NULL, -- JSON array; the id is '' where it happened to the queue
    queue VARCHAR(200) NOT NULL,
    event VARCHAR(200) NOT NULL,
    attempt BIGINT NOT NULL DEFAULT 0,
    worker VARCHAR(500),
    note LONGTEXT,
    KEY stayer_events_number (number)
) {table};

CREATE TABLE IF NOT EXISTS stayer_logs (
    task BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    start BIGINT NOT NULL,
    at DOUBLE NOT NULL,
    data LONGBLOB NOT NULL,
    PRIMARY KEY (task, attempt, start)
) {table};

-- What an attempt has used: a point in each slot of its time; in slot -1 what it has reported of itself.
CREATE TABLE IF NOT EXISTS stayer_usage (
    task BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    "usage" LONGTEXT NOT NULL, -- JSON object
    PRIMARY KEY (task, attempt, slot)
) {table};

CREATE TABLE IF NOT EXISTS stayer_checkpoints (
    task BIGINT PRIMARY KEY,
    attempt BIGINT NOT NULL,
    at DOUBLE NOT NULL,
    data LONGBLOB NOT NULL
) {table};

-- What was sent along with tasks, by its hash.
CREATE TABLE IF NOT EXISTS stayer_files (
    sha256 VARCHAR(64) PRIMARY KEY,
    at DOUBLE NOT NULL, -- when somebody last put it, or found it to be in use
    data LONGBLOB NOT NULL
) {table};

CREATE TABLE IF NOT EXISTS stayer_workers (
    id VARCHAR(500) PRIMARY KEY,
    node VARCHAR(500) NOT NULL,
    pid BIGINT NOT NULL,
    queues LONGTEXT NOT NULL, -- JSON array
    slots BIGINT NOT NULL,
    version VARCHAR(200) NOT NULL,
    draining BOOLEAN NOT NULL,
    lease DOUBLE NOT NULL,
    keeps BOOLEAN NOT NULL DEFAULT 0,
    handles LONGTEXT, -- JSON object; null if it did not say what it can run
    drain BOOLEAN NOT NULL DEFAULT 0, -- somebody wants it to take no more
    number BIGINT NOT NULL,
    nonce VARCHAR(200) NOT NULL,
    started_at DOUBLE NOT NULL,
    beat_at DOUBLE NOT NULL,
    lease_end DOUBLE NOT NULL,
    dead BOOLEAN NOT NULL DEFAULT 0,
    watched_until DOUBLE NOT NULL DEFAULT 0,
    times_watched BIGINT NOT NULL DEFAULT 0,
    worker_order LONGTEXT -- JSON object: what an operator wants of it
) {table};

-- What queues did in a stretch of time; the queue '' is all of them together.
CREATE TABLE IF NOT EXISTS stayer_figures (
    step BIGINT NOT NULL, -- its length in seconds: 60, 3600 or 86400
    at DOUBLE NOT NULL,
    queue VARCHAR(200) NOT NULL,
    depth BIGINT,
    running BIGINT,
    age DOUBLE,
    submitted BIGINT NOT NULL,
    complete BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    cancelled BIGINT NOT NULL,
    ran DOUBLE NOT NULL,
    waited DOUBLE NOT NULL,
    PRIMARY KEY (step, at, queue)
) {table};

-- Ids of tasks that are gone, refused until they are forgotten.
CREATE TABLE IF NOT EXISTS stayer_purged (
    id VARCHAR(256) PRIMARY KEY,
    queue VARCHAR(200) NOT NULL,
    state VARCHAR(9) NOT NULL,
    created DOUBLE NOT NULL,
    finished_at DOUBLE,
    at DOUBLE NOT NULL,
    KEY stayer_purged_at (at)
) {table};

-- Queues with their counters. One whose tasks have just come, maybe in a transaction that was open for long, has
-- counters before it has a row.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW stayer_counted AS
SELECT
    n.name, coalesce(q.paused, 0) AS paused, q."limit", q.key_limit, q.key_limits, q.rate, q.rate_per, q.tokens,
    q.tokens_at, q.fair, coalesce(q.lined, 0) AS lined, q.retention, q.notify,
    coalesce(c.waiting, 0) AS waiting, coalesce(c.scheduled, 0) AS scheduled, coalesce(c.pending, 0) AS pending,
    coalesce(c.reserved, 0) AS reserved, coalesce(c.started, 0) AS started, coalesce(c.complete, 0) AS complete,
    coalesce(c.failed, 0) AS failed, coalesce(c.cancelled, 0) AS cancelled
FROM (
    SELECT name FROM stayer_queues
    UNION
    SELECT queue FROM stayer_counts GROUP BY queue
    HAVING sum(waiting + scheduled + pending + reserved + started + complete + failed + cancelled) <> 0
) AS n
LEFT JOIN stayer_queues AS q ON q.name = n.name
LEFT JOIN (
    SELECT
        queue, CAST(sum(waiting) AS SIGNED) AS waiting, CAST(sum(scheduled) AS SIGNED) AS scheduled,
        CAST(sum(pending) AS SIGNED) AS pending, CAST(sum(reserved) AS SIGNED) AS reserved,
        CAST(sum(started) AS SIGNED) AS started, CAST(sum(complete) AS SIGNED) AS complete,
        CAST(sum(failed) AS SIGNED) AS failed, CAST(sum(cancelled) AS SIGNED) AS cancelled
    FROM stayer_counts GROUP BY queue
) AS c ON c.queue = n.name;

CREATE TRIGGER stayer_task_by_hand BEFORE INSERT ON stayer_tasks FOR EACH ROW
BEGIN
    -- revision {revision}
    -- Stayer's own rows pass by here too, thousands at a time: what they don't need is in the inner block.
    IF NEW.updated IS NOT NULL THEN
        IF @stayer_by_hand IS NOT NULL THEN
            SET @stayer_by_hand = NULL;
        END IF;
    ELSE BEGIN
        DECLARE given BIGINT;
        DECLARE usual LONGTEXT;
        DECLARE finish DOUBLE;
        SET @stayer_by_hand = NULL;
        IF NEW.name IS NOT NULL AND NEW.command IS NOT NULL THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: a task has either a name or a command, not both';
        END IF;
        IF EXISTS (
            SELECT 1 FROM json_table(coalesce(NEW.command, '[]'), '$[*]' COLUMNS (word JSON PATH '$')) AS words
            WHERE json_type(words.word) <> 'STRING'
        ) THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: the words of a command have to be text';
        END IF;
        IF EXISTS (
            SELECT 1 FROM json_table(coalesce(NEW.env, '{}'), '$.*' COLUMNS (word JSON PATH '$')) AS words
            WHERE json_type(words.word) <> 'STRING'
        ) THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: the values of env have to be text';
        END IF;
        IF EXISTS (
            SELECT 1 FROM json_table(coalesce(NEW.tags, '[]'), '$[*]' COLUMNS (word JSON PATH '$')) AS words
            WHERE json_type(words.word) <> 'STRING'
        ) OR EXISTS (
            SELECT 1 FROM json_table(coalesce(NEW.notify, '[]'), '$[*]' COLUMNS (word JSON PATH '$')) AS words
            WHERE json_type(words.word) <> 'STRING'
        ) THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: tags, and hooks in notify, have to be text';
        END IF;
        IF NEW.policy IS NOT NULL AND NOT if(json_valid(NEW.policy), json_type(NEW.policy) = 'OBJECT', 0) THEN
            SIGNAL SQLSTATE '45000'
            SET MESSAGE_TEXT = 'stayer: policy has to be a JSON object, such as {"retries": 3}';
        END IF;
        IF EXISTS (
            SELECT 1
            FROM json_table(
                json_keys(coalesce(NEW.policy, '{}')), '$[*]' COLUMNS (field VARCHAR(200) PATH '$')
            ) AS fields
            WHERE CAST(fields.field AS BINARY) NOT IN ({policy fields})
        ) THEN
            SIGNAL SQLSTATE '45000'
            SET MESSAGE_TEXT = 'stayer: policy has a field that there is not: see docs/reference/tables.md';
        END IF;
        IF NEW.policy IS NOT NULL AND NOT ({policy kinds}) THEN
            SIGNAL SQLSTATE '45000'
            SET MESSAGE_TEXT = 'stayer: policy has a field of another kind: numbers are numbers from 0 on';
        END IF;
        {texts}
        IF greatest(
            abs(coalesce(NEW.created, 0)), abs(coalesce(NEW.eta, 0)), abs(coalesce(NEW.start_before, 0)),
            abs(coalesce(NEW.started_at, 0)), abs(coalesce(NEW.finished_at, 0)), abs(coalesce(NEW.near_until, 0)),
            abs(coalesce(NEW.checkpoint_at, 0)), abs(coalesce(NEW.unique_for, 0))
        ) > 1e13 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: moments are epoch seconds, up to 1e13';
        END IF;
        IF octet_length(concat(
            coalesce(NEW.command, ''), coalesce(NEW.cwd, ''), coalesce(NEW.env, ''), coalesce(NEW.tags, ''),
            coalesce(NEW.notify, ''), coalesce(NEW.policy, ''), coalesce(NEW.code, ''), coalesce(NEW.meta, ''),
            coalesce(NEW.cloned_from, ''), coalesce(NEW.submitted_by, ''), coalesce(NEW.source_commit, '')
        )) > 64000 THEN
            SIGNAL SQLSTATE '45000'
            SET MESSAGE_TEXT = 'stayer: a task has at most 64,000 bytes without its parameters';
        END IF;
        IF octet_length(NEW.parameters) > 1000000 THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: parameters have at most 1 MB';
        END IF;
        IF NEW.state <> 'pending' THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: leave out the state of a task that you insert';
        END IF;
        IF left(NEW.id, 1) = '-' OR NEW.id IN ('.', '..') THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stayer: an id may not begin with -, nor be . or ..';
        END IF;
        IF EXISTS (SELECT 1 FROM stayer_purged WHERE id = NEW.id AND at > {now} - 30 * 86400) THEN
            SIGNAL SQLSTATE '45000'
            SET MESSAGE_TEXT = 'stayer: a task with this id has been here and was purged';
        END IF;
        IF NEW."unique" IS NOT NULL THEN
            INSERT INTO stayer_words VALUES (NEW.queue, NEW."unique") ON DUPLICATE KEY UPDATE word = word;
            DELETE FROM stayer_words WHERE queue = NEW.queue AND word = NEW."unique";
            IF EXISTS (
                SELECT 1 FROM stayer_tasks
                WHERE queue = NEW.queue AND "unique" = NEW."unique" AND unique_end > {now} LOCK IN SHARE MODE
            ) THEN
                SIGNAL SQLSTATE '45000'
                SET MESSAGE_TEXT = 'stayer: another task of this queue holds this unique word';
            END IF;
        END IF;
        INSERT INTO stayer_numbers VALUES ();
        SET given = last_insert_id() * {numbers};
        DELETE FROM stayer_numbers WHERE number = last_insert_id();
        SET NEW.created = coalesce(NEW.created, {now});
        SET NEW.updated = NEW.created;
        SET NEW.state = if(NEW.eta > NEW.created, 'scheduled', 'pending');
        SET NEW.history = concat('[', given, ',', NEW.created, ',"', NEW.state, '"]\n');
        SET NEW.share = (
            SELECT CASE fair WHEN 'owner' THEN coalesce(NEW.owner, '') WHEN 'key' THEN coalesce(NEW."key", '')
                ELSE '' END
            FROM stayer_queues WHERE name = NEW.queue AND lined
        );
        -- As core/submit/defaults.py and core/submit/fresh.py have it.
        SET usual = (SELECT defaults FROM stayer_queues WHERE name = NEW.queue);
        IF usual IS NOT NULL THEN
            SET NEW.policy = coalesce(NEW.policy, '{}');
            {queue defaults}
        END IF;
        SET finish = NEW.created + if(
            CAST(json_type(json_extract(NEW.policy, '$.deadline')) AS BINARY) = 'NULL', NULL,
            json_extract(NEW.policy, '$.deadline') + 0
        );
        SET NEW.finish_before = finish;
        SET NEW.start_before = if(finish < coalesce(NEW.start_before, finish + 1), finish, NEW.start_before);
        -- The next trigger does the rest, if the row comes into the table.
        SET @stayer_by_hand = NEW.id;
    END;
    END IF;
END;

CREATE TRIGGER stayer_task_came_by_hand AFTER INSERT ON stayer_tasks FOR EACH ROW
BEGIN
    -- revision {revision}
    IF @stayer_by_hand <=> NEW.id THEN
        SET @stayer_by_hand = NULL;
        INSERT INTO stayer_events (at, ids, queue, event)
        VALUES (NEW.created, json_array(NEW.id), NEW.queue, NEW.state);
        INSERT INTO stayer_counts (queue, scheduled, pending, wakes)
        VALUES (NEW.queue, NEW.state = 'scheduled', NEW.state = 'pending', 1 + floor(rand() * 1e9));
    END IF;
END;

CREATE TRIGGER stayer_task_deleted AFTER DELETE ON stayer_tasks FOR EACH ROW
BEGIN
    -- revision {revision}
    INSERT INTO stayer_events (at, ids, queue, event, attempt)
    VALUES (
        coalesce(@stayer_now, {now}), json_array(OLD.id), OLD.queue, 'deleted', OLD.attempt
    );
    INSERT INTO stayer_counts (
        queue, waiting, scheduled, pending, reserved, started, complete, failed, cancelled, wakes
    ) VALUES (
        OLD.queue, -(OLD.state = 'waiting'), -(OLD.state = 'scheduled'), -(OLD.state = 'pending'),
        -(OLD.state = 'reserved'), -(OLD.state = 'started'), -(OLD.state = 'complete'), -(OLD.state = 'failed'),
        -(OLD.state = 'cancelled'), if(OLD.state IN ('reserved', 'started'), 1 + floor(rand() * 1e9), 0)
    );
    DELETE FROM stayer_history WHERE task = OLD.seq;
    DELETE FROM stayer_logs WHERE task = OLD.seq;
    DELETE FROM stayer_usage WHERE task = OLD.seq;
    DELETE FROM stayer_checkpoints WHERE task = OLD.seq;
    DELETE FROM stayer_upstreams WHERE task = OLD.seq;
    IF OLD.dependents AND EXISTS (SELECT 1 FROM stayer_upstreams WHERE upstream = OLD.id AND waits) THEN
        INSERT INTO stayer_outbox (id, state, at)
        VALUES (OLD.id, if(OLD.finished_at IS NULL, 'cancelled', OLD.state), coalesce(@stayer_now, {now}))
        ON DUPLICATE KEY UPDATE state = VALUES(state);
    END IF;
    IF OLD.flow IS NOT NULL AND NOT EXISTS (SELECT 1 FROM stayer_tasks WHERE flow = OLD.flow) THEN
        DELETE FROM stayer_flows WHERE id = OLD.flow;
    END IF;
END;
