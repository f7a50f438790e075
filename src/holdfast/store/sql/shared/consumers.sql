-- name: see
INSERT INTO holdfast_consumer (group_id, worker, seen_at) VALUES (:group, :worker, :now)
ON CONFLICT (group_id, worker) DO UPDATE SET seen_at = excluded.seen_at

-- name: count
-- Those who asked for work a short while ago.
SELECT count(*) FROM holdfast_consumer WHERE group_id = :group AND seen_at > :now - 45000000

-- name: recent
-- Those who asked for work a short while ago, and when last.
SELECT worker, seen_at FROM holdfast_consumer WHERE group_id = :group AND seen_at > :now - 45000000 ORDER BY worker
