-- name: remember
-- A key is taken, unless it is known already and its time is not over. Rivals wait here for each other's commit.
INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at)
VALUES (:channel, :key, :id, :digest, :now + :window)
ON CONFLICT (channel_id, key) DO UPDATE
SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at
WHERE holdfast_idempotency.expires_at <= :now
RETURNING 1

-- name: recall
SELECT i.message_id, i.digest, r.result
FROM holdfast_idempotency i
LEFT JOIN holdfast_result r ON r.message_id = i.message_id
WHERE i.channel_id = :channel AND i.key = :key

-- name: outdated
DELETE FROM holdfast_idempotency
WHERE channel_id = :channel AND key IN (
    SELECT key FROM holdfast_idempotency
    WHERE channel_id = :channel AND expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
)
