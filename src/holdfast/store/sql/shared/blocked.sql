-- name: add
INSERT INTO holdfast_blocked (group_id, order_key, dead_id, blocked_at)
VALUES (:group, :order_key, :dead_id::uuid, :now)
ON CONFLICT (group_id, order_key) DO UPDATE SET dead_id = excluded.dead_id, blocked_at = excluded.blocked_at

-- name: remove
DELETE FROM holdfast_blocked WHERE group_id = :group AND order_key = :order_key RETURNING 1

-- name: remove_for
-- The key that this dead letter blocks, if it does.
DELETE FROM holdfast_blocked WHERE group_id = :group AND order_key = :order_key AND dead_id = :dead_id::uuid RETURNING 1

-- name: list
SELECT b.order_key, b.dead_id, b.blocked_at,
       (SELECT count(*) FROM holdfast_row r
        WHERE r.group_id = b.group_id AND r.order_key = b.order_key AND r.order_key <> '' AND r.finished_at IS NULL
          AND (r.token IS NOT NULL OR r.enqueued_at > :born AND (r.expires_at IS NULL OR r.expires_at > :now)))
FROM holdfast_blocked b
WHERE b.group_id = :group
ORDER BY b.blocked_at, b.order_key
LIMIT :limit
