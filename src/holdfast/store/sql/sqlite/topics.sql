-- name: hold_names
-- PostgreSQL needs this; a SQLite transaction already has the only write lock.
SELECT 1 WHERE :alone IS NOT NULL AND :names IS NOT NULL

-- name: hold
-- PostgreSQL needs this to keep retention out; a SQLite transaction already has the only write lock.
SELECT 1 WHERE :channel IS NOT NULL

-- name: start_earliest
INSERT INTO holdfast_cursor (group_id, lane, position, live_from)
VALUES (:group, :lane, :lane << 40, coalesce((SELECT tail FROM holdfast_lane WHERE lane = :lane), 0))
ON CONFLICT DO NOTHING

-- name: start_latest
INSERT INTO holdfast_cursor (group_id, lane, position)
VALUES (:group, :lane, coalesce((SELECT tail FROM holdfast_lane WHERE lane = :lane), :lane << 40))
ON CONFLICT DO NOTHING

-- name: start_at
-- Before the first message that is not older.
INSERT INTO holdfast_cursor (group_id, lane, position, live_from)
VALUES (:group, :lane, coalesce(
    (SELECT min(position) - 1 FROM holdfast_message
     WHERE position > :lane << 40 AND position < (:lane + 1) << 40 AND enqueued_at >= :at),
    (SELECT tail FROM holdfast_lane WHERE lane = :lane), :lane << 40),
    coalesce((SELECT tail FROM holdfast_lane WHERE lane = :lane), 0))
ON CONFLICT DO NOTHING

-- name: start_with
-- Before a message, if it is in this lane.
INSERT INTO holdfast_cursor (group_id, lane, position, live_from)
SELECT :group, :lane, position - 1, (SELECT tail FROM holdfast_lane WHERE lane = :lane) FROM holdfast_message WHERE id = :id AND position >> 40 = :lane
ON CONFLICT DO NOTHING
RETURNING 1

-- name: place_of
SELECT position >> 40, enqueued_at FROM holdfast_message WHERE id = :id

-- name: is_in_past
-- Whether what a group gets next of a lane was there before it.
SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane AND position < live_from

-- name: lag
-- How many messages of a lane a group still wants: one by one where there may be holes, few as they are, and by subtraction behind that.
-- Those that have outlived their time are not wanted; an index has them.
SELECT CASE WHEN g.wanted IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id) THEN
    (SELECT count(*) FROM holdfast_message m WHERE m.position > c.position AND m.position <= l.thin_to)
    + coalesce((SELECT m.position FROM holdfast_message m
                WHERE m.position > max(c.position, l.thin_to) AND m.position < (c.lane + 1) << 40
                ORDER BY m.position DESC LIMIT 1) + 1
               - (SELECT m.position FROM holdfast_message m
                  WHERE m.position > max(c.position, l.thin_to) AND m.position < (c.lane + 1) << 40
                  ORDER BY m.position LIMIT 1), 0)
    - (SELECT count(*) FROM holdfast_message m WHERE m.position >> 40 = :lane AND m.expires_at <= :now AND +m.position > c.position)
ELSE
    (SELECT count(*) FROM holdfast_message m
     WHERE m.position > c.position AND m.position < (c.lane + 1) << 40 AND (m.expires_at IS NULL OR m.expires_at > :now)
       AND (g.wanted IS NULL OR m.topic REGEXP g.wanted)
       AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id))
END
FROM holdfast_group g
JOIN holdfast_cursor c ON c.group_id = g.id AND c.lane = :lane
LEFT JOIN holdfast_lane l ON l.lane = :lane
WHERE g.id = :group

-- name: past
-- How many messages of a lane a group still wants of those that were there when it was put where it began. Counted as the lag is.
SELECT CASE WHEN g.wanted IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id) THEN
    (SELECT count(*) FROM holdfast_message m WHERE m.position > c.position AND m.position <= min(l.thin_to, c.live_from))
    + coalesce((SELECT m.position FROM holdfast_message m
                WHERE m.position > max(c.position, l.thin_to) AND m.position <= c.live_from
                ORDER BY m.position DESC LIMIT 1) + 1
               - (SELECT m.position FROM holdfast_message m
                  WHERE m.position > max(c.position, l.thin_to) AND m.position <= c.live_from
                  ORDER BY m.position LIMIT 1), 0)
ELSE
    (SELECT count(*) FROM holdfast_message m
     WHERE m.position > c.position AND m.position <= c.live_from AND (g.wanted IS NULL OR m.topic REGEXP g.wanted)
       AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id))
END
FROM holdfast_group g
JOIN holdfast_cursor c ON c.group_id = g.id AND c.lane = :lane
LEFT JOIN holdfast_lane l ON l.lane = :lane
WHERE g.id = :group

-- name: standings
-- The groups of the topic that keeps a message, and how each stands to it: what it wants, whether it has come to it, what it has of it.
SELECT c.name, g.id, g.wanted, m.position > k.position,
       EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id),
       (SELECT r.state FROM holdfast_row r WHERE r.id = m.id AND r.group_id = g.id),
       EXISTS (SELECT 1 FROM holdfast_dead d WHERE d.message_id = m.id AND d.group_id = g.id),
       EXISTS (SELECT 1 FROM holdfast_run u WHERE u.group_id = g.id AND u.finished_at IS NULL)
FROM holdfast_message m
JOIN holdfast_group g ON g.source = (m.position >> 40) / 4 AND g.ended_at IS NULL
JOIN holdfast_channel c ON c.id = g.channel_id
JOIN holdfast_cursor k ON k.group_id = g.id AND k.lane = m.position >> 40
WHERE m.id = :id
ORDER BY c.name

-- name: peek
SELECT m.id, m.position >> 40, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic, m.expires_at, m.enqueued_at
FROM holdfast_message m
WHERE m.position > (SELECT position FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
  AND m.position < (:lane + 1) << 40 AND m.enqueued_at > :born AND (m.expires_at IS NULL OR m.expires_at > :now)
  AND CASE WHEN (SELECT wanted FROM holdfast_group WHERE id = :group) IS NULL THEN 1
           ELSE m.topic REGEXP (SELECT wanted FROM holdfast_group WHERE id = :group) END
  AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = :group AND s.id = m.id)
ORDER BY m.position
LIMIT :limit

-- name: unwanted
-- Whether a group is owed a message whose name does not match.
SELECT 1
FROM holdfast_group g
JOIN holdfast_cursor c ON c.group_id = g.id AND c.lane = :lane
JOIN holdfast_message m ON m.position > c.position AND m.position < (:lane + 1) << 40
WHERE g.id = :group AND (g.wanted IS NULL OR m.topic REGEXP g.wanted) AND NOT m.topic REGEXP :wanted
  AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)
LIMIT 1
