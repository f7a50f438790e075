-- What consumers, pools and schedules need beside the messages.

-- How the checks of a message's commitments went, attempt by attempt.
CREATE TABLE holdfast_commitment (
    message_id uuid    NOT NULL,
    attempt    bigint  NOT NULL,
    place      bigint  NOT NULL,
    group_id   bigint  NOT NULL REFERENCES holdfast_group (id),
    name       text    NOT NULL,
    passed     boolean NOT NULL,
    code       bigint,
    output     text    NOT NULL,
    checked_at bigint  NOT NULL,
    expires_at bigint  NOT NULL,
    PRIMARY KEY (message_id, attempt, place)
);

CREATE INDEX holdfast_commitment_expires ON holdfast_commitment (group_id, expires_at);

-- Running consumers, as they last told of themselves. Who has not told again by `valid_until` is dead.
CREATE TABLE holdfast_worker (
    tenant      text   NOT NULL,
    id          text   NOT NULL,
    consumer    text   NOT NULL,
    pool        text,
    host        text   NOT NULL,
    pid         bigint NOT NULL,
    labels      bytea  NOT NULL,
    queues      bytea  NOT NULL,
    state       text   NOT NULL CHECK (state IN ('working', 'idle', 'hibernating', 'draining')),
    concurrency bigint NOT NULL,
    started_at  bigint NOT NULL,
    seen_at     bigint NOT NULL,
    valid_until bigint NOT NULL,
    saturation  float8 NOT NULL,
    handled     bigint NOT NULL,
    failed      bigint NOT NULL,
    work        bytea  NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX holdfast_worker_age ON holdfast_worker (tenant, valid_until);

-- What was changed about the queues that a consumer takes from. NULL is what its code says.
CREATE TABLE holdfast_attachment (
    tenant     text    NOT NULL,
    consumer   text    NOT NULL,
    queue      text    NOT NULL,
    attached   boolean NOT NULL,
    weight     float8,
    empty      text    CHECK (empty IN ('poll', 'hibernate', 'terminate')),
    changed_at bigint  NOT NULL,
    PRIMARY KEY (tenant, consumer, queue)
);

-- The seats of a pool: one row for each number that is, or was, held. It counts until `until`.
CREATE TABLE holdfast_seat (
    tenant text   NOT NULL,
    pool   text   NOT NULL,
    number bigint NOT NULL,
    worker text   NOT NULL,
    token  uuid   NOT NULL,
    until  bigint NOT NULL,
    PRIMARY KEY (tenant, pool, number)
);

-- Who does what only one may do at a time, and until when.
CREATE TABLE holdfast_leader (
    tenant text   NOT NULL,
    duty   text   NOT NULL,
    worker text   NOT NULL,
    until  bigint NOT NULL,
    PRIMARY KEY (tenant, duty)
);

-- What a message has taken so far: since when, how much, the last thing that its holder (by token) did and how many times in a row. `report` is
-- the id of the last report. From `look_at` on, a sweep looks whether the message is still there.
CREATE TABLE holdfast_effort (
    group_id   bigint           NOT NULL REFERENCES holdfast_group (id),
    message_id uuid             NOT NULL,
    started_at bigint           NOT NULL,
    spent      double precision NOT NULL DEFAULT 0,
    action     text,
    repeats    bigint           NOT NULL DEFAULT 0,
    token      bigint,
    report     uuid,
    session    text,
    look_at    bigint           NOT NULL,
    PRIMARY KEY (group_id, message_id)
);

CREATE INDEX holdfast_effort_look ON holdfast_effort (group_id, look_at);

-- What the messages of a queue have spent together, and the report that paused the queue because it was too much.
CREATE TABLE holdfast_budget (
    group_id  bigint           PRIMARY KEY REFERENCES holdfast_group (id),
    spent     double precision NOT NULL,
    paused_by uuid
);

-- Messages that are sent by the clock. `next_at` is the slot to fire next; `due_at` is when to look, which is later while its queue
-- is full, and never while it is paused. `set_at` is when they were worked out: if that is in the future, the clock was set back.
CREATE TABLE holdfast_schedule (
    tenant     text    NOT NULL,
    name       text    NOT NULL,
    spec       bytea   NOT NULL,
    created_at bigint  NOT NULL,
    next_at    bigint,
    due_at     bigint,
    set_at     bigint  NOT NULL,
    paused     boolean NOT NULL DEFAULT false,
    last_slot  bigint,
    last_at    bigint,
    error      text,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX holdfast_schedule_due ON holdfast_schedule (tenant, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX holdfast_schedule_set ON holdfast_schedule (tenant, set_at) WHERE due_at IS NOT NULL;
