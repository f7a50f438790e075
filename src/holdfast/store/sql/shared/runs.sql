-- name: lock
SELECT r.size, r.settled, r.gone, g.history, g.limited, g.source IS NOT NULL
FROM holdfast_run r JOIN holdfast_group g ON g.id = r.group_id
WHERE r.token = :token AND r.finished_at IS NULL
FOR UPDATE OF r

-- name: split
UPDATE holdfast_run SET settled = :settled, gone = :gone WHERE token = :token

-- name: finish
UPDATE holdfast_run SET finished_at = :now WHERE token = :token
RETURNING group_id, size

-- name: extend
UPDATE holdfast_run SET until = :now + :micros
WHERE token = :token AND finished_at IS NULL
RETURNING until

-- name: lapsed
SELECT r.token, r.size, r.settled, r.gone, g.history, r.worker, r.claimed_at, g.source IS NOT NULL
FROM holdfast_run r JOIN holdfast_group g ON g.id = r.group_id
WHERE r.group_id = :group AND r.finished_at IS NULL AND r.until <= :now
ORDER BY r.until, r.token
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: outdated
SELECT r.token, r.size
FROM holdfast_run r
JOIN holdfast_group g ON g.id = r.group_id
WHERE r.group_id = :group AND r.finished_at <= :now - g.history
ORDER BY r.finished_at
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: oldest_finished
SELECT r.token, r.size, r.finished_at
FROM holdfast_run r
WHERE r.group_id = :group AND r.finished_at IS NOT NULL
ORDER BY r.finished_at
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: shorten
UPDATE holdfast_run SET size = size - :limit WHERE token = :token

-- name: drop
DELETE FROM holdfast_run WHERE token = :token RETURNING 1

-- name: open_runs
SELECT size, settled FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL

-- name: is_older
SELECT 1 FROM holdfast_run WHERE group_id = :group AND finished_at <= :now - :age ORDER BY finished_at LIMIT 1
