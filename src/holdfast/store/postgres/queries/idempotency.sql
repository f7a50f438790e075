-- name: remember
-- Keys are taken, unless they are known already and their time is not over: :keys is a list of [channel, key, window], :ids
-- and :digests are as long for each. Rivals wait here for each other's commit.
INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at)
SELECT (n.value ->> 0)::bigint, n.value ->> 1, encode(substr(:ids::bytea, (16 * n.place - 15)::integer, 16), 'hex')::uuid,
       substr(:digests::bytea, (16 * n.place - 15)::integer, 16), (SELECT holdfast_now(:now::bigint)) + (n.value ->> 2)::bigint
FROM json_array_elements(:keys::json) WITH ORDINALITY AS n (value, place)
ORDER BY n.place
ON CONFLICT (channel_id, key) DO UPDATE
SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, is_alias = excluded.is_alias
WHERE holdfast_idempotency.expires_at <= (SELECT holdfast_now(:now::bigint))
RETURNING message_id

-- name: alias
-- A second key of a message, unless it is known already and its time is not over.
INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at, is_alias)
VALUES (:channel, :key, :id::uuid, :digest, (SELECT holdfast_now(:now::bigint)) + :window, true)
ON CONFLICT (channel_id, key) DO UPDATE
SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, is_alias = excluded.is_alias
WHERE holdfast_idempotency.expires_at <= (SELECT holdfast_now(:now::bigint))
RETURNING 1

-- name: redirect
UPDATE holdfast_idempotency SET message_id = :id::uuid, is_alias = true WHERE channel_id = :channel AND key = :key

-- name: follow
-- The keys of a dead message lead to its replay: whoever asks again is told how that ends.
UPDATE holdfast_idempotency SET message_id = :new_id::uuid WHERE message_id = :id::uuid AND channel_id = :channel

-- name: recall
SELECT i.message_id, i.digest, r.result
FROM holdfast_idempotency i
LEFT JOIN holdfast_result r ON r.message_id = i.message_id
WHERE i.channel_id = :channel AND i.key = :key

-- name: find
SELECT i.message_id, r.result
FROM holdfast_idempotency i
LEFT JOIN holdfast_result r ON r.message_id = i.message_id
WHERE i.channel_id = :channel AND i.key = :key AND i.expires_at > (SELECT holdfast_now(:now::bigint))

-- name: outdated
DELETE FROM holdfast_idempotency
WHERE channel_id = :channel AND key = ANY (ARRAY(
    SELECT key FROM holdfast_idempotency
    WHERE channel_id = :channel AND expires_at <= (SELECT holdfast_now(:now::bigint))
    ORDER BY expires_at
    LIMIT :limit
))
