-- name: note
-- Whatever began in the same slot counts as long as the last of it.
INSERT INTO holdfast_start (group_id, key, slot, at, count)
VALUES (:group, :key, :now / max(:per / 64, 1), :now, :count)
ON CONFLICT (group_id, key, slot) DO UPDATE SET at = max(at, excluded.at), count = count + excluded.count

-- name: outdated
DELETE FROM holdfast_start
WHERE (group_id, key, slot) IN (SELECT group_id, key, slot FROM holdfast_start
                                WHERE group_id = :group AND at <= :now - :per
                                ORDER BY at
                                LIMIT :limit)

-- name: front
-- The next due rows of a lane, oldest first, and which of them their keys have room for.
WITH front AS (
    SELECT seq, key, alone, due_at FROM holdfast_row
    WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND due_at <= :now AND (alone = 0 OR :alone)
    ORDER BY due_at, seq
    LIMIT :limit
), held AS (
    SELECT key, count(*) AS count FROM (
        SELECT r.key FROM holdfast_row r WHERE r.group_id = :group AND r.state = 'processing' AND r.key IS NOT NULL
        UNION ALL
        SELECT m.key FROM holdfast_run r CROSS JOIN holdfast_message m
        WHERE r.group_id = :group AND r.finished_at IS NULL AND m.position >= r.first AND m.position <= r.last AND m.key IS NOT NULL
    )
    GROUP BY key
), room AS (
    SELECT k.key,
           min(coalesce(l.key_concurrency - coalesce(h.count, 0), :limit),
               coalesce(l.key_rate_count - (SELECT coalesce(sum(s.count), 0) FROM holdfast_start s
                                            WHERE s.group_id = :group AND s.key = '=' || k.key AND s.at > :now - l.key_rate_per),
                        :limit)) AS count
    FROM (SELECT DISTINCT key FROM front WHERE key IS NOT NULL) AS k
    JOIN holdfast_limit l ON l.group_id = :group
    LEFT JOIN held h ON h.key = k.key
)
SELECT f.seq, f.alone, f.key IS NULL OR row_number() OVER (PARTITION BY f.key ORDER BY f.due_at, f.seq) <= room.count
FROM front f
LEFT JOIN room ON room.key = f.key
ORDER BY f.due_at, f.seq

-- name: first_key
-- Of the rows that may be claimed some day.
SELECT min(key) FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND key >= ''

-- name: next_key
SELECT min(key) FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND key > :key

-- name: first_of_key
SELECT seq FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND key IS :key AND due_at <= :now
  AND (alone = 0 OR :alone)
ORDER BY due_at, seq
LIMIT 1

-- name: held_by_key
-- A run with keys was claimed before they had limits; its messages count until it is over.
SELECT key, count(*) FROM (
    SELECT r.key FROM holdfast_row r WHERE r.group_id = :group AND r.state = 'processing' AND r.key IS NOT NULL
    UNION ALL
    SELECT m.key FROM holdfast_run r CROSS JOIN holdfast_message m
    WHERE r.group_id = :group AND r.finished_at IS NULL AND m.position >= r.first AND m.position <= r.last AND m.key IS NOT NULL
)
GROUP BY key

-- name: front_alone
-- The rows that must be alone, oldest first.
SELECT seq, key
FROM holdfast_row
WHERE group_id = :group AND state = 'pending' AND head = 1 AND alone = 1 AND due_at <= :now
ORDER BY due_at, seq
LIMIT 20

-- name: next_turn
UPDATE holdfast_limit SET turn = :key WHERE group_id = :group

-- name: row
SELECT seq, id, lane, attempts, alone, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_row
WHERE seq = :seq

-- name: next_row
-- How long until the next row of a lane that is not due yet is.
SELECT min(due_at) - :now FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND due_at > :now
