-- name: remember
-- Keys are taken, unless they are known already and their time is not over: :keys is a list of [channel, key, window], :ids
-- and :digests are as long for each.
INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at)
SELECT n.value ->> 0, n.value ->> 1, substr(:ids, 16 * n.key + 1, 16), substr(:digests, 16 * n.key + 1, 16), :now + (n.value ->> 2)
FROM json_each(:keys) n
WHERE true
ON CONFLICT (channel_id, key) DO UPDATE
SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, is_alias = excluded.is_alias
WHERE holdfast_idempotency.expires_at <= :now
RETURNING message_id

-- name: alias
-- A second key of a message, unless it is known already and its time is not over.
INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at, is_alias)
VALUES (:channel, :key, :id, :digest, :now + :window, 1)
ON CONFLICT (channel_id, key) DO UPDATE
SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, is_alias = excluded.is_alias
WHERE holdfast_idempotency.expires_at <= :now
RETURNING 1

-- name: redirect
UPDATE holdfast_idempotency SET message_id = :id, is_alias = 1 WHERE channel_id = :channel AND key = :key

-- name: follow
-- The keys of a dead message lead to its replay: whoever asks again is told how that ends.
UPDATE holdfast_idempotency SET message_id = :new_id WHERE message_id = :id AND channel_id = :channel

-- name: recall
SELECT i.message_id, i.digest, r.result
FROM holdfast_idempotency i
LEFT JOIN holdfast_result r ON r.message_id = i.message_id
WHERE i.channel_id = :channel AND i.key = :key

-- name: find
SELECT i.message_id, r.result
FROM holdfast_idempotency i
LEFT JOIN holdfast_result r ON r.message_id = i.message_id
WHERE i.channel_id = :channel AND i.key = :key AND i.expires_at > :now

-- name: outdated
DELETE FROM holdfast_idempotency
WHERE channel_id = :channel AND key IN (
    SELECT key FROM holdfast_idempotency
    WHERE channel_id = :channel AND expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
)
