-- name: enter
-- How a group's messages are delivered, whether it hands out nothing at the moment, whether it has limits, and its settings. Until the transaction
-- ends, nobody changes that.
SELECT g.delivery, g.paused OR g.dead_at IS NOT NULL OR g.missing > 0 OR g.ended_at IS NOT NULL, g.limited, c.spec
FROM holdfast_group g
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE g.id = :group
FOR SHARE OF g

-- name: look
-- The same, for whoever does not mind if it changes.
SELECT delivery, paused OR dead_at IS NOT NULL OR missing > 0 OR ended_at IS NOT NULL, limited
FROM holdfast_group
WHERE id = :group

-- name: hold_limit
-- Keeps other claims of a limited group out.
SELECT 1 FROM holdfast_limit WHERE group_id = :group
FOR UPDATE

-- name: hold
-- Keeps others out who look for lost pointers.
SELECT 1 FROM holdfast_group WHERE id = :group
FOR NO KEY UPDATE

-- name: out
-- How many messages are with SQS, or on the way there.
SELECT (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'sending')
     + (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'enqueued')

-- name: is_out
SELECT 1 FROM (SELECT until FROM holdfast_row WHERE group_id = :group AND state = 'enqueued' ORDER BY until, seq LIMIT 1) AS enqueued
UNION ALL
SELECT 1 FROM (SELECT until FROM holdfast_row WHERE group_id = :group AND state = 'sending' ORDER BY until, seq LIMIT 1) AS sending
LIMIT 1

-- name: is_coming
SELECT 1 FROM (SELECT until FROM holdfast_row WHERE group_id = :group AND state = 'sending' ORDER BY until, seq LIMIT 1) AS sending

-- name: enqueued
SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'enqueued'

-- name: peek
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_row
WHERE group_id = :group AND state = 'enqueued' AND lane = :lane
  AND (expires_at IS NULL OR expires_at > :now) AND enqueued_at > :born
ORDER BY due_at, seq
LIMIT :limit

-- name: out_by_key
SELECT key, count(*) FROM (
    SELECT key FROM holdfast_row WHERE group_id = :group AND state = 'sending'
    UNION ALL
    SELECT key FROM holdfast_row WHERE group_id = :group AND state = 'enqueued'
) AS handed_over
WHERE key IS NOT NULL
GROUP BY key

-- name: next_turn
UPDATE holdfast_limit SET turn = :key::text WHERE group_id = :group

-- name: mark
UPDATE holdfast_row
SET state = 'sending', generation = generation + 1, handed_at = :now, until = :now + :hold::bigint
WHERE seq = :seq AND state = 'pending'
RETURNING id, generation

-- name: confirm
UPDATE holdfast_row
SET state = 'enqueued', until = :now + :patience::bigint
WHERE group_id = :group AND id = :id::uuid AND generation = :generation AND state = 'sending'
RETURNING 1

-- name: take_again
-- It was not sent after all.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE group_id = :group AND id = :id::uuid AND generation = :generation AND state = 'sending'
RETURNING 1

-- name: pointed
-- What a pointer leads to, if that can still be claimed by it. The pointer may be quicker than SQS's confirmation.
SELECT seq, id, lane, attempts, alone, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, due_at
FROM holdfast_row
WHERE group_id = :group AND id = :id::uuid AND generation = :generation AND state IN ('sending', 'enqueued')
FOR UPDATE SKIP LOCKED

-- name: standing
-- What a pointer leads to that cannot be claimed.
SELECT state, generation FROM holdfast_row WHERE group_id = :group AND id = :id::uuid

-- name: is_elsewhere
-- Whether it is the message of another queue, or group, whose pointers go the same way.
SELECT 1 FROM holdfast_row WHERE id = :id::uuid AND group_id <> :group AND finished_at IS NULL LIMIT 1

-- name: take
UPDATE holdfast_row
SET state = 'processing', attempts = attempts + 1, token = :token, until = :until, worker = :worker, claimed_at = :since
WHERE seq = :seq AND generation = :generation AND state IN ('sending', 'enqueued')
RETURNING 1

-- name: overdue
-- How many pointers nobody has come with for long, and since when the first of them is away.
SELECT count(*), min(handed_at)
FROM holdfast_row
WHERE group_id = :group AND state = 'enqueued' AND until <= :now

-- name: count_overdue
-- The same, up to :most.
SELECT count(*)
FROM (
    SELECT 1 FROM holdfast_row
    WHERE group_id = :group AND state = 'enqueued' AND until <= :now
    LIMIT :most
) AS counted

-- name: withdraw
-- From now on they go another way; whoever comes with a pointer finds nothing.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE group_id = :group AND state = 'enqueued'

-- name: withdraw_sending
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE group_id = :group AND state = 'sending'
