-- name: hold_names
-- Who declares a topic waits for all who declare something that begins with the same segment, and they for it: of two names of
-- which one would own the other, the second is seen to be too late.
SELECT CASE WHEN :alone::boolean THEN pg_advisory_xact_lock(hashtextextended(:names::text, 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended(:names::text, 0)) END

-- name: hold
-- Keeps retention out until the transaction ends.
SELECT 1 FROM holdfast_channel WHERE id = :channel FOR NO KEY UPDATE

-- name: start_earliest
-- With a window of all that is committed, unless there is nothing.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
), first AS (
    SELECT m.xid FROM holdfast_message m WHERE m.lane = :lane ORDER BY m.xid, m.seq LIMIT 1
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, CASE WHEN first.xid IS NULL THEN now_at ELSE '1:1:' END, now_at,
       CASE WHEN first.xid IS NULL THEN pg_snapshot_xmin(now_at) ELSE '1' END, -1
FROM pg_current_snapshot() AS now_at
LEFT JOIN first ON true
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)

-- name: start_latest
-- After a snapshot that shows all that is committed, and nothing that is still to be.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, now_at, now_at, pg_snapshot_xmin(now_at), -1 FROM pg_current_snapshot() AS now_at
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)

-- name: start_at
-- Inside a window of all that is committed, before the first message that is not older.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
), first AS (
    SELECT m.xid, m.seq FROM holdfast_message m
    WHERE m.lane = :lane AND m.enqueued_at >= :at
    ORDER BY m.xid, m.seq
    LIMIT 1
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, CASE WHEN first.xid IS NULL THEN now_at ELSE '1:1:' END, now_at,
       coalesce(first.xid, pg_snapshot_xmin(now_at)), coalesce(first.seq - 1, -1)
FROM pg_current_snapshot() AS now_at
LEFT JOIN first ON true
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)

-- name: start_with
-- Before a message, if it is in this lane.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, '1:1:', now_at, m.xid, m.seq - 1
FROM pg_current_snapshot() AS now_at, holdfast_message m
WHERE m.id = :id::uuid AND m.lane = :lane
  AND NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
RETURNING 1

-- name: place_of
SELECT lane, enqueued_at FROM holdfast_message WHERE id = :id::uuid

-- name: is_in_past
-- Whether what a group gets next of a lane was there before it.
SELECT 1
FROM (SELECT * FROM holdfast_cursor WHERE group_id = :group AND lane = :lane ORDER BY number DESC LIMIT 1) AS c
WHERE holdfast_is_past(c.lo, c.hi) AND EXISTS (SELECT 1 FROM holdfast_read_window(c.lane, c.lo, c.hi, c.xid, c.seq, 1))

-- name: lag
-- How many messages of a lane a group still wants.
SELECT count(*)
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT 1 FROM holdfast_message m
              WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.c).lo) AND holdfast_is_pending(last.c, m.xid, m.seq)
                AND (m.expires_at IS NULL OR m.expires_at > :now)
                AND (g.wanted IS NULL OR m.topic ~ g.wanted)
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)) AS owed
WHERE g.id = :group

-- name: past
-- How many messages of a lane a group still wants of those that were there when it was put where it began.
SELECT count(*)
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT 1 FROM holdfast_message m
              WHERE m.lane = :lane AND (m.xid, m.seq) > ((last.c).xid, (last.c).seq) AND m.xid < pg_snapshot_xmax((last.c).hi)
                AND pg_visible_in_snapshot(m.xid, (last.c).hi) AND (g.wanted IS NULL OR m.topic ~ g.wanted)
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)) AS owed
WHERE g.id = :group AND holdfast_is_past((last.c).lo, (last.c).hi)

-- name: standings
-- The groups of the topic that keeps a message, and how each stands to it: what it wants, whether it has come to it, what it has of it.
SELECT c.name, g.id, g.wanted, holdfast_is_pending(last.k, m.xid, m.seq),
       EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id),
       (SELECT r.state FROM holdfast_row r WHERE r.id = m.id AND r.group_id = g.id),
       EXISTS (SELECT 1 FROM holdfast_dead d WHERE d.message_id = m.id AND d.group_id = g.id),
       (SELECT 1 FROM holdfast_run u WHERE u.group_id = g.id AND u.finished_at IS NULL ORDER BY u.until, u.token LIMIT 1) IS NOT NULL
FROM holdfast_message m
JOIN holdfast_group g ON g.source = m.lane / 4 AND g.ended_at IS NULL
JOIN holdfast_channel c ON c.id = g.channel_id
JOIN LATERAL (SELECT k FROM holdfast_cursor k WHERE k.group_id = g.id AND k.lane = m.lane
              ORDER BY k.number DESC LIMIT 1) AS last ON true
WHERE m.id = :id::uuid
ORDER BY c.name

-- name: peek
-- What a group would get next, nearly in that order: what was written late is claimed later.
SELECT m.id, m.lane, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic, m.expires_at, m.enqueued_at
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT * FROM holdfast_message m
              WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.c).lo) AND holdfast_is_pending(last.c, m.xid, m.seq)
                AND (m.expires_at IS NULL OR m.expires_at > :now) AND m.enqueued_at > :born
                AND (g.wanted IS NULL OR m.topic ~ g.wanted)
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)
              ORDER BY m.xid, m.seq
              LIMIT :limit) AS m
WHERE g.id = :group

-- name: unwanted
-- Whether a group is owed a message whose name does not match.
SELECT 1
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT 1 FROM holdfast_message m
              WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.c).lo) AND holdfast_is_pending(last.c, m.xid, m.seq)
                AND (g.wanted IS NULL OR m.topic ~ g.wanted) AND NOT m.topic ~ :wanted
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)
              LIMIT 1) AS unwanted
WHERE g.id = :group
