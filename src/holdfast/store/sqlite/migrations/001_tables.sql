-- Times are microseconds since 1970 (UTC); ids are the 16 bytes of a UUIDv7; body and headers are UTF-8 JSON.

CREATE TABLE holdfast_channel (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('queue', 'topic')),
    spec        BLOB    NOT NULL,
    declared_at INTEGER NOT NULL,
    UNIQUE (tenant, name)
);

-- Who reads a channel. A queue has exactly one group, without a name. `limited` is 1 if there is a limit on how often its
-- messages may be claimed, 2 if (also) on how many are held, so that the end of a claim makes room.
CREATE TABLE holdfast_group (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    channel_id INTEGER NOT NULL REFERENCES holdfast_channel (id),
    name       TEXT    NOT NULL DEFAULT '',
    history    INTEGER NOT NULL DEFAULT 0,
    paused     INTEGER NOT NULL DEFAULT 0,
    limited    INTEGER NOT NULL DEFAULT 0,
    UNIQUE (channel_id, name)
);

-- The limits of a group that has any. `turn` is the key that was the last to have its turn when the keys were gone
-- through; NULL is the turn of those without one, before the first key.
CREATE TABLE holdfast_limit (
    group_id        INTEGER PRIMARY KEY REFERENCES holdfast_group (id),
    concurrency     INTEGER,
    rate_count      INTEGER,
    rate_per        INTEGER,
    key_concurrency INTEGER,
    key_rate_count  INTEGER,
    key_rate_per    INTEGER,
    turn            TEXT
);

-- How many messages of a limited group ('') or of one key of it ('=' and the key) were claimed, and when the last of them: one row
-- for all that began in the same 64th of the rate's time.
CREATE TABLE holdfast_start (
    group_id INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    slot     INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (group_id, key, slot)
) WITHOUT ROWID;

CREATE INDEX holdfast_start_at ON holdfast_start (group_id, at);

-- Numbers that are never given out twice, whatever is deleted.
CREATE TABLE holdfast_counter (
    name  TEXT    PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO holdfast_counter (name, value) VALUES ('token', 0);

-- Lane engine. A lane (channel x priority) owns a block of positions; `tail` is the last one given out.
CREATE TABLE holdfast_lane (
    lane INTEGER PRIMARY KEY,
    tail INTEGER NOT NULL
);

CREATE TABLE holdfast_message (
    position       INTEGER PRIMARY KEY,
    id             BLOB    NOT NULL,
    body           BLOB    NOT NULL,
    headers        BLOB,
    key            TEXT,
    correlation_id TEXT,
    reply_to       TEXT,
    expires_at     INTEGER,
    enqueued_at    INTEGER NOT NULL
);

CREATE UNIQUE INDEX holdfast_message_id ON holdfast_message (id);
CREATE INDEX holdfast_message_key ON holdfast_message (key, id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_message_correlation ON holdfast_message (correlation_id, id) WHERE correlation_id IS NOT NULL;

-- How often a channel was rung by transactions that others commit; sleepers look here when the file has changed.
CREATE TABLE holdfast_ring (
    channel_id INTEGER PRIMARY KEY,
    count      INTEGER NOT NULL
);

-- How far a group has claimed a lane: everything up to `position` is in a run, settled, or moved to a row.
CREATE TABLE holdfast_cursor (
    group_id INTEGER NOT NULL REFERENCES holdfast_group (id),
    lane     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (group_id, lane)
) WITHOUT ROWID;

-- One lease for a whole run. Once it is split, `settled` has a bit per member whose claim has ended, and `gone` one
-- per member that left the lane.
CREATE TABLE holdfast_run (
    token       INTEGER PRIMARY KEY,
    group_id    INTEGER NOT NULL REFERENCES holdfast_group (id),
    lane        INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    size        INTEGER NOT NULL CHECK (size > 0),
    settled     BLOB,
    gone        BLOB,
    until       INTEGER NOT NULL,
    worker      TEXT    NOT NULL,
    finished_at INTEGER
);

CREATE INDEX holdfast_run_open ON holdfast_run (group_id, until) WHERE finished_at IS NULL;
CREATE INDEX holdfast_run_finished ON holdfast_run (group_id, finished_at) WHERE finished_at IS NOT NULL;

-- Row engine: messages that need a state of their own.
CREATE TABLE holdfast_row (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id       INTEGER NOT NULL REFERENCES holdfast_group (id),
    id             BLOB    NOT NULL,
    lane           INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('pending', 'processing', 'succeeded', 'canceled', 'expired')),
    due_at         INTEGER NOT NULL,
    attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    alone          INTEGER NOT NULL DEFAULT 0,
    order_key      TEXT    NOT NULL DEFAULT '',
    head           INTEGER NOT NULL DEFAULT 1,
    token          INTEGER,
    until          INTEGER,
    worker         TEXT,
    finished_at    INTEGER,
    errors         BLOB,
    replay_of      BLOB,
    body           BLOB    NOT NULL,
    headers        BLOB,
    key            TEXT,
    correlation_id TEXT,
    reply_to       TEXT,
    expires_at     INTEGER,
    enqueued_at    INTEGER NOT NULL,
    CHECK ((state = 'processing') = (token IS NOT NULL)),
    CHECK ((state = 'processing') = (until IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'canceled', 'expired')) = (finished_at IS NOT NULL)),
    CHECK (head = 1 OR state <> 'processing')
);

