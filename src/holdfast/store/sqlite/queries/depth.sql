-- name: enter
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = :channel AND bound + :count <= most AND settled_at <= :now

-- name: grow
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = (SELECT channel_id FROM holdfast_group WHERE id = :group)

-- name: limit
-- Full, as far as we know: the next arrival counts. Clients know a queue's settings for a second; until all of them know
-- the limit, some arrive unnoticed, and every arrival counts.
INSERT INTO holdfast_depth (channel_id, bound, most, settled_at)
VALUES (:channel, :most, :most, :now + 2000000)
ON CONFLICT (channel_id) DO UPDATE SET most = excluded.most

-- name: most
SELECT most FROM holdfast_depth WHERE channel_id = :channel

-- name: open
DELETE FROM holdfast_depth WHERE channel_id = :channel

-- name: hold
SELECT g.id, c.kind, c.name, d.most
FROM holdfast_depth d
JOIN holdfast_channel c ON c.id = d.channel_id
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE d.channel_id = :channel

-- name: count
-- What of a group is not waiting, though it has not ended: rows at work, open runs (as JSON), and messages whose time is over. In one look, so that none counts twice.
-- Of these: rows, rows that are not due yet, rows that SQS has, and those among the first :limit of each lane, with whether there may be more behind them.
-- Rows are found by two indexes; in a lane the oldest are in front.
WITH over AS (
    SELECT r.state, r.due_at FROM holdfast_row r
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.expires_at <= :now
    UNION ALL
    SELECT r.state, r.due_at FROM holdfast_row r
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.enqueued_at <= :born
      AND (r.expires_at IS NULL OR r.expires_at > :now)
), fronts AS (
    SELECT (SELECT count(*) FROM (SELECT 1 FROM holdfast_message m WHERE m.position > k.position AND m.position < (k.lane + 1) << 40
                                  ORDER BY m.position LIMIT :limit)) AS looked,
           (SELECT count(*) FROM (SELECT m.enqueued_at FROM holdfast_message m WHERE m.position > k.position AND m.position < (k.lane + 1) << 40
                                  ORDER BY m.position LIMIT :limit) WHERE enqueued_at <= :born) AS aged
    FROM holdfast_cursor k
    WHERE k.group_id = :group AND :limit > 0
)
SELECT (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'processing'),
       (SELECT json_group_array(json_array(size, hex(settled))) FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL),
       (SELECT count(*) FROM over),
       (SELECT count(*) FROM over WHERE state = 'pending' AND due_at > :now),
       (SELECT count(*) FROM over WHERE state = 'enqueued'),
       (SELECT coalesce(sum(aged), 0) FROM fronts),
       (SELECT coalesce(max(looked = :limit AND aged * 2 > looked), 0) FROM fronts)

-- name: note
UPDATE holdfast_depth SET bound = :bound WHERE channel_id = :channel
