-- Times are microseconds since 1970 (UTC); ids are the 16 bytes of a UUIDv7; body and headers are UTF-8 JSON.

CREATE TABLE holdfast_channel (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant      TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    kind        TEXT    NOT NULL CHECK (kind IN ('queue', 'topic', 'group')),
    owns        INTEGER NOT NULL DEFAULT 0,
    spec        BLOB    NOT NULL,
    declared_at INTEGER NOT NULL,
    UNIQUE (tenant, name)
);

-- Who reads a channel. A queue has exactly one group, without a name. A topic's groups are channels of their own, called topic/group,
-- which read the lanes of another channel, their `source`, and of those only messages whose topic is `wanted` (a regular
-- expression; NULL is all). What they read is not theirs to remove. A group that is `fed` has its part copied into rows, which are
-- claimed in this order. `limited` is 1 if there is a limit on how often its messages may be claimed, 2 if (also) on how many are
-- held, so that the end of a claim makes room.
-- A topic's group has ended at `ended_at`; one that was canceled is still shown, and its name is not free until it is removed.
-- `beat_at` is when a topic's group was last heard of (and holdfast_consumer), `misses` how often it was not when someone looked, the last time
-- at `missed_at`; from `dead_at` on nothing is kept for it; `deaths` and `revivals` count how often that was so. `lost` is how many messages retention took from it, `missing` how many of
-- those while it was dead: it claims nothing until someone has decided about them. `past` is how many
-- messages were there that it wanted, when it was put where it began. `paused` groups are handed nothing: someone has `stopped` them, or their budget is spent.
CREATE TABLE holdfast_group (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    channel_id INTEGER NOT NULL REFERENCES holdfast_channel (id),
    name       TEXT    NOT NULL DEFAULT '',
    history    INTEGER NOT NULL DEFAULT 0,
    paused     INTEGER NOT NULL DEFAULT 0,
    stopped    INTEGER NOT NULL DEFAULT 0,
    limited    INTEGER NOT NULL DEFAULT 0,
    source     INTEGER,
    wanted     TEXT,
    fed        TEXT CHECK (fed IN ('unordered', 'per_key', 'fifo')),
    ended_at   INTEGER,
    canceled_at INTEGER,
    beat_at    INTEGER NOT NULL DEFAULT 0,
    misses     INTEGER NOT NULL DEFAULT 0,
    missed_at  INTEGER,
    dead_at    INTEGER,
    deaths     INTEGER NOT NULL DEFAULT 0,
    revivals   INTEGER NOT NULL DEFAULT 0,
    lost       INTEGER NOT NULL DEFAULT 0,
    lost_at    INTEGER,
    missing    INTEGER NOT NULL DEFAULT 0,
    past       INTEGER NOT NULL DEFAULT 0,
    delivery   TEXT    NOT NULL DEFAULT 'database' CHECK (delivery IN ('database', 'sqs')),
    UNIQUE (channel_id, name)
);

CREATE INDEX holdfast_group_source ON holdfast_group (source) WHERE source IS NOT NULL;

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
    catch_up_count  INTEGER,
    catch_up_per    INTEGER,
    turn            TEXT
);

-- How many messages of a limited group (''), of its past ('<') or of one key of it ('=' and the key) were claimed, and when the last of them: one row
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

