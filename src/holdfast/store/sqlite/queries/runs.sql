-- name: next_token
UPDATE holdfast_counter SET value = value + 1 WHERE name = 'token' RETURNING value

-- name: open
INSERT INTO holdfast_run (token, group_id, lane, first, last, size, settled, until, worker, claimed_at)
VALUES (:token, :group, :lane, :first, :last, :size, :settled, :until, :worker, :now)

-- name: lock
SELECT r.size, r.settled, r.gone, g.history, g.limited, g.source IS NOT NULL
FROM holdfast_run r JOIN holdfast_group g ON g.id = r.group_id
WHERE r.token = :token AND r.finished_at IS NULL

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

-- name: members
SELECT m.id, m.position >> 40, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic, m.expires_at, m.enqueued_at
FROM holdfast_run r
JOIN holdfast_message m ON m.position >= r.first AND m.position <= r.last
WHERE r.token = :token
ORDER BY m.position
LIMIT :limit OFFSET :passed

-- name: holding
-- The open run that a claimed message of a lane is in, and how many of that run are before it. A group has few open runs.
SELECT r.token, r.size, r.settled, r.gone, r.worker, r.until, r.claimed_at,
       (SELECT count(*) FROM holdfast_message n WHERE n.position >= r.first AND n.position < m.position)
FROM holdfast_message m
JOIN holdfast_run r ON r.group_id = :group AND r.finished_at IS NULL AND r.first <= m.position AND r.last >= m.position
WHERE m.id = :id

-- name: outdated
SELECT r.token, r.size
FROM holdfast_run r
JOIN holdfast_group g ON g.id = r.group_id
WHERE r.group_id = :group AND r.finished_at <= :now - g.history
ORDER BY r.finished_at
LIMIT :limit

-- name: oldest_finished
SELECT r.token, r.size, r.finished_at
FROM holdfast_run r
WHERE r.group_id = :group AND r.finished_at IS NOT NULL
ORDER BY r.finished_at
LIMIT :limit

-- name: drop_messages
DELETE FROM holdfast_message
WHERE position >= (SELECT first FROM holdfast_run WHERE token = :token)
  AND position <= (SELECT last FROM holdfast_run WHERE token = :token)

-- name: shorten_messages
-- Of a run that is too long to go at once, the front.
DELETE FROM holdfast_message
WHERE position IN (
    SELECT m.position
    FROM holdfast_run r
    JOIN holdfast_message m ON m.position >= r.first AND m.position <= r.last
    WHERE r.token = :token
    ORDER BY m.position
    LIMIT :limit
)

-- name: shorten
UPDATE holdfast_run SET size = size - :limit WHERE token = :token

-- name: drop
DELETE FROM holdfast_run WHERE token = :token RETURNING 1

-- name: open_runs
SELECT size, settled FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL

-- name: is_older
SELECT 1 FROM holdfast_run WHERE group_id = :group AND finished_at <= :now - :age LIMIT 1
