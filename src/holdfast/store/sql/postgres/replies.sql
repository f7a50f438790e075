-- name: is_due
SELECT 1 FROM holdfast_channel
WHERE tenant = :tenant AND substr(name, 1, length(:prefix::text)) = :prefix::text AND declared_at <= :now - 3600000000
LIMIT 1

-- name: retire
-- The moment is that of the new name from here on.
UPDATE holdfast_channel SET name = :gone::text || id::text, declared_at = :now
WHERE declared_at <= :now - 3600000000 AND id IN (
    SELECT id FROM holdfast_channel
    WHERE tenant = :tenant AND substr(name, 1, length(:prefix::text)) = :prefix::text AND substr(name, 1, length(:gone::text)) <> :gone::text
      AND declared_at <= :now - 3600000000
    LIMIT :limit
)

-- name: over
SELECT c.id, g.id
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id
WHERE c.tenant = :tenant AND substr(c.name, 1, length(:gone::text)) = :gone::text AND c.declared_at <= :now - 3600000000
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
