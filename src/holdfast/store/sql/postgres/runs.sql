-- name: close_whole
SELECT token, channel FROM holdfast_close(:tokens::bigint[], :sizes::bigint[], :sinces::bigint[], :now::bigint)

-- name: split_off
SELECT applied, channel, makes_room
FROM holdfast_split(:token::bigint, :acked::bytea, :leaving::bigint[], :ids::uuid[], :delays::bigint[], :attempts::bigint[],
                    :alone::boolean[], :errors::bytea[], :since::bigint, :now::bigint)

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
