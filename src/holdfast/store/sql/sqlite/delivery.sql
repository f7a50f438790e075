-- name: held_by_key
SELECT key, count(*) FROM (
    SELECT r.key FROM holdfast_row r WHERE r.group_id = :group AND r.state = 'processing' AND r.key IS NOT NULL
    UNION ALL
    SELECT m.key FROM holdfast_run r CROSS JOIN holdfast_message m
    WHERE r.group_id = :group AND r.finished_at IS NULL AND m.position >= r.first AND m.position <= r.last AND m.key IS NOT NULL
)
GROUP BY key

-- name: note
-- So many messages of a group ('') or a key were claimed.
INSERT INTO holdfast_start (group_id, key, slot, at, count)
VALUES (:group, :key, :now / max(:per / 64, 1), :now, :count)
ON CONFLICT (group_id, key, slot) DO UPDATE SET at = max(at, excluded.at), count = count + excluded.count

-- name: due
-- What can be handed over, but for keys that are :full.
SELECT seq, key
FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND due_at <= :now
  AND (key IS NULL OR key NOT IN (SELECT value FROM json_each(:full)))
ORDER BY due_at, seq
LIMIT :limit

-- name: token
UPDATE holdfast_counter SET value = value + 1 WHERE name = 'token' RETURNING value

-- name: unheard
-- Whoever was sending these is gone.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE seq IN (
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'sending' AND until <= :now
    ORDER BY until, seq
    LIMIT :limit
)

-- name: wait_longer
UPDATE holdfast_row
SET until = :now + :patience
WHERE seq IN (
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'enqueued' AND until <= :now
    ORDER BY until, seq
    LIMIT :limit
)

-- name: send_again
-- Pointers that are lost: away for as long as :away, at least.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE seq IN (
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'enqueued' AND until <= :now AND handed_at <= :now - :away
    ORDER BY until, seq
    LIMIT :limit
)

-- name: fall_back
-- SQS is out of reach: what was handed over so long ago is the database's to deliver.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE seq IN (
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'enqueued' AND handed_at <= :now - :away
    ORDER BY until, seq
    LIMIT :limit
)

-- name: unsent
-- Deaths that nobody outside was told of yet.
SELECT id, message_id, attempts, error, errors, failed_at
FROM holdfast_dead
WHERE channel_id = :channel AND unsent = 1
ORDER BY id
LIMIT :limit

-- name: sent
UPDATE holdfast_dead SET unsent = 0 WHERE id = :id AND unsent = 1 RETURNING 1
