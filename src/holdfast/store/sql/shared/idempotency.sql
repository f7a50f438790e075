-- name: recall
SELECT i.message_id, i.digest, r.result
FROM holdfast_idempotency i
LEFT JOIN holdfast_result r ON r.message_id = i.message_id
WHERE i.channel_id = :channel AND i.key = :key

-- name: find
SELECT i.message_id, r.result, i.lasts, i.ended, i.expires_at <= :now
FROM holdfast_idempotency i
LEFT JOIN holdfast_result r ON r.message_id = i.message_id
WHERE i.channel_id = :channel AND i.key = :key

-- name: due
-- Keys of which it is time to look whether their messages have ended. Those that somebody else has in hand have their turn later: so nobody is waited
-- for, in whatever order others take their keys.
SELECT channel_id, key, message_id, lasts FROM holdfast_idempotency
WHERE channel_id = :channel AND expires_at <= :now AND NOT ended
ORDER BY expires_at
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: looked
-- What came of a look at a key.
UPDATE holdfast_idempotency SET ended = :ended::boolean, expires_at = :expires::bigint
WHERE channel_id = :channel::bigint AND key = :key::text AND message_id = :id::uuid AND NOT ended
RETURNING 1

-- name: redirect
UPDATE holdfast_idempotency SET message_id = :id::uuid, is_alias = true WHERE channel_id = :channel AND key = :key

-- name: follow
-- The keys of a dead message lead to its replay: whoever asks again is told how that ends, and they last from its end.
UPDATE holdfast_idempotency SET message_id = :new_id::uuid, expires_at = :now + lasts / 4, ended = false
WHERE message_id = :id::uuid AND channel_id = :channel
