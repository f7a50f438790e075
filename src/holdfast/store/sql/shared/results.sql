-- name: prolong
-- The idempotency key of a message lasts until then.
UPDATE holdfast_result SET expires_at = :expires::bigint WHERE message_id = :id::uuid AND expires_at < :expires::bigint RETURNING 1

-- name: find
SELECT result FROM holdfast_result WHERE message_id = :id::uuid
