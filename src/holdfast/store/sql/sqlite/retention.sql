-- name: begin
-- PostgreSQL needs this to keep others out; a SQLite transaction already has the only write lock.
SELECT 1 WHERE :topic IS NOT NULL

-- name: hold
SELECT value FROM json_each(:groups) WHERE :lane IS NOT NULL

-- name: front
-- The oldest messages of a lane.
SELECT 0, position, id, enqueued_at, expires_at, topic
FROM holdfast_message
WHERE position > :lane << 40 AND position < (:lane + 1) << 40
ORDER BY position
LIMIT :limit

-- name: readers
-- The groups of a topic, and the first message that each of them waits for.
SELECT g.id, c.name, g.dead_at IS NOT NULL, g.wanted, 0,
       (SELECT min(m.position) FROM holdfast_message m WHERE m.position > k.position AND m.position < (:lane + 1) << 40)
FROM holdfast_group g
JOIN holdfast_channel c ON c.id = g.channel_id
JOIN holdfast_cursor k ON k.group_id = g.id AND k.lane = :lane
WHERE g.source = :topic AND g.ended_at IS NULL
ORDER BY g.id

-- name: held
-- What is in someone's hands.
SELECT 0, r.first - 1, 0, r.last
FROM holdfast_group g
CROSS JOIN holdfast_run r ON r.group_id = g.id AND r.finished_at IS NULL
WHERE g.source = :topic AND r.lane = :lane

-- name: pending
-- Those of some messages that a group waits for.
SELECT p.value
FROM json_each(:places) AS p
WHERE p.value > (SELECT position FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
  AND :first IS NOT NULL AND :last IS NOT NULL

-- name: remove
DELETE FROM holdfast_message
WHERE position IN (SELECT value FROM json_each(:places)) AND :lane IS NOT NULL AND :first IS NOT NULL AND :last IS NOT NULL

-- name: thin
-- From here on back there may be holes, around what someone holds.
UPDATE holdfast_lane SET thin_to = max(thin_to, :place) WHERE lane = :lane
RETURNING 1
