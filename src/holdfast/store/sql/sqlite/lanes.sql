-- name: reserve
-- Takes :count positions at the end of a lane; a position is never given out twice.
INSERT INTO holdfast_lane (lane, tail) VALUES (:lane, :start + :count)
ON CONFLICT (lane) DO UPDATE SET tail = tail + :count
RETURNING tail

-- name: append
INSERT INTO holdfast_message (position, id, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: append_bare
-- Messages that have only a body: one behind the other in :ids and :bodies, and for each where its body starts, in the upper
-- 32 bits, and how long it is.
INSERT INTO holdfast_message (position, id, body, enqueued_at)
SELECT :first + n.key, substr(:ids, 16 * n.key + 1, 16), substr(:bodies, n.value >> 32, n.value & 4294967295), :now
FROM json_each(:places) n

-- name: look
-- Where there is something to claim, priority by priority: most lanes are empty.
SELECT g.limited, g.wanted, g.fed, c.lane, c.position, c.live_from,
       EXISTS (SELECT 1 FROM holdfast_row r
               WHERE r.group_id = :group AND r.lane = c.lane AND r.state = 'pending' AND r.head = 1 AND r.due_at <= :now),
       EXISTS (SELECT 1 FROM holdfast_message m WHERE m.position > c.position AND m.position < (c.lane + 1) << 40)
FROM holdfast_group g
JOIN holdfast_cursor c ON c.group_id = g.id
WHERE g.id = :group AND NOT g.paused AND g.dead_at IS NULL AND g.missing = 0
ORDER BY c.lane

-- name: read
SELECT position, id, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_message
WHERE position > :after AND position < :end
ORDER BY position
LIMIT :limit

-- name: move_cursor
UPDATE holdfast_cursor SET position = :position WHERE group_id = :group AND lane = :lane

-- name: member
-- The message of a lane by id, in the columns that a row takes over.
SELECT id, position >> 40, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_message
WHERE id = :id

-- name: hold
-- PostgreSQL needs this to keep claims out; a SQLite transaction already has the only write lock.
SELECT 1 WHERE :group IS NOT NULL AND :lane IS NOT NULL

-- name: is_pending
SELECT 1
FROM holdfast_message m
JOIN holdfast_cursor c ON c.group_id = :group AND c.lane = m.position >> 40
WHERE m.id = :id AND m.position > c.position

-- name: purge
-- Everything that was not claimed yet.
DELETE FROM holdfast_message
WHERE position > (SELECT position FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
  AND position < (:lane + 1) << 40

-- name: front
SELECT id, position >> 40, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_message
WHERE position > (SELECT position FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
  AND position < (:lane + 1) << 40
ORDER BY position
LIMIT :limit

-- name: peek
-- Without those that are older than their queue allows: they are in front, so live ones are not looked at for it.
SELECT id, position >> 40, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_message
WHERE position > (SELECT position FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
  AND position < (:lane + 1) << 40 AND enqueued_at > :born
ORDER BY position
LIMIT :limit

-- name: find
-- A message of a lane by id, with the channel that it belongs to.
SELECT g.id, m.position >> 40, m.enqueued_at, c.name, c.kind
FROM holdfast_message m
JOIN holdfast_channel c ON c.id = (m.position >> 40) / 4
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE m.id = :id AND c.tenant = :tenant

-- name: search
-- By one of the three; each has an index but the last.
SELECT DISTINCT id FROM (
    SELECT m.id FROM holdfast_message m
    JOIN holdfast_channel c ON c.id = (m.position >> 40) / 4
    WHERE m.key = :key AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.id > :after)
    UNION ALL
    SELECT m.id FROM holdfast_message m
    JOIN holdfast_channel c ON c.id = (m.position >> 40) / 4
    WHERE m.correlation_id = :correlation_id AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.id > :after)
    UNION ALL
    SELECT m.id FROM holdfast_message m
    JOIN holdfast_channel c ON c.id = (m.position >> 40) / 4
    WHERE :header IS NOT NULL AND instr(m.headers, :header) > 0 AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.id > :after)
) AS found
ORDER BY id
LIMIT :limit
