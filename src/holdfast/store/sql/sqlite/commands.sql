-- name: keep
-- The first one stays.
INSERT INTO holdfast_command (tenant, command, key, result, finished_at, expires_at)
VALUES (:tenant, :command, :key, :result, :now, :now + :window)
ON CONFLICT (tenant, command, key) DO UPDATE
SET result = excluded.result, finished_at = excluded.finished_at, expires_at = excluded.expires_at
WHERE holdfast_command.finished_at IS NULL OR holdfast_command.expires_at <= :now
RETURNING 1