-- Lane engine. A lane (channel x priority) owns a block of positions; `tail` is the last one given out. Up to `thin_to` a topic's
-- lane may have holes: what goes is older, except where someone still holds what is before it.
CREATE TABLE holdfast_lane (
    lane    INTEGER PRIMARY KEY,
    tail    INTEGER NOT NULL,
    thin_to INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE holdfast_message (
    position       INTEGER PRIMARY KEY,
    id             BLOB    NOT NULL,
    body           BLOB    NOT NULL,
    headers        BLOB,
    key            TEXT,
    correlation_id TEXT,
    reply_to       TEXT,
    topic          TEXT,
    expires_at     INTEGER,
    enqueued_at    INTEGER NOT NULL
);

CREATE UNIQUE INDEX holdfast_message_id ON holdfast_message (id);
CREATE INDEX holdfast_message_expires ON holdfast_message (position >> 40, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX holdfast_message_key ON holdfast_message (key, id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_message_correlation ON holdfast_message (correlation_id, id) WHERE correlation_id IS NOT NULL;

-- How often a channel was rung by transactions that others commit; sleepers look here when the file has changed.
CREATE TABLE holdfast_ring (
    channel_id INTEGER PRIMARY KEY,
    count      INTEGER NOT NULL
);

-- How far a group has claimed a lane: everything up to `position` is in a run, settled, or moved to a row. Up to `live_from`, it was
-- there before a topic's group was put where it began.
CREATE TABLE holdfast_cursor (
    group_id INTEGER NOT NULL REFERENCES holdfast_group (id),
    lane     INTEGER NOT NULL,
    position INTEGER NOT NULL,
    live_from INTEGER NOT NULL DEFAULT 0,
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
    claimed_at  INTEGER NOT NULL,
    finished_at INTEGER
);

CREATE INDEX holdfast_run_open ON holdfast_run (group_id, until) WHERE finished_at IS NULL;
CREATE INDEX holdfast_run_finished ON holdfast_run (group_id, finished_at) WHERE finished_at IS NOT NULL;

-- Row engine: messages that need a state of their own. `saga` says which step of which saga one is sent for. Where SQS delivers, a
-- message is handed over as a pointer, its id and `generation`, which grows every time: it is `sending` (still pending, and nobody else's
-- to send) until SQS has confirmed that, at the latest until `until`; then `enqueued` since `handed_at`, and somebody asks after it at `until`.
CREATE TABLE holdfast_row (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id       INTEGER NOT NULL REFERENCES holdfast_group (id),
    id             BLOB    NOT NULL,
    lane           INTEGER NOT NULL,
    state          TEXT    NOT NULL CHECK (state IN ('pending', 'sending', 'enqueued', 'processing', 'succeeded',
                                                            'canceled', 'expired')),
    due_at         INTEGER NOT NULL,
    attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    alone          INTEGER NOT NULL DEFAULT 0,
    order_key      TEXT    NOT NULL DEFAULT '',
    head           INTEGER NOT NULL DEFAULT 1,
    token          INTEGER,
    until          INTEGER,
    worker         TEXT,
    claimed_at     INTEGER,
    finished_at    INTEGER,
    errors         BLOB,
    replay_of      BLOB,
    body           BLOB    NOT NULL,
    headers        BLOB,
    key            TEXT,
    correlation_id TEXT,
    reply_to       TEXT,
    topic          TEXT,
    expires_at     INTEGER,
    enqueued_at    INTEGER NOT NULL,
    saga           TEXT,
    unwanted       INTEGER NOT NULL DEFAULT 0,
    generation     INTEGER NOT NULL DEFAULT 0,
    handed_at      INTEGER,
    CHECK ((state = 'processing') = (token IS NOT NULL)),
    CHECK ((state IN ('sending', 'enqueued', 'processing')) = (until IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'canceled', 'expired')) = (finished_at IS NOT NULL)),
    CHECK (head = 1 OR state NOT IN ('sending', 'enqueued', 'processing')),
    CHECK (head = 1 OR order_key <> '')
);

CREATE UNIQUE INDEX holdfast_row_id ON holdfast_row (id, group_id);
CREATE INDEX holdfast_row_saga ON holdfast_row (group_id, id) WHERE token IS NULL AND finished_at IS NULL AND saga IS NOT NULL;
CREATE INDEX holdfast_row_key ON holdfast_row (key, id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_row_correlation ON holdfast_row (correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX holdfast_row_due ON holdfast_row (group_id, lane, due_at, seq) WHERE state = 'pending' AND head = 1;
CREATE INDEX holdfast_row_turn ON holdfast_row (group_id, lane, key, due_at, seq) WHERE state = 'pending' AND head = 1;
CREATE INDEX holdfast_row_waiting ON holdfast_row (group_id, lane, seq) WHERE state = 'pending' AND head = 0;
CREATE INDEX holdfast_row_alone ON holdfast_row (group_id, due_at, seq) WHERE state = 'pending' AND head = 1 AND alone = 1;
CREATE INDEX holdfast_row_leased ON holdfast_row (group_id, until) WHERE state = 'processing';
CREATE INDEX holdfast_row_finished ON holdfast_row (group_id, finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX holdfast_row_expires ON holdfast_row (group_id, expires_at, seq)
    WHERE token IS NULL AND finished_at IS NULL AND expires_at IS NOT NULL;
CREATE INDEX holdfast_row_age ON holdfast_row (group_id, enqueued_at, seq) WHERE token IS NULL AND finished_at IS NULL;
CREATE INDEX holdfast_row_pending ON holdfast_row (group_id, enqueued_at, seq) WHERE state = 'pending';
CREATE INDEX holdfast_row_sending ON holdfast_row (group_id, until, seq) WHERE state = 'sending';
CREATE INDEX holdfast_row_enqueued ON holdfast_row (group_id, until, seq) WHERE state = 'enqueued';
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

-- What was enqueued under a key, so that a second time finds the first. A message has one key of its own and may have aliases. A key lasts for
-- `lasts` microseconds from the end of its message, which an ack does not write down here: `expires_at` is when to look whether it has
-- `ended`, and once it has, when the key is forgotten.
CREATE TABLE holdfast_idempotency (
    channel_id INTEGER NOT NULL REFERENCES holdfast_channel (id),
    key        TEXT    NOT NULL,
    message_id BLOB    NOT NULL,
    digest     BLOB    NOT NULL,
    expires_at INTEGER NOT NULL,
    lasts      INTEGER NOT NULL,
    ended      INTEGER NOT NULL DEFAULT 0,
    is_alias   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel_id, key)
) WITHOUT ROWID;

CREATE INDEX holdfast_idempotency_expires ON holdfast_idempotency (channel_id, expires_at);
CREATE INDEX holdfast_idempotency_message ON holdfast_idempotency (message_id);

-- What commands have done, and gave back. Without a result it has only begun, in a transaction that is still open.
CREATE TABLE holdfast_command (
    tenant      TEXT    NOT NULL,
    command     TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    result      BLOB,
    finished_at INTEGER,
    expires_at  INTEGER NOT NULL,
    PRIMARY KEY (tenant, command, key)
) WITHOUT ROWID;

CREATE INDEX holdfast_command_expires ON holdfast_command (tenant, expires_at);

-- What consumers gave back with an ack.
CREATE TABLE holdfast_result (
    message_id BLOB    PRIMARY KEY,
    group_id   INTEGER NOT NULL REFERENCES holdfast_group (id),
    result     BLOB    NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast_result_expires ON holdfast_result (group_id, expires_at);

-- Dead letters: a full copy, independent of everything above. `copy_id` is the message in the queue that `dead_letter` names.
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
    topic          TEXT,
    enqueued_at    INTEGER NOT NULL,
    saga           TEXT,
    unsent         INTEGER NOT NULL DEFAULT 0,
    copy_id        BLOB
) WITHOUT ROWID;

CREATE INDEX holdfast_dead_channel ON holdfast_dead (channel_id, id);
CREATE INDEX holdfast_dead_age ON holdfast_dead (channel_id, failed_at) WHERE replay_state IS NOT 'pending';
CREATE INDEX holdfast_dead_unsent ON holdfast_dead (channel_id, id) WHERE unsent = 1;
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
    traceback       TEXT,
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
CREATE INDEX holdfast_notice_digest ON holdfast_notice (tenant, owner, id) WHERE deliver_at IS NOT NULL;
CREATE INDEX holdfast_notice_untold ON holdfast_notice (tenant, id)
    WHERE told_at IS NULL AND acknowledged_at IS NULL AND deliver_at IS NULL;
CREATE INDEX holdfast_notice_untold_of ON holdfast_notice (tenant, owner, id)
    WHERE told_at IS NULL AND acknowledged_at IS NULL AND deliver_at IS NULL;
CREATE INDEX holdfast_notice_tenant ON holdfast_notice (tenant, id);
CREATE INDEX holdfast_notice_dead ON holdfast_notice (dead_id);
CREATE INDEX holdfast_notice_about ON holdfast_notice (tenant, kind, about) WHERE about IS NOT NULL;
CREATE UNIQUE INDEX holdfast_notice_open ON holdfast_notice (tenant, kind, about) WHERE about IS NOT NULL AND acknowledged_at IS NULL;
CREATE INDEX holdfast_notice_age ON holdfast_notice (channel_id, created_at);

-- A level that a notice has left before any callback was told of it. Who answers, or removes the notice, removes these.
CREATE TABLE holdfast_untold_level (
    notice_id     BLOB    NOT NULL,
    level         INTEGER NOT NULL,
    tenant        TEXT    NOT NULL,
    owner         TEXT    NOT NULL,
    telling_until INTEGER,
    PRIMARY KEY (notice_id, level)
) WITHOUT ROWID;

CREATE INDEX holdfast_untold_level_tenant ON holdfast_untold_level (tenant, notice_id, level);
CREATE INDEX holdfast_untold_level_owner ON holdfast_untold_level (tenant, owner, notice_id, level);

CREATE TRIGGER holdfast_notice_answered AFTER UPDATE OF acknowledged_at ON holdfast_notice
BEGIN DELETE FROM holdfast_untold_level WHERE notice_id = old.id; END;

CREATE TRIGGER holdfast_notice_gone AFTER DELETE ON holdfast_notice
BEGIN DELETE FROM holdfast_untold_level WHERE notice_id = old.id; END;

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

-- Messages of a topic that a group is done with before it came to them.
CREATE TABLE holdfast_skip (
    group_id INTEGER NOT NULL REFERENCES holdfast_group (id),
    id       BLOB    NOT NULL,
    PRIMARY KEY (group_id, id)
) WITHOUT ROWID;

-- What a saga consists of. A running one keeps the version that it was started with; a new one has the one that was declared last.
CREATE TABLE holdfast_saga_definition (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    declared INTEGER NOT NULL,
    spec     BLOB    NOT NULL,
    UNIQUE (tenant, name, version)
);

-- Sagas. `given` is a digest of what it was started with; `version` counts its moves; `due_at` is when time has something to do with it.
CREATE TABLE holdfast_saga (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant        TEXT    NOT NULL,
    saga_id       TEXT    NOT NULL,
    definition_id INTEGER NOT NULL REFERENCES holdfast_saga_definition (id),
    given         BLOB    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'compensating', 'compensated',
                                                 'compensation_failed', 'canceled')),
    version       INTEGER NOT NULL DEFAULT 0,
    state         BLOB    NOT NULL,
    due_at        INTEGER,
    started_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    ended_at      INTEGER,
    forget_at     INTEGER,
    UNIQUE (tenant, saga_id)
);

CREATE INDEX holdfast_saga_status ON holdfast_saga (tenant, status, id);
CREATE INDEX holdfast_saga_tenant ON holdfast_saga (tenant, id);
CREATE INDEX holdfast_saga_over ON holdfast_saga (tenant, forget_at, id) WHERE forget_at IS NOT NULL;
CREATE INDEX holdfast_saga_due ON holdfast_saga (tenant, due_at) WHERE due_at IS NOT NULL;

-- What happened to sagas, line by line.
CREATE TABLE holdfast_saga_event (
    saga    INTEGER NOT NULL REFERENCES holdfast_saga (id),
    seq     INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    what    TEXT    NOT NULL,
    step    TEXT   ,
    who     TEXT   ,
    attempt INTEGER,
    error   TEXT   ,
    output  BLOB   ,
    traceback TEXT,
    PRIMARY KEY (saga, seq)
) WITHOUT ROWID;