CREATE UNIQUE INDEX holdfast_row_id ON holdfast_row (id, group_id);
CREATE INDEX holdfast_row_key ON holdfast_row (key, id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_row_correlation ON holdfast_row (correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX holdfast_row_due ON holdfast_row (group_id, lane, due_at, seq) WHERE state = 'pending' AND head = 1;
CREATE INDEX holdfast_row_turn ON holdfast_row (group_id, lane, key, due_at, seq) WHERE state = 'pending' AND head = 1;
CREATE INDEX holdfast_row_alone ON holdfast_row (group_id, due_at, seq) WHERE state = 'pending' AND head = 1 AND alone = 1;
CREATE INDEX holdfast_row_leased ON holdfast_row (group_id, until) WHERE state = 'processing';
CREATE INDEX holdfast_row_finished ON holdfast_row (group_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX holdfast_row_expires ON holdfast_row (group_id, expires_at, seq) WHERE state = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX holdfast_row_age ON holdfast_row (group_id, enqueued_at, seq) WHERE state = 'pending';
CREATE INDEX holdfast_row_order ON holdfast_row (group_id, order_key, seq) WHERE order_key <> '' AND finished_at IS NULL;

-- Keys whose head has died where the queue says that the others have to wait for someone's decision.
CREATE TABLE holdfast_blocked (
    group_id   INTEGER NOT NULL REFERENCES holdfast_group (id),
    order_key  TEXT    NOT NULL,
    dead_id    BLOB    NOT NULL,
    blocked_at INTEGER NOT NULL,
    PRIMARY KEY (group_id, order_key)
) WITHOUT ROWID;

-- How many messages a queue may have waiting, and a number that the truth is never above.
CREATE TABLE holdfast_depth (
    channel_id INTEGER PRIMARY KEY REFERENCES holdfast_channel (id),
    bound      INTEGER NOT NULL,
    most       INTEGER NOT NULL,
    settled_at INTEGER NOT NULL
);

-- What was enqueued under a key, so that a second time finds the first.
CREATE TABLE holdfast_idempotency (
    channel_id INTEGER NOT NULL REFERENCES holdfast_channel (id),
    key        TEXT    NOT NULL,
    message_id BLOB    NOT NULL,
    digest     BLOB    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (channel_id, key)
) WITHOUT ROWID;

CREATE INDEX holdfast_idempotency_expires ON holdfast_idempotency (channel_id, expires_at);
CREATE INDEX holdfast_idempotency_message ON holdfast_idempotency (message_id);

-- What consumers gave back with an ack.
CREATE TABLE holdfast_result (
    message_id BLOB    PRIMARY KEY,
    group_id   INTEGER NOT NULL REFERENCES holdfast_group (id),
    result     BLOB    NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast_result_expires ON holdfast_result (group_id, expires_at);

-- Dead letters: a full copy, independent of everything above.
CREATE TABLE holdfast_dead (
    id             BLOB    PRIMARY KEY,
    tenant         TEXT    NOT NULL,
    channel_id     INTEGER NOT NULL REFERENCES holdfast_channel (id),
    group_id       INTEGER NOT NULL REFERENCES holdfast_group (id),
    message_id     BLOB    NOT NULL,
    lane           INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    error          TEXT    NOT NULL,
    errors         BLOB,
    failed_at      INTEGER NOT NULL,
    replayed_as    BLOB,
    replay_state   TEXT,
    replays        INTEGER NOT NULL DEFAULT 0,
    body           BLOB    NOT NULL,
    headers        BLOB,
    key            TEXT,
    correlation_id TEXT,
    reply_to       TEXT,
    enqueued_at    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast_dead_channel ON holdfast_dead (channel_id, id);
CREATE INDEX holdfast_dead_age ON holdfast_dead (channel_id, failed_at);
CREATE INDEX holdfast_dead_message ON holdfast_dead (message_id);
CREATE INDEX holdfast_dead_key ON holdfast_dead (key, message_id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_dead_correlation ON holdfast_dead (correlation_id, message_id) WHERE correlation_id IS NOT NULL;

-- Who did what to dead letters, and to how many.
CREATE TABLE holdfast_audit (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    act    TEXT    NOT NULL,
    queue  TEXT   ,
    about  BLOB    NOT NULL,
    count  INTEGER NOT NULL
);

CREATE INDEX holdfast_audit_tenant ON holdfast_audit (tenant, id);

-- Who answers for dead letters.
CREATE TABLE holdfast_owner (
    tenant TEXT NOT NULL,
    name   TEXT NOT NULL,
    spec   BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID;

-- Someone has to look at a dead letter, or at what `about` names. `owner` is '' where there is none; `deliver_at` is set while it waits
-- for a digest; `repeats` is how often the same was reported again before anyone answered.
CREATE TABLE holdfast_notice (
    id              BLOB    PRIMARY KEY,
    tenant          TEXT    NOT NULL,
    kind            TEXT    NOT NULL DEFAULT 'dead_letter',
    about           TEXT,
    channel_id      INTEGER REFERENCES holdfast_channel (id),
    dead_id         BLOB,
    message_id      BLOB,
    owner           TEXT    NOT NULL,
    level           INTEGER NOT NULL DEFAULT 0,
    error           TEXT    NOT NULL,
    attempts        INTEGER NOT NULL,
    repeats         INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    climb_at        INTEGER,
    deliver_at      INTEGER,
    telling_until   INTEGER,
    told_at         INTEGER,
    acknowledged_at INTEGER,
    acknowledged_by TEXT,
    remark          TEXT
) WITHOUT ROWID;

CREATE INDEX holdfast_notice_climb ON holdfast_notice (tenant, climb_at) WHERE climb_at IS NOT NULL;
CREATE INDEX holdfast_notice_deliver ON holdfast_notice (tenant, deliver_at) WHERE deliver_at IS NOT NULL;
CREATE INDEX holdfast_notice_untold ON holdfast_notice (tenant, id) WHERE told_at IS NULL AND acknowledged_at IS NULL;
CREATE INDEX holdfast_notice_tenant ON holdfast_notice (tenant, id);
CREATE INDEX holdfast_notice_dead ON holdfast_notice (dead_id);
CREATE INDEX holdfast_notice_about ON holdfast_notice (tenant, kind, about) WHERE about IS NOT NULL;
CREATE UNIQUE INDEX holdfast_notice_open ON holdfast_notice (tenant, kind, about) WHERE about IS NOT NULL AND acknowledged_at IS NULL;
CREATE INDEX holdfast_notice_age ON holdfast_notice (channel_id, created_at);

-- How many messages came, ended, died (less those whose dead letters were removed), were claimed, acked, failed and lost by silence, for
-- how long the acked ones were worked on, and how many are kept as history: per second and session. Second 0 has what is long ago.
CREATE TABLE holdfast_tally (
    group_id  INTEGER NOT NULL,
    second    INTEGER NOT NULL,
    slot      INTEGER NOT NULL,
    arrived   INTEGER NOT NULL DEFAULT 0,
    ended     INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    claimed   INTEGER NOT NULL DEFAULT 0,
    completed INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    lapsed    INTEGER NOT NULL DEFAULT 0,
    busy      INTEGER NOT NULL DEFAULT 0,
    kept      INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, second, slot)
) WITHOUT ROWID;

-- Who asked a group for work, and when last.
CREATE TABLE holdfast_consumer (
    group_id INTEGER NOT NULL REFERENCES holdfast_group (id),
    worker   TEXT    NOT NULL,
    seen_at  INTEGER NOT NULL,
    PRIMARY KEY (group_id, worker)
) WITHOUT ROWID;
