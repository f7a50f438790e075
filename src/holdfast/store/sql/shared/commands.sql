-- name: find
-- The key of a run, and its receipt if there is one. A message's own idempotency key comes before its id.
SELECT k.key, c.result
FROM (
    SELECT coalesce(
        (SELECT key FROM holdfast_idempotency WHERE message_id = :id::uuid AND NOT is_alias ORDER BY channel_id LIMIT 1), :key::text
    ) AS key
) AS k
LEFT JOIN holdfast_command AS c
    ON c.tenant = :tenant AND c.command = :command AND c.key = k.key AND c.finished_at IS NOT NULL
    AND c.expires_at > :now

-- name: take
-- The right to run it, unless it was run; rivals wait here for each other's commit. What was begun and never finished counts for nothing.
INSERT INTO holdfast_command (tenant, command, key, expires_at)
VALUES (:tenant, :command, :key, :now + :window)
ON CONFLICT (tenant, command, key) DO UPDATE
SET result = NULL, finished_at = NULL, expires_at = excluded.expires_at
WHERE holdfast_command.finished_at IS NULL OR holdfast_command.expires_at <= :now
RETURNING 1

-- name: finish
UPDATE holdfast_command
SET result = :result,
    finished_at = :now,
    expires_at = :now + :window
WHERE tenant = :tenant AND command = :command AND key = :key

-- name: outdated
DELETE FROM holdfast_command
WHERE tenant = :tenant AND (command, key) IN (
    SELECT command, key FROM holdfast_command
    WHERE tenant = :tenant AND expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
)
