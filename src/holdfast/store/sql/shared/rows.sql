-- name: insert
-- A row with an order key is claimable only as the first unfinished one of its key.
INSERT INTO holdfast_row (group_id, id, lane, state, due_at, attempts, alone, order_key, head, finished_at,
                          errors, replay_of, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, saga,
                          claimed_at)
VALUES (:group, :id::uuid, :lane, :state, :now + :delay, :attempts, :alone, :order_key,
        :first OR :order_key::text = '' OR NOT EXISTS (SELECT 1 FROM holdfast_blocked
                                       WHERE group_id = :group AND order_key = :order_key)
                                AND NOT EXISTS (SELECT 1 FROM holdfast_row
                                       WHERE group_id = :group AND order_key = :order_key AND order_key <> ''
                                         AND finished_at IS NULL),
        CASE WHEN :state::text IN ('pending', 'processing') THEN NULL ELSE :now END,
        :errors, :replay_of::uuid, :body, :headers, :key, :correlation_id, :reply_to, :topic,
        coalesce(:expires_at::bigint, :now + :ttl::bigint),
        coalesce(:enqueued_at::bigint, :now), :saga, :claimed_at)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: lock
-- The row behind a claim, if the token still holds.
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, errors, order_key, replay_of, worker,
       alone, attempts, saga, unwanted, claimed_at
FROM holdfast_row
WHERE group_id = :group AND id = :id::uuid AND token = :token
FOR UPDATE

-- name: again
UPDATE holdfast_row
SET state = 'pending', due_at = :now + :delay, attempts = :attempts, alone = :alone, errors = :errors,
    token = NULL, until = NULL, claimed_at = NULL
WHERE group_id = :group AND id = :id::uuid
RETURNING 1

-- name: end
UPDATE holdfast_row
SET state = :state, attempts = coalesce(:attempts::bigint, attempts), errors = coalesce(:errors::bytea, errors), finished_at = :now, token = NULL, until = NULL
WHERE group_id = :group AND id = :id::uuid AND finished_at IS NULL
RETURNING head, order_key, saga

-- name: remove
DELETE FROM holdfast_row WHERE group_id = :group AND id = :id::uuid RETURNING 1

-- name: lapsed
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, errors, order_key, replay_of, worker,
       alone, attempts, saga, unwanted, claimed_at
FROM holdfast_row
WHERE group_id = :group AND state = 'processing' AND until <= :now
ORDER BY until, seq
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: outlived
SELECT id, replay_of
FROM holdfast_row
WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND expires_at <= :now
ORDER BY expires_at, seq
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: aged
SELECT id, replay_of
FROM holdfast_row
WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND enqueued_at <= :now - :max_age
ORDER BY enqueued_at, seq
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: purge
DELETE FROM holdfast_row WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND saga IS NULL

-- name: withdraw
-- One message that nobody has claimed.
DELETE FROM holdfast_row WHERE id = :id::uuid AND group_id = :group AND token IS NULL AND finished_at IS NULL
RETURNING 1

-- name: purge_steps
-- Those that a saga waits for, which has to know.
DELETE FROM holdfast_row WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND saga IS NOT NULL
RETURNING id, saga

-- name: find
SELECT r.group_id, r.lane, r.state, r.attempts, r.due_at, r.enqueued_at, c.name, r.order_key, r.replay_of, r.expires_at
FROM holdfast_row r
JOIN holdfast_group g ON g.id = r.group_id
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE r.id = :id::uuid AND c.tenant = :tenant

-- name: look_up
SELECT r.id, r.lane, r.body, r.headers, r.key, r.correlation_id, r.reply_to, r.topic, r.expires_at, r.enqueued_at,
       c.name, r.state, r.attempts, r.due_at, r.worker, r.until, r.finished_at, r.errors, r.claimed_at,
       (SELECT e.session FROM holdfast_effort e WHERE e.group_id = r.group_id AND e.message_id = r.id)
FROM holdfast_row r
JOIN holdfast_group g ON g.id = r.group_id
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE r.id = :id::uuid AND c.tenant = :tenant

-- name: held
SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'processing'

-- name: pending
SELECT (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'pending')
     + (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'sending')
     + (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'enqueued')

-- name: waiting
SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'pending' AND due_at > :now

-- name: oldest
-- Of those that can still be claimed.
SELECT enqueued_at FROM holdfast_row WHERE group_id = :group AND token IS NULL AND finished_at IS NULL
  AND enqueued_at > :born AND (expires_at IS NULL OR expires_at > :now)
ORDER BY enqueued_at, seq
LIMIT 1

-- name: oldest_finished
SELECT r.id, r.finished_at
FROM holdfast_row r
WHERE r.group_id = :group AND r.finished_at IS NOT NULL
ORDER BY r.finished_at
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: key
-- It never changes, so nobody need hold the row.
SELECT order_key FROM holdfast_row WHERE group_id = :group AND id = :id::uuid

-- name: unclaimed
-- A message that nobody works on. Whoever claims it at this moment has begun; and whoever settles one locks it, and then the saga that is
-- locked here: nobody may wait.
SELECT replay_of FROM holdfast_row
WHERE group_id = :group AND id = :id::uuid AND token IS NULL AND finished_at IS NULL
FOR UPDATE SKIP LOCKED

-- name: is_unfinished
SELECT 1 FROM holdfast_row WHERE group_id = :group AND id = :id::uuid AND finished_at IS NULL

-- name: lapsed_step
-- One message of a step whose lease has ended.
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, errors, order_key, replay_of, worker,
       alone, attempts, saga, unwanted, claimed_at
FROM holdfast_row
WHERE group_id = :group AND id = :id::uuid AND state = 'processing' AND until <= :now
FOR UPDATE SKIP LOCKED

-- name: promote
-- The key's next one may go.
UPDATE holdfast_row SET head = true
WHERE seq = (SELECT min(seq) FROM holdfast_row
             WHERE group_id = :group AND order_key = :order_key AND order_key <> '' AND finished_at IS NULL)
  AND finished_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM holdfast_blocked WHERE group_id = :group AND order_key = :order_key)
RETURNING 1

-- name: extend
-- The lease of a step that its saga does not want any more is left to run out; 0 says so.
UPDATE holdfast_row SET until = CASE WHEN unwanted THEN until ELSE :now + :micros END
WHERE group_id = :group AND id = :id::uuid AND token = :token
RETURNING CASE WHEN unwanted THEN 0 ELSE until END

-- name: succeed
UPDATE holdfast_row
SET state = 'succeeded', finished_at = :now, token = NULL, until = NULL
WHERE group_id = :group AND id = :id::uuid AND token = :token
RETURNING (SELECT g.history FROM holdfast_group g WHERE g.id = group_id), (SELECT g.limited FROM holdfast_group g WHERE g.id = group_id)

-- name: is_older
SELECT 1 FROM holdfast_row WHERE group_id = :group AND finished_at <= :now - :age ORDER BY finished_at LIMIT 1
