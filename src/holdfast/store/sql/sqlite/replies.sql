-- name: is_due
-- Names are compared as numbers, so that an index finds those with a beginning.
SELECT 1 FROM holdfast_channel
WHERE tenant = :tenant AND name >= :prefix AND name < :prefix || char(0x10FFFF) AND declared_at <= :now - 3600000000
LIMIT 1

-- name: retire
-- The moment is that of the new name from here on.
UPDATE holdfast_channel SET name = :gone || id, declared_at = :now
WHERE declared_at <= :now - 3600000000 AND id IN (
    SELECT id FROM holdfast_channel
    WHERE tenant = :tenant AND (name >= :prefix AND name < :gone OR name >= :gone || char(0x10FFFF) AND name < :prefix || char(0x10FFFF))
      AND declared_at <= :now - 3600000000
    LIMIT :limit
)

-- name: over
SELECT c.id, g.id
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id
WHERE c.tenant = :tenant AND c.name >= :gone AND c.name < :gone || char(0x10FFFF) AND c.declared_at <= :now - 3600000000
LIMIT :limit

-- name: forget_rows
DELETE FROM holdfast_row WHERE seq IN (
    SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'pending'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'sending'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'enqueued'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'processing'
    UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND finished_at IS NOT NULL
    LIMIT :limit
)

-- name: forget_messages
DELETE FROM holdfast_message
WHERE position IN (
    SELECT position FROM holdfast_message
    WHERE position >= (:channel * 4) << 40 AND position < (:channel * 4 + 4) << 40
    LIMIT :limit
)

-- name: forget_lanes
DELETE FROM holdfast_lane WHERE lane >= :channel * 4 AND lane < :channel * 4 + 4

-- name: forget_rings
DELETE FROM holdfast_ring WHERE channel_id = :channel
