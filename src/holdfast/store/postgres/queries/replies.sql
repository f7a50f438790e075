-- name: touch
UPDATE holdfast_channel SET declared_at = (SELECT holdfast_now(:now::bigint)) WHERE id = :channel

-- name: is_due
SELECT 1 FROM holdfast_channel
WHERE tenant = :tenant AND substr(name, 1, length(:prefix::text)) = :prefix::text AND declared_at <= (SELECT holdfast_now(:now::bigint)) - 3600000000
LIMIT 1

-- name: retire
-- The moment is that of the new name from here on.
UPDATE holdfast_channel SET name = :gone::text || id::text, declared_at = (SELECT holdfast_now(:now::bigint))
WHERE declared_at <= (SELECT holdfast_now(:now::bigint)) - 3600000000 AND id IN (
    SELECT id FROM holdfast_channel
    WHERE tenant = :tenant AND substr(name, 1, length(:prefix::text)) = :prefix::text AND substr(name, 1, length(:gone::text)) <> :gone::text
      AND declared_at <= (SELECT holdfast_now(:now::bigint)) - 3600000000
    LIMIT :limit
)

-- name: over
SELECT c.id, g.id
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id
WHERE c.tenant = :tenant AND substr(c.name, 1, length(:gone::text)) = :gone::text AND c.declared_at <= (SELECT holdfast_now(:now::bigint)) - 3600000000
LIMIT :limit

-- name: forget_rows
-- (Planned as if for all of them: for a few, PostgreSQL would read the table from its beginning.)
WITH found AS MATERIALIZED (
    SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'pending'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'sending'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'enqueued'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'processing'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND finished_at IS NOT NULL
)
DELETE FROM holdfast_row WHERE seq = ANY (ARRAY(SELECT seq FROM found LIMIT :limit))

-- name: forget_runs
DELETE FROM holdfast_run WHERE token IN (
    SELECT token FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL
    UNION ALL SELECT token FROM holdfast_run WHERE group_id = :group AND finished_at IS NOT NULL
)

-- name: forget_cursors
DELETE FROM holdfast_cursor WHERE group_id = :group

-- name: forget_tallies
DELETE FROM holdfast_tally WHERE group_id = :group

-- name: forget_consumers
DELETE FROM holdfast_consumer WHERE group_id = :group

-- name: forget_results
DELETE FROM holdfast_result WHERE group_id = :group

-- name: forget_efforts
DELETE FROM holdfast_effort WHERE group_id = :group

-- name: forget_checks
DELETE FROM holdfast_commitment WHERE group_id = :group

-- name: forget_messages
DELETE FROM holdfast_message
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast_message
    WHERE lane >= :channel::bigint * 4 AND lane < :channel::bigint * 4 + 4
    LIMIT :limit
))

-- name: forget_lanes
DELETE FROM holdfast_lane WHERE group_id IN (SELECT id FROM holdfast_group WHERE channel_id = :channel)

-- name: forget_rings
-- What came back to a limited queue is what PostgreSQL notes by channel; it rings without a table.
DELETE FROM holdfast_return WHERE channel_id = :channel

-- name: forget_keys
DELETE FROM holdfast_idempotency WHERE channel_id = :channel

-- name: forget_notices
DELETE FROM holdfast_notice WHERE channel_id = :channel

-- name: forget_dead
DELETE FROM holdfast_dead WHERE channel_id = :channel

-- name: forget_group
DELETE FROM holdfast_group WHERE channel_id = :channel

-- name: forget_channel
DELETE FROM holdfast_channel WHERE id = :channel
