-- name: skipped
-- Those that are still there.
SELECT s.id FROM holdfast_skip s JOIN holdfast_message m ON m.id = s.id WHERE s.group_id = :group

-- name: skip
INSERT INTO holdfast_skip (group_id, id) VALUES (:group, :id::uuid) ON CONFLICT DO NOTHING
RETURNING 1

-- name: forget_gone
-- Those that were not kept for longer.
DELETE FROM holdfast_skip
WHERE group_id = :group AND NOT EXISTS (SELECT 1 FROM holdfast_message m WHERE m.id = holdfast_skip.id)

-- name: pass_by
DELETE FROM holdfast_skip WHERE group_id = :group AND id = :id::uuid RETURNING 1

-- name: forget_rows
-- Those that came from the log; a replay of a dead letter was asked for by hand.
DELETE FROM holdfast_row
WHERE replay_of IS NULL
  AND seq IN (SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'pending'
              UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'sending'
              UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'enqueued'
              UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND state = 'processing'
              UNION ALL SELECT seq FROM holdfast_row WHERE group_id = :group AND finished_at IS NOT NULL)

-- name: keys
-- The keys that still have rows.
SELECT DISTINCT order_key FROM holdfast_row
WHERE group_id = :group AND order_key <> '' AND finished_at IS NULL
ORDER BY order_key

-- name: row
SELECT order_key, replay_of FROM holdfast_row
WHERE group_id = :group AND id = :id::uuid AND finished_at IS NULL
FOR UPDATE

-- name: wanted
SELECT wanted FROM holdfast_group WHERE id = :group
