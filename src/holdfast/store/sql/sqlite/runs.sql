-- name: next_token
UPDATE holdfast_counter SET value = value + 1 WHERE name = 'token' RETURNING value

-- name: open
INSERT INTO holdfast_run (token, group_id, lane, first, last, size, settled, until, worker, claimed_at)
VALUES (:token, :group, :lane, :first, :last, :size, :settled, :until, :worker, :now)

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
