-- name: enter
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = :channel AND bound + :count <= most
  AND NOT EXISTS (SELECT 1 FROM holdfast_return WHERE channel_id = :channel) AND settled_at <= :now

-- name: grow
-- Not by the bound itself: whoever is arriving holds that row until it commits, and a nack or a sweep must not wait for it.
INSERT INTO holdfast_return (channel_id)
SELECT d.channel_id FROM holdfast_depth d JOIN holdfast_group g ON g.channel_id = d.channel_id
WHERE g.id = :group AND :count::bigint > 0

-- name: hold
-- What came back is counted now.
WITH counted AS (DELETE FROM holdfast_return WHERE channel_id = :channel)
SELECT g.id, c.kind, c.name, d.most
FROM holdfast_depth d
JOIN holdfast_channel c ON c.id = d.channel_id
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE d.channel_id = :channel
FOR UPDATE OF d

-- name: count
-- What of a group is not waiting, though it has not ended: rows at work, open runs (as JSON), and messages whose time is over. In one look, so that none counts twice.
-- Of these: rows, rows that are not due yet, rows that SQS has, and those among the first :limit of each lane, with whether there may be more behind them.
-- Rows are found by two indexes; in a lane the oldest are in front.
WITH over AS MATERIALIZED (
    SELECT r.state, r.due_at FROM holdfast_row r
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.expires_at <= :now
    UNION ALL
    SELECT r.state, r.due_at FROM holdfast_row r
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.enqueued_at <= :born
      AND (r.expires_at IS NULL OR r.expires_at > :now)
), fronts AS MATERIALIZED (
    SELECT front.looked, front.aged
    FROM holdfast_lane l
    CROSS JOIN LATERAL (SELECT * FROM holdfast_cursor c WHERE c.group_id = :group AND c.lane = l.lane ORDER BY c.number DESC LIMIT 1) AS k
    CROSS JOIN LATERAL (
        SELECT count(*) AS looked, count(*) FILTER (WHERE one.enqueued_at <= :born) AS aged
        FROM (SELECT both_parts.enqueued_at
              FROM (SELECT 0 AS part, w.xid, w.seq, w.enqueued_at FROM holdfast_read_window(l.lane, k.lo, k.hi, k.xid, k.seq, :limit) AS w
                    UNION ALL
                    (SELECT 1, m.xid, m.seq, m.enqueued_at FROM holdfast_message m
                     WHERE m.lane = l.lane AND m.xid >= pg_snapshot_xmin(k.hi) AND NOT pg_visible_in_snapshot(m.xid, k.hi)
                     ORDER BY m.xid, m.seq
                     LIMIT :limit)) AS both_parts
              ORDER BY part, xid, seq
              LIMIT :limit) AS one
    ) AS front
    WHERE l.group_id = :group AND :limit::bigint > 0
)
SELECT (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'processing'),
       (SELECT json_agg(json_build_array(size, encode(settled, 'hex')))::text FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL),
       (SELECT count(*) FROM over),
       (SELECT count(*) FROM over WHERE state = 'pending' AND due_at > :now),
       (SELECT count(*) FROM over WHERE state = 'enqueued'),
       (SELECT coalesce(sum(aged), 0)::bigint FROM fronts),
       (SELECT coalesce(bool_or(looked = :limit AND aged * 2 > looked), false) FROM fronts)

-- name: doubt
-- More may be needed than was counted: the next arrival counts.
INSERT INTO holdfast_return (channel_id) SELECT d.channel_id FROM holdfast_depth d WHERE d.channel_id = :channel

-- name: names
-- SQLite needs this, which cannot match names by itself on every connection.
SELECT NULL, NULL WHERE :channel::bigint IS NULL

-- name: needed
-- How many messages of a topic a live or paused group is not done with: it has not come to them, someone holds them, or they are to be tried again.
-- Each is counted once, by its id. The slowest group is asked first: it needs most of them. (OFFSET 0: lane by lane, by the index.)
WITH moment AS MATERIALIZED (
    SELECT holdfast_now(:now::bigint) AS now
), reader AS MATERIALIZED (
    SELECT g.id, g.wanted, EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id) AS skips, k.lane, k.lo, k.hi, k.xid, k.seq
    FROM holdfast_group g
    CROSS JOIN generate_series(:channel::bigint * 4, :channel::bigint * 4 + 3) AS l (lane)
    CROSS JOIN LATERAL (SELECT * FROM holdfast_cursor k WHERE k.group_id = g.id AND k.lane = l.lane
                        ORDER BY k.number DESC LIMIT 1) AS k
    WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL
    ORDER BY pg_snapshot_xmin(k.lo), k.xid, k.seq
), waiting AS (
    SELECT m.id
    FROM generate_series(:channel::bigint * 4, :channel::bigint * 4 + 3) AS l (lane)
    CROSS JOIN LATERAL (SELECT pg_snapshot_xmin(k.lo) AS xid FROM reader k WHERE k.lane = l.lane ORDER BY 1 LIMIT 1) AS first
    CROSS JOIN LATERAL (SELECT m.lane, m.xid, m.seq, m.id, m.topic, m.expires_at
                        FROM holdfast_message m WHERE m.lane = l.lane AND m.xid >= first.xid OFFSET 0) AS m
    WHERE (m.expires_at IS NULL OR m.expires_at > (SELECT now FROM moment)) AND :names::text IS NOT NULL
      AND EXISTS (SELECT 1 FROM reader k
                  WHERE k.lane = m.lane AND NOT pg_visible_in_snapshot(m.xid, k.lo)  -- As holdfast_is_pending.
                    AND (NOT pg_visible_in_snapshot(m.xid, k.hi) OR (m.xid, m.seq) > (k.xid, k.seq))
                    AND (k.wanted IS NULL OR m.topic ~ k.wanted)
                    AND (NOT k.skips OR NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = k.id AND s.id = m.id)))
), member AS (
    SELECT m.id, r.settled, row_number() OVER (PARTITION BY r.token ORDER BY m.xid, m.seq) - 1 AS place
    FROM holdfast_group g
    JOIN holdfast_run r ON r.group_id = g.id AND r.finished_at IS NULL
    CROSS JOIN LATERAL (SELECT m.xid, m.seq, m.id FROM holdfast_message m
                        WHERE m.lane = r.lane AND (m.xid, m.seq) > (r.after_xid, r.after_seq) AND (m.xid, m.seq) <= (r.last_xid, r.last_seq)
                          AND pg_visible_in_snapshot(m.xid, r.hi) AND NOT pg_visible_in_snapshot(m.xid, r.lo) OFFSET 0) AS m
    WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL
), copy AS (
    SELECT r.id
    FROM holdfast_group g
    JOIN holdfast_row r ON r.group_id = g.id AND r.state = 'pending' AND r.replay_of IS NULL
     AND (r.expires_at IS NULL OR r.expires_at > (SELECT now FROM moment))
    WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL
    UNION ALL
    SELECT r.id
    FROM holdfast_group g
    JOIN holdfast_row r ON r.group_id = g.id AND r.state = 'processing' AND r.replay_of IS NULL
    WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL
)
SELECT count(*)
FROM (SELECT id FROM waiting
      UNION
      SELECT id FROM member
      WHERE CASE WHEN settled IS NULL OR place >= length(settled) * 8 THEN true ELSE get_bit(settled, place::int) = 0 END
      UNION
      SELECT id FROM copy) AS needed
