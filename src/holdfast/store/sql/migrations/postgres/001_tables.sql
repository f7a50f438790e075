-- Times are microseconds since 1970 (UTC); ids are UUIDv7; body and headers are UTF-8 JSON, kept as bytes because
-- jsonb refuses some of what JSON allows.

-- The database's clock. Tests pass a time of their own; everyone else passes NULL.
-- clock_timestamp, not now(): now() stands still inside a transaction, and a lease must not be born old.
CREATE FUNCTION holdfast_now(given bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(given, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

CREATE TABLE holdfast_channel (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant      text   NOT NULL,
    name        text   NOT NULL,
    kind        text   NOT NULL CHECK (kind IN ('queue', 'topic', 'group')),
    owns        boolean NOT NULL DEFAULT false,
    spec        bytea  NOT NULL,
    declared_at bigint NOT NULL,
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
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel_id bigint NOT NULL REFERENCES holdfast_channel (id),
    name       text   NOT NULL DEFAULT '',
    history    bigint NOT NULL DEFAULT 0,
    paused     boolean NOT NULL DEFAULT false,
    stopped    boolean NOT NULL DEFAULT false,
    limited    bigint NOT NULL DEFAULT 0,
    source     bigint REFERENCES holdfast_channel (id),
    wanted     text,
    fed        text CHECK (fed IN ('unordered', 'per_key', 'fifo')),
    ended_at   bigint,
    canceled_at bigint,
    beat_at    bigint NOT NULL DEFAULT 0,
    misses     bigint NOT NULL DEFAULT 0,
    missed_at  bigint,
    dead_at    bigint,
    deaths     bigint NOT NULL DEFAULT 0,
    revivals   bigint NOT NULL DEFAULT 0,
    lost       bigint NOT NULL DEFAULT 0,
    lost_at    bigint,
    missing    bigint NOT NULL DEFAULT 0,
    past       bigint NOT NULL DEFAULT 0,
    delivery   text   NOT NULL DEFAULT 'database' CHECK (delivery IN ('database', 'sqs')),
    UNIQUE (channel_id, name)
);

CREATE INDEX holdfast_group_source ON holdfast_group (source) WHERE source IS NOT NULL;

-- The limits of a group that has any; claims of such a group take turns by locking it. `turn` is the key that was the last to have
-- its turn when the keys were gone through; NULL is the turn of those without one, before the first key.
CREATE TABLE holdfast_limit (
    group_id        bigint PRIMARY KEY REFERENCES holdfast_group (id),
    concurrency     bigint,
    rate_count      bigint,
    rate_per        bigint,
    key_concurrency bigint,
    key_rate_count  bigint,
    key_rate_per    bigint,
    catch_up_count  bigint,
    catch_up_per    bigint,
    turn            text
);

-- How many messages of a limited group (''), of its past ('<') or of one key of it ('=' and the key) were claimed, and when the last of them: one row
-- for all that began in the same 64th of the rate's time.
CREATE TABLE holdfast_start (
    group_id bigint NOT NULL,
    key      text   NOT NULL,
    slot     bigint NOT NULL,
    at       bigint NOT NULL,
    count    bigint NOT NULL,
    PRIMARY KEY (group_id, key, slot)
);

CREATE INDEX holdfast_start_at ON holdfast_start (group_id, at);

-- Numbers that are never given out twice, whatever is deleted.
CREATE SEQUENCE holdfast_token;

-- Lane engine. A lane (channel x priority) is read in the order (xid, seq): by the transaction that wrote a message,
-- then by its place in there. Neither is known to be complete before the transaction commits, so a reader's cursor is
-- not a position alone but a window between two snapshots (see holdfast_claim_lane).
CREATE TABLE holdfast_message (
    lane           bigint NOT NULL,
    xid            xid8   NOT NULL DEFAULT pg_current_xact_id(),
    seq            bigint GENERATED ALWAYS AS IDENTITY (CACHE 1000),
    id             uuid   NOT NULL,
    body           bytea  NOT NULL,
    headers        bytea,
    key            text,
    correlation_id text,
    reply_to       text,
    topic          text,
    expires_at     bigint,
    enqueued_at    bigint NOT NULL,
    PRIMARY KEY (lane, xid, seq)
);

CREATE UNIQUE INDEX holdfast_message_id ON holdfast_message (id);
CREATE INDEX holdfast_message_key ON holdfast_message (key, id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_message_correlation ON holdfast_message (correlation_id, id) WHERE correlation_id IS NOT NULL;

-- One row per group and lane, never updated: locking it makes claims of a lane take turns.
CREATE TABLE holdfast_lane (
    group_id bigint NOT NULL REFERENCES holdfast_group (id),
    lane     bigint NOT NULL,
    PRIMARY KEY (group_id, lane)
);

-- How far a group has claimed a lane: all that snapshot `lo` shows, and of what `hi` shows besides, everything up to
-- (xid, seq). A claim adds the new cursor and deletes the one before. It is not updated in place because under a held
-- snapshot old versions pile up, and the newest one must stay the first that an index scan finds.
-- A topic's group begins with a window of what was there before, whose `lo` shows nothing (holdfast_is_past).
CREATE TABLE holdfast_cursor (
    group_id bigint      NOT NULL,
    lane     bigint      NOT NULL,
    number   bigint      GENERATED ALWAYS AS IDENTITY,
    lo       pg_snapshot NOT NULL,
    hi       pg_snapshot NOT NULL,
    xid      xid8        NOT NULL,
    seq      bigint      NOT NULL,
    PRIMARY KEY (group_id, lane, number)
);

-- One lease for a whole run: the messages of one window after one position and up to another. Once it is split, `settled` has a bit per
-- member whose claim has ended, and `gone` one per member that left the lane.
CREATE TABLE holdfast_run (
    token       bigint      PRIMARY KEY,
    group_id    bigint      NOT NULL,
    lane        bigint      NOT NULL,
    lo          pg_snapshot NOT NULL,
    hi          pg_snapshot NOT NULL,
    after_xid   xid8        NOT NULL,
    after_seq   bigint      NOT NULL,
    last_xid    xid8        NOT NULL,
    last_seq    bigint      NOT NULL,
    size        bigint      NOT NULL CHECK (size > 0),
    settled     bytea,
    gone        bytea,
    until       bigint      NOT NULL,
    worker      text        NOT NULL,
    claimed_at  bigint      NOT NULL,
    finished_at bigint
);

CREATE INDEX holdfast_run_open ON holdfast_run (group_id, until, token) WHERE finished_at IS NULL;
CREATE INDEX holdfast_run_finished ON holdfast_run (group_id, finished_at) WHERE finished_at IS NOT NULL;

-- Row engine: messages that need a state of their own. `saga` says which step of which saga one is sent for. Where SQS delivers, a
-- message is handed over as a pointer, its id and `generation`, which grows every time: it is `sending` (still pending, and nobody else's
-- to send) until SQS has confirmed that, at the latest until `until`; then `enqueued` since `handed_at`, and somebody asks after it at `until`.
CREATE TABLE holdfast_row (
    seq            bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_id       bigint  NOT NULL REFERENCES holdfast_group (id),
    id             uuid    NOT NULL,
    lane           bigint  NOT NULL,
    state          text    NOT NULL CHECK (state IN ('pending', 'sending', 'enqueued', 'processing', 'succeeded',
                                                            'canceled', 'expired')),
    due_at         bigint  NOT NULL,
    attempts       bigint  NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    alone          boolean NOT NULL DEFAULT false,
    order_key      text    NOT NULL DEFAULT '',
    head           boolean NOT NULL DEFAULT true,
    token          bigint,
    until          bigint,
    worker         text,
    claimed_at     bigint,
    finished_at    bigint,
    errors         bytea,
    replay_of      uuid,
    body           bytea   NOT NULL,
    headers        bytea,
    key            text,
    correlation_id text,
    reply_to       text,
    topic          text,
    expires_at     bigint,
    enqueued_at    bigint  NOT NULL,
    saga           text,
    unwanted       boolean NOT NULL DEFAULT false,
    generation     bigint  NOT NULL DEFAULT 0,
    handed_at      bigint,
    CHECK ((state = 'processing') = (token IS NOT NULL)),
    CHECK ((state IN ('sending', 'enqueued', 'processing')) = (until IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'canceled', 'expired')) = (finished_at IS NOT NULL)),
    CHECK (head OR state NOT IN ('sending', 'enqueued', 'processing')),
    CHECK (head OR order_key <> '')
);

CREATE UNIQUE INDEX holdfast_row_id ON holdfast_row (id, group_id);
CREATE INDEX holdfast_row_saga ON holdfast_row (group_id, id) WHERE token IS NULL AND finished_at IS NULL AND saga IS NOT NULL;
CREATE INDEX holdfast_row_key ON holdfast_row (key, id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_row_correlation ON holdfast_row (correlation_id, id) WHERE correlation_id IS NOT NULL;
CREATE INDEX holdfast_row_due ON holdfast_row (group_id, lane, due_at, seq) WHERE state = 'pending' AND head;
CREATE INDEX holdfast_row_turn ON holdfast_row (group_id, lane, key, due_at, seq) WHERE state = 'pending' AND head;
CREATE INDEX holdfast_row_waiting ON holdfast_row (group_id, lane, seq) WHERE state = 'pending' AND NOT head;
CREATE INDEX holdfast_row_alone ON holdfast_row (group_id, due_at, seq) WHERE state = 'pending' AND head AND alone;
CREATE INDEX holdfast_row_leased ON holdfast_row (group_id, until, seq) WHERE state = 'processing';
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
    group_id   bigint NOT NULL REFERENCES holdfast_group (id),
    order_key  text   NOT NULL,
    dead_id    uuid   NOT NULL,
    blocked_at bigint NOT NULL,
    PRIMARY KEY (group_id, order_key)
);

-- How many messages a queue may have waiting, and a number that the truth is never above.
CREATE TABLE holdfast_depth (
    channel_id bigint PRIMARY KEY REFERENCES holdfast_channel (id),
    bound      bigint NOT NULL,
    most       bigint NOT NULL,
    settled_at bigint NOT NULL
);

-- Something came back to a limited queue: the next arrival has to count.
CREATE TABLE holdfast_return (
    channel_id bigint NOT NULL,
    number     bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY (channel_id, number)
);

-- What was enqueued under a key, so that a second time finds the first. A message has one key of its own and may have aliases. A key lasts for
-- `lasts` microseconds from the end of its message, which an ack does not write down here: `expires_at` is when to look whether it has
-- `ended`, and once it has, when the key is forgotten.
CREATE TABLE holdfast_idempotency (
    channel_id bigint NOT NULL,
    key        text   NOT NULL,
    message_id uuid   NOT NULL,
    digest     bytea  NOT NULL,
    expires_at bigint NOT NULL,
    lasts      bigint NOT NULL,
    ended      boolean NOT NULL DEFAULT false,
    is_alias   boolean NOT NULL DEFAULT false,
    PRIMARY KEY (channel_id, key)
);

CREATE INDEX holdfast_idempotency_expires ON holdfast_idempotency (channel_id, expires_at);
CREATE INDEX holdfast_idempotency_message ON holdfast_idempotency (message_id);

-- What commands have done, and gave back. Without a result it has only begun, in a transaction that is still open.
CREATE TABLE holdfast_command (
    tenant      text   NOT NULL,
    command     text   NOT NULL,
    key         text   NOT NULL,
    result      bytea,
    finished_at bigint,
    expires_at  bigint NOT NULL,
    PRIMARY KEY (tenant, command, key)
);

CREATE INDEX holdfast_command_expires ON holdfast_command (tenant, expires_at);

-- What consumers gave back with an ack.
CREATE TABLE holdfast_result (
    message_id uuid   PRIMARY KEY,
    group_id   bigint NOT NULL REFERENCES holdfast_group (id),
    result     bytea  NOT NULL,
    expires_at bigint NOT NULL
);

CREATE INDEX holdfast_result_expires ON holdfast_result (group_id, expires_at);

-- Dead letters: a full copy, independent of everything above. `copy_id` is the message in the queue that `dead_letter` names.
CREATE TABLE holdfast_dead (
    id             uuid   PRIMARY KEY,
    tenant         text   NOT NULL,
    channel_id     bigint NOT NULL REFERENCES holdfast_channel (id),
    group_id       bigint NOT NULL REFERENCES holdfast_group (id),
    message_id     uuid   NOT NULL,
    lane           bigint NOT NULL,
    attempts       bigint NOT NULL,
    error          text   NOT NULL,
    errors         bytea,
    failed_at      bigint NOT NULL,
    replayed_as    uuid,
    replay_state   text,
    replays        bigint NOT NULL DEFAULT 0,
    body           bytea  NOT NULL,
    headers        bytea,
    key            text,
    correlation_id text,
    reply_to       text,
    topic          text,
    enqueued_at    bigint NOT NULL,
    saga           text,
    unsent         boolean NOT NULL DEFAULT false,
    copy_id        uuid
);

CREATE INDEX holdfast_dead_channel ON holdfast_dead (channel_id, id);
CREATE INDEX holdfast_dead_age ON holdfast_dead (channel_id, failed_at) WHERE replay_state IS DISTINCT FROM 'pending';
CREATE INDEX holdfast_dead_unsent ON holdfast_dead (channel_id, id) WHERE unsent;
CREATE INDEX holdfast_dead_message ON holdfast_dead (message_id);
CREATE INDEX holdfast_dead_key ON holdfast_dead (key, message_id) WHERE key IS NOT NULL;
CREATE INDEX holdfast_dead_correlation ON holdfast_dead (correlation_id, message_id) WHERE correlation_id IS NOT NULL;

-- Who did what to dead letters, and to how many.
CREATE TABLE holdfast_audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text   NOT NULL,
    at     bigint NOT NULL,
    actor  text   NOT NULL,
    act    text   NOT NULL,
    queue  text  ,
    about  bytea  NOT NULL,
    count  bigint NOT NULL
);

CREATE INDEX holdfast_audit_tenant ON holdfast_audit (tenant, id);

-- Who answers for dead letters.
CREATE TABLE holdfast_owner (
    tenant text NOT NULL,
    name   text NOT NULL,
    spec   bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Someone has to look at a dead letter, or at what `about` names. `owner` is '' where there is none; `deliver_at` is set while it waits
-- for a digest; `repeats` is how often the same was reported again before anyone answered.
CREATE TABLE holdfast_notice (
    id              uuid   PRIMARY KEY,
    tenant          text   NOT NULL,
    kind            text   NOT NULL DEFAULT 'dead_letter',
    about           text,
    channel_id      bigint REFERENCES holdfast_channel (id),
    dead_id         uuid,
    message_id      uuid,
    owner           text   NOT NULL,
    level           bigint NOT NULL DEFAULT 0,
    error           text   NOT NULL,
    traceback       text,
    attempts        bigint NOT NULL,
    repeats         bigint NOT NULL DEFAULT 0,
    created_at      bigint NOT NULL,
    climb_at        bigint,
    deliver_at      bigint,
    telling_until   bigint,
    told_at         bigint,
    acknowledged_at bigint,
    acknowledged_by text,
    remark          text
);

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
    notice_id     uuid   NOT NULL,
    level         bigint NOT NULL,
    tenant        text   NOT NULL,
    owner         text   NOT NULL,
    telling_until bigint,
    PRIMARY KEY (notice_id, level)
);

CREATE INDEX holdfast_untold_level_tenant ON holdfast_untold_level (tenant, notice_id, level);
CREATE INDEX holdfast_untold_level_owner ON holdfast_untold_level (tenant, owner, notice_id, level);

CREATE FUNCTION holdfast_forget_untold() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM holdfast_untold_level WHERE notice_id = OLD.id;
    RETURN NULL;
END
$$;

CREATE TRIGGER holdfast_notice_answered AFTER UPDATE OF acknowledged_at ON holdfast_notice
FOR EACH ROW EXECUTE FUNCTION holdfast_forget_untold();

CREATE TRIGGER holdfast_notice_gone AFTER DELETE ON holdfast_notice
FOR EACH ROW EXECUTE FUNCTION holdfast_forget_untold();

-- How many messages came, ended, died (less those whose dead letters were removed), were claimed, acked, failed and lost by silence, for
-- how long the acked ones were worked on, and how many are kept as history: per second and session. Second 0 has what is long ago.
CREATE TABLE holdfast_tally (
    group_id  bigint NOT NULL,
    second    bigint NOT NULL,
    slot      bigint NOT NULL,
    arrived   bigint NOT NULL DEFAULT 0,
    ended     bigint NOT NULL DEFAULT 0,
    dead      bigint NOT NULL DEFAULT 0,
    claimed   bigint NOT NULL DEFAULT 0,
    completed bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    lapsed    bigint NOT NULL DEFAULT 0,
    busy      bigint NOT NULL DEFAULT 0,
    kept      bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (group_id, second, slot)
);

-- Who asked a group for work, and when last.
CREATE TABLE holdfast_consumer (
    group_id bigint NOT NULL REFERENCES holdfast_group (id),
    worker   text   NOT NULL,
    seen_at  bigint NOT NULL,
    PRIMARY KEY (group_id, worker)
);

-- Messages of a topic that a group is done with before it came to them.
CREATE TABLE holdfast_skip (
    group_id bigint NOT NULL REFERENCES holdfast_group (id),
    id       uuid   NOT NULL,
    PRIMARY KEY (group_id, id)
);

-- What a saga consists of. A running one keeps the version that it was started with; a new one has the one that was declared last.
CREATE TABLE holdfast_saga_definition (
    id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text    NOT NULL,
    name     text    NOT NULL,
    version  bigint  NOT NULL,
    declared bigint  NOT NULL,
    spec     bytea   NOT NULL,
    UNIQUE (tenant, name, version)
);

-- Sagas. `given` is a digest of what it was started with; `version` counts its moves; `due_at` is when time has something to do with it.
CREATE TABLE holdfast_saga (
    id            bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant        text    NOT NULL,
    saga_id       text    NOT NULL,
    definition_id bigint  NOT NULL REFERENCES holdfast_saga_definition (id),
    given         bytea   NOT NULL,
    status        text    NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'compensating', 'compensated',
                                                 'compensation_failed', 'canceled')),
    version       bigint  NOT NULL DEFAULT 0,
    state         bytea   NOT NULL,
    due_at        bigint ,
    started_at    bigint  NOT NULL,
    updated_at    bigint  NOT NULL,
    ended_at      bigint ,
    forget_at     bigint ,
    UNIQUE (tenant, saga_id)
);

CREATE INDEX holdfast_saga_status ON holdfast_saga (tenant, status, id);
CREATE INDEX holdfast_saga_tenant ON holdfast_saga (tenant, id);
CREATE INDEX holdfast_saga_over ON holdfast_saga (tenant, forget_at, id) WHERE forget_at IS NOT NULL;
CREATE INDEX holdfast_saga_due ON holdfast_saga (tenant, due_at) WHERE due_at IS NOT NULL;

-- What happened to sagas, line by line.
CREATE TABLE holdfast_saga_event (
    saga    bigint  NOT NULL REFERENCES holdfast_saga (id),
    seq     bigint  NOT NULL,
    at      bigint  NOT NULL,
    what    text    NOT NULL,
    step    text   ,
    who     text   ,
    attempt bigint ,
    error   text   ,
    output  bytea  ,
    traceback text,
    PRIMARY KEY (saga, seq)
);
