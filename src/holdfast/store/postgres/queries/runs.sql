-- name: close_whole
SELECT token, channel FROM holdfast_close(:tokens::bigint[], :sizes::bigint[], :sinces::bigint[], :now::bigint)

-- name: split_off
SELECT applied, channel, makes_room
FROM holdfast_split(:token::bigint, :acked::bytea, :leaving::bigint[], :ids::uuid[], :delays::bigint[], :attempts::bigint[],
                    :alone::boolean[], :errors::bytea[], :since::bigint, :now::bigint)

-- name: lock
SELECT r.size, r.settled, r.gone, g.history, g.limited, g.source IS NOT NULL
FROM holdfast_run r JOIN holdfast_group g ON g.id = r.group_id
WHERE r.token = :token AND r.finished_at IS NULL
FOR UPDATE OF r

-- name: split
UPDATE holdfast_run SET settled = :settled, gone = :gone WHERE token = :token

-- name: finish
UPDATE holdfast_run SET finished_at = (SELECT holdfast_now(:now::bigint)) WHERE token = :token
RETURNING group_id, size

-- name: extend
UPDATE holdfast_run SET until = (SELECT holdfast_now(:now::bigint)) + :micros
WHERE token = :token AND finished_at IS NULL
RETURNING until

-- name: lapsed
SELECT r.token, r.size, r.settled, r.gone, g.history, r.worker, r.claimed_at, g.source IS NOT NULL
FROM holdfast_run r JOIN holdfast_group g ON g.id = r.group_id
WHERE r.group_id = :group AND r.finished_at IS NULL AND r.until <= (SELECT holdfast_now(:now::bigint))
ORDER BY r.until, r.token
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: members
SELECT m.id, m.lane, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic, m.expires_at, m.enqueued_at
FROM holdfast_run r
JOIN holdfast_message m ON m.lane = r.lane
 AND (m.xid, m.seq) > (r.after_xid, r.after_seq) AND (m.xid, m.seq) <= (r.last_xid, r.last_seq)
 AND pg_visible_in_snapshot(m.xid, r.hi) AND NOT pg_visible_in_snapshot(m.xid, r.lo)
WHERE r.token = :token
ORDER BY m.xid, m.seq
LIMIT :limit OFFSET :passed

-- name: holding
-- The open run that a claimed message of a lane is in, and how many of that run are before it. A group has few open runs.
SELECT r.token, r.size, r.settled, r.gone, r.worker, r.until, r.claimed_at,
       (SELECT count(*) FROM holdfast_message n
        WHERE n.lane = r.lane AND (n.xid, n.seq) > (r.after_xid, r.after_seq) AND (n.xid, n.seq) < (m.xid, m.seq)
          AND pg_visible_in_snapshot(n.xid, r.hi) AND NOT pg_visible_in_snapshot(n.xid, r.lo))
FROM holdfast_message m
JOIN holdfast_run r ON r.group_id = :group AND r.finished_at IS NULL AND r.lane = m.lane
 AND (r.after_xid, r.after_seq) < (m.xid, m.seq) AND (r.last_xid, r.last_seq) >= (m.xid, m.seq)
 AND pg_visible_in_snapshot(m.xid, r.hi) AND NOT pg_visible_in_snapshot(m.xid, r.lo)
WHERE m.id = :id::uuid

-- name: outdated
SELECT r.token, r.size
FROM holdfast_run r
JOIN holdfast_group g ON g.id = r.group_id
WHERE r.group_id = :group AND r.finished_at <= (SELECT holdfast_now(:now::bigint)) - g.history
ORDER BY r.finished_at
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: oldest_finished
SELECT r.token, r.size, r.finished_at
FROM holdfast_run r
WHERE r.group_id = :group AND r.finished_at IS NOT NULL
ORDER BY r.finished_at
LIMIT :limit
FOR UPDATE OF r SKIP LOCKED

-- name: drop_messages
DELETE FROM holdfast_message m
USING holdfast_run r
WHERE r.token = :token AND m.lane = r.lane
  AND (m.xid, m.seq) > (r.after_xid, r.after_seq) AND (m.xid, m.seq) <= (r.last_xid, r.last_seq)
  AND pg_visible_in_snapshot(m.xid, r.hi) AND NOT pg_visible_in_snapshot(m.xid, r.lo)
RETURNING 1

-- name: shorten_messages
-- Of a run that is too long to go at once, the front.
DELETE FROM holdfast_message
WHERE id = ANY (ARRAY(
    SELECT m.id
    FROM holdfast_run r
    JOIN holdfast_message m ON m.lane = r.lane
     AND (m.xid, m.seq) > (r.after_xid, r.after_seq) AND (m.xid, m.seq) <= (r.last_xid, r.last_seq)
     AND pg_visible_in_snapshot(m.xid, r.hi) AND NOT pg_visible_in_snapshot(m.xid, r.lo)
    WHERE r.token = :token
    ORDER BY m.xid, m.seq
    LIMIT :limit
))

-- name: shorten
UPDATE holdfast_run SET size = size - :limit WHERE token = :token

-- name: drop
DELETE FROM holdfast_run WHERE token = :token RETURNING 1

-- name: open_runs
SELECT size, settled FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL

-- name: is_older
SELECT 1 FROM holdfast_run WHERE group_id = :group AND finished_at <= (SELECT holdfast_now(:now::bigint)) - :age ORDER BY finished_at LIMIT 1
