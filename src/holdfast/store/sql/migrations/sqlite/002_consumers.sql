-- What consumers, pools and schedules need beside the messages.

-- How the checks of a message's commitments went, attempt by attempt.
CREATE TABLE holdfast_commitment (
    message_id BLOB    NOT NULL,
    attempt    INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    group_id   INTEGER NOT NULL REFERENCES holdfast_group (id),
    name       TEXT    NOT NULL,
    passed     INTEGER NOT NULL,
    code       INTEGER,
    output     TEXT    NOT NULL,
    checked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (message_id, attempt, place)
) WITHOUT ROWID;

CREATE INDEX holdfast_commitment_expires ON holdfast_commitment (group_id, expires_at);

-- Running consumers, as they last told of themselves. Who has not told again by `valid_until` is dead.
CREATE TABLE holdfast_worker (
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    consumer    TEXT    NOT NULL,
    pool        TEXT,
    host        TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    labels      BLOB    NOT NULL,
    queues      BLOB    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('working', 'idle', 'hibernating', 'draining')),
    concurrency INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    valid_until INTEGER NOT NULL,
    saturation  REAL    NOT NULL,
    handled     INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    work        BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE INDEX holdfast_worker_age ON holdfast_worker (tenant, valid_until);

-- What was changed about the queues that a consumer takes from. NULL is what its code says.
CREATE TABLE holdfast_attachment (
    tenant     TEXT    NOT NULL,
    consumer   TEXT    NOT NULL,
    queue      TEXT    NOT NULL,
    attached   INTEGER NOT NULL,
    weight     REAL,
    empty      TEXT    CHECK (empty IN ('poll', 'hibernate', 'terminate')),
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, consumer, queue)
) WITHOUT ROWID;

-- The seats of a pool: one row for each number that is, or was, held. It counts until `until`.
CREATE TABLE holdfast_seat (
    tenant TEXT    NOT NULL,
    pool   TEXT    NOT NULL,
    number INTEGER NOT NULL,
    worker TEXT    NOT NULL,
    token  BLOB    NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (tenant, pool, number)
) WITHOUT ROWID;

-- Who does what only one may do at a time, and until when.
CREATE TABLE holdfast_leader (
    tenant TEXT    NOT NULL,
    duty   TEXT    NOT NULL,
    worker TEXT    NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (tenant, duty)
) WITHOUT ROWID;

-- What a message has taken so far: since when, how much, the last thing that its holder (by token) did and how many times in a row. `report` is
-- the id of the last report. From `look_at` on, a sweep looks whether the message is still there.
CREATE TABLE holdfast_effort (
    group_id   INTEGER NOT NULL REFERENCES holdfast_group (id),
    message_id BLOB    NOT NULL,
    started_at INTEGER NOT NULL,
    spent      REAL    NOT NULL DEFAULT 0,
    action     TEXT,
    repeats    INTEGER NOT NULL DEFAULT 0,
    token      INTEGER,
    report     BLOB,
    session    TEXT,
    look_at    INTEGER NOT NULL,
    PRIMARY KEY (group_id, message_id)
) WITHOUT ROWID;

CREATE INDEX holdfast_effort_look ON holdfast_effort (group_id, look_at);

-- What the messages of a queue have spent together, and the report that paused the queue because it was too much.
CREATE TABLE holdfast_budget (
    group_id  INTEGER PRIMARY KEY REFERENCES holdfast_group (id),
    spent     REAL    NOT NULL,
    paused_by BLOB
);

-- Messages that are sent by the clock. `next_at` is the slot to fire next; `due_at` is when to look, which is later while its queue
-- is full, and never while it is paused. `set_at` is when they were worked out: if that is in the future, the clock was set back.
CREATE TABLE holdfast_schedule (
    tenant     TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    spec       BLOB    NOT NULL,
    created_at INTEGER NOT NULL,
    next_at    INTEGER,
    due_at     INTEGER,
    set_at     INTEGER NOT NULL,
    paused     INTEGER NOT NULL DEFAULT 0,
    last_slot  INTEGER,
    last_at    INTEGER,
    error      TEXT,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

CREATE INDEX holdfast_schedule_due ON holdfast_schedule (tenant, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX holdfast_schedule_set ON holdfast_schedule (tenant, set_at) WHERE due_at IS NOT NULL;
