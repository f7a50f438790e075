-- name: enter
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = :channel AND bound + :count <= most
  AND NOT EXISTS (SELECT 1 FROM holdfast_return WHERE channel_id = :channel) AND settled_at <= (SELECT holdfast_now(:now::bigint))

-- name: grow
-- Not by the bound itself: whoever is arriving holds that row until it commits, and a nack or a sweep must not wait for it.
INSERT INTO holdfast_return (channel_id)
SELECT d.channel_id FROM holdfast_depth d JOIN holdfast_group g ON g.channel_id = d.channel_id
WHERE g.id = :group AND :count::bigint > 0

-- name: limit
-- Full, as far as we know: the next arrival counts. Clients know a queue's settings for a second; until all of them know
-- the limit, some arrive unnoticed, and every arrival counts.
INSERT INTO holdfast_depth (channel_id, bound, most, settled_at)
VALUES (:channel, :most, :most, (SELECT holdfast_now(:now::bigint)) + 2000000)
ON CONFLICT (channel_id) DO UPDATE SET most = excluded.most

-- name: most
SELECT most FROM holdfast_depth WHERE channel_id = :channel

-- name: open
DELETE FROM holdfast_depth WHERE channel_id = :channel

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
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.expires_at <= (SELECT holdfast_now(:now::bigint))
    UNION ALL
    SELECT r.state, r.due_at FROM holdfast_row r
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.enqueued_at <= :born
      AND (r.expires_at IS NULL OR r.expires_at > (SELECT holdfast_now(:now::bigint)))
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
       (SELECT count(*) FROM over WHERE state = 'pending' AND due_at > (SELECT holdfast_now(:now::bigint))),
       (SELECT count(*) FROM over WHERE state = 'enqueued'),
       (SELECT coalesce(sum(aged), 0)::bigint FROM fronts),
       (SELECT coalesce(bool_or(looked = :limit AND aged * 2 > looked), false) FROM fronts)

-- name: note
UPDATE holdfast_depth SET bound = :bound WHERE channel_id = :channel
