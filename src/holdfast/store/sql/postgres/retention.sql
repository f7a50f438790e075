-- name: begin
-- One at a time, and nobody waits for whoever is at it.
SELECT 1 FROM holdfast_channel WHERE id = :topic FOR NO KEY UPDATE SKIP LOCKED

-- name: hold
-- Keeps some groups from claiming; not those that are claiming now. Nobody is waited for, so nobody can wait for us and be waited for.
SELECT l.group_id FROM holdfast_lane l
WHERE l.lane = :lane AND l.group_id IN (SELECT value::bigint FROM json_array_elements_text(:groups::json) AS value)
ORDER BY l.group_id
FOR UPDATE SKIP LOCKED

-- name: front
-- The oldest messages of a lane. (A bare `xid` would mean the number that is selected, and sort the whole lane by it.)
SELECT m.xid::text::bigint, m.seq, m.id, m.enqueued_at, m.expires_at, m.topic
FROM holdfast_message m
WHERE m.lane = :lane
ORDER BY m.lane, m.xid, m.seq
LIMIT :limit

-- name: readers
-- The groups of a topic, and the first message that each of them waits for.
SELECT g.id, c.name, g.dead_at IS NOT NULL, g.wanted, p.xid::text::bigint, p.seq
FROM holdfast_group g
JOIN holdfast_channel c ON c.id = g.channel_id
JOIN LATERAL (SELECT k FROM holdfast_cursor k WHERE k.group_id = g.id AND k.lane = :lane
              ORDER BY k.number DESC LIMIT 1) AS last ON true
LEFT JOIN LATERAL holdfast_first_pending(last.k) AS p ON true
WHERE g.source = :topic AND g.ended_at IS NULL
ORDER BY g.id

-- name: held
-- What is in someone's hands. In between may be messages from other windows, which are then kept a little longer.
SELECT r.after_xid::text::bigint, r.after_seq, r.last_xid::text::bigint, r.last_seq
FROM holdfast_group g
JOIN holdfast_run r ON r.group_id = g.id AND r.finished_at IS NULL
WHERE g.source = :topic AND r.lane = :lane

-- name: pending
-- Those of some messages that a group waits for.
SELECT m.seq
FROM (SELECT k FROM holdfast_cursor k WHERE k.group_id = :group AND k.lane = :lane ORDER BY k.number DESC LIMIT 1) AS last
JOIN holdfast_message m ON m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.k).lo)
WHERE m.seq IN (SELECT value::bigint FROM json_array_elements_text(:places::json) AS value)
  AND m.xid >= :first::text::xid8 AND m.xid <= :last::text::xid8 AND holdfast_is_pending(last.k, m.xid, m.seq)

-- name: remove
-- These, and none that has come in between since they were read.
DELETE FROM holdfast_message
WHERE lane = :lane AND xid >= :first::text::xid8 AND xid <= :last::text::xid8
  AND seq IN (SELECT value::bigint FROM json_array_elements_text(:places::json) AS value)

-- name: thin
-- SQLite needs this, which knows how many there are by their places.
SELECT 1 WHERE :lane::bigint IS NOT NULL AND :place::bigint IS NOT NULL
