-- name: append
-- An array that is NULL is one of NULLs; without :lanes all go to :lane. Whether sleepers will hear of it by themselves.
WITH counted AS (
    INSERT INTO holdfast_tally (group_id, second, slot, arrived)
    VALUES (:group, :now / 1000000, pg_backend_pid(), :count)
    ON CONFLICT (group_id, second, slot) DO UPDATE SET arrived = holdfast_tally.arrived + excluded.arrived
), stored AS (
    INSERT INTO holdfast_message (lane, id, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at)
    SELECT coalesce(n.lane, :lane), n.id, n.body, n.headers, n.key, n.correlation_id, n.reply_to, n.topic,
           :now + n.ttl, :now
    FROM unnest(:lanes::bigint[], :ids::uuid[], :bodies::bytea[], :headers::bytea[], :keys::text[], :correlation_ids::text[],
                :reply_tos::text[], :topics::text[], :ttls::bigint[])
         WITH ORDINALITY AS n (lane, id, body, headers, key, correlation_id, reply_to, topic, ttl, place)
    ORDER BY n.place
)
SELECT holdfast_ring(:bell::text, :payload::text)

-- name: append_bare
-- The same for messages of one lane that have nothing but a body: half the work for the server, and most are like that.
WITH counted AS (
    INSERT INTO holdfast_tally (group_id, second, slot, arrived)
    VALUES (:group, :now / 1000000, pg_backend_pid(), :count)
    ON CONFLICT (group_id, second, slot) DO UPDATE SET arrived = holdfast_tally.arrived + excluded.arrived
), stored AS (
    INSERT INTO holdfast_message (lane, id, body, enqueued_at)
    SELECT :lane, n.id, n.body, :now
    FROM unnest(:ids::uuid[], :bodies::bytea[]) WITH ORDINALITY AS n (id, body, place)
    ORDER BY n.place
)
SELECT holdfast_ring(:bell::text, :payload::text)

-- name: append_limited
-- What append does for a queue with a limit, if its bound leaves room; otherwise nothing happens, and someone has to count.
WITH room AS (
    UPDATE holdfast_depth SET bound = bound + :count
    WHERE channel_id = :lane / 4 AND bound + :count <= most AND settled_at <= :now
      AND NOT EXISTS (SELECT 1 FROM holdfast_return WHERE channel_id = :lane / 4)
    RETURNING 1
), counted AS (
    INSERT INTO holdfast_tally (group_id, second, slot, arrived)
    SELECT :group, :now / 1000000, pg_backend_pid(), :count FROM room
    ON CONFLICT (group_id, second, slot) DO UPDATE SET arrived = holdfast_tally.arrived + excluded.arrived
)
INSERT INTO holdfast_message (lane, id, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at)
SELECT coalesce(n.lane, :lane), n.id, n.body, n.headers, n.key, n.correlation_id, n.reply_to, n.topic,
       :now + n.ttl, :now
FROM unnest(:lanes::bigint[], :ids::uuid[], :bodies::bytea[], :headers::bytea[], :keys::text[], :correlation_ids::text[],
            :reply_tos::text[], :topics::text[], :ttls::bigint[])
     WITH ORDINALITY AS n (lane, id, body, headers, key, correlation_id, reply_to, topic, ttl, place)
WHERE EXISTS (SELECT 1 FROM room)
ORDER BY n.place

-- name: append_once
-- The same for messages with idempotency keys; those that were there before come back, and a place of 0 if it has rung.
SELECT place, message_id, result
FROM holdfast_enqueue_once(:group::bigint, :lane::bigint, :lanes::bigint[], :ids::uuid[], :bodies::bytea[], :headers::bytea[], :keys::text[],
                           :correlation_ids::text[], :reply_tos::text[], :topics::text[], :ttls::bigint[], :once_keys::text[],
                           :digests::bytea[], :windows::bigint[], :limited, :now::bigint)
UNION ALL
SELECT 0, NULL, NULL WHERE holdfast_ring(:bell::text, :payload::text)

-- name: claim
SELECT head, uuid_send(id) AS id, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_claim(:readers::bigint[], :first_lanes::bigint[], :terms::bigint[], :run_limits::bigint[], :shares::bigint[], :wanted::bigint,
                    :worker::text, :alone_first, :alone, :most_waiting::bigint, :now::bigint)

-- name: close_and_claim
-- The same as runs.close_whole and then claim, in one statement: one round trip and one commit per turn of a consumer.
-- A run that was closed comes back as its token and whom to wake, without an id.
SELECT ARRAY[token, channel] AS head, NULL::bytea AS id, NULL::bytea AS body, NULL::bytea AS headers, NULL::text AS key,
       NULL::text AS correlation_id, NULL::text AS reply_to, NULL::text AS topic, NULL::bigint AS expires_at,
       NULL::bigint AS enqueued_at
FROM holdfast_close(:tokens::bigint[], :sizes::bigint[], :sinces::bigint[], :now::bigint)
UNION ALL
SELECT head, uuid_send(id), body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_claim(:readers::bigint[], :first_lanes::bigint[], :terms::bigint[], :run_limits::bigint[], :shares::bigint[], :wanted::bigint,
                    :worker::text, :alone_first, :alone, :most_waiting::bigint, :now::bigint)

-- name: member
-- The message of a lane by id, in the columns that a row takes over.
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_message
WHERE id = :id::uuid

-- name: hold
-- Keeps claims of this lane out until the transaction ends.
SELECT 1 FROM holdfast_lane WHERE group_id = :group AND lane = :lane FOR UPDATE

-- name: is_pending
SELECT 1
FROM holdfast_message m
JOIN LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = :group AND c.lane = m.lane
              ORDER BY c.number DESC LIMIT 1) AS last ON true
WHERE m.id = :id::uuid AND holdfast_is_pending(last.c, m.xid, m.seq)

-- name: purge
-- Everything that was not claimed yet; all of it was written by transactions at or after the oldest one open at `lo`.
DELETE FROM holdfast_message m
USING (SELECT c FROM holdfast_cursor c WHERE c.group_id = :group AND c.lane = :lane
       ORDER BY c.number DESC LIMIT 1) AS last
WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.c).lo) AND holdfast_is_pending(last.c, m.xid, m.seq)

-- name: front
-- In the order of claiming: what is left of the window, then what came after it.
WITH last AS MATERIALIZED (
    SELECT c.lo, c.hi, c.xid, c.seq FROM holdfast_cursor c WHERE c.group_id = :group AND c.lane = :lane
    ORDER BY c.number DESC LIMIT 1
), windowed AS (
    SELECT 0 AS part, w.* FROM last, holdfast_read_window(:lane, last.lo, last.hi, last.xid, last.seq, :limit) AS w
), later AS (
    SELECT 1 AS part, m.* FROM last, holdfast_message m
    WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin(last.hi) AND NOT pg_visible_in_snapshot(m.xid, last.hi)
    ORDER BY m.xid, m.seq
    LIMIT :limit
)
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM (SELECT * FROM windowed UNION ALL SELECT * FROM later) AS both_parts
ORDER BY part, xid, seq
LIMIT :limit

-- name: peek
-- The same without those that are older than their queue allows. They are in front: the scan passes them by and stops at the first :limit others. The three parts are those
-- of holdfast_read_window, which would bring all that it passes by, and what came after the window.
WITH last AS MATERIALIZED (
    SELECT c.lo, c.hi, c.xid, c.seq, pg_snapshot_xmax(c.lo) AS fresh FROM holdfast_cursor c WHERE c.group_id = :group AND c.lane = :lane
    ORDER BY c.number DESC LIMIT 1
), late AS (
    SELECT 0 AS part, m.*
    FROM last, LATERAL (SELECT x FROM pg_snapshot_xip(last.lo) AS x WHERE x >= last.xid AND pg_visible_in_snapshot(x, last.hi)) AS t,
         LATERAL (SELECT n.* FROM holdfast_message n
                  WHERE n.lane = :lane AND n.xid = t.x AND n.seq > CASE WHEN t.x = last.xid THEN last.seq ELSE -1 END AND n.enqueued_at > :born
                  ORDER BY n.seq
                  LIMIT :limit) AS m
    WHERE last.xid < last.fresh
), fresh AS (
    SELECT 1 AS part, m.* FROM last, holdfast_message m
    WHERE m.lane = :lane AND m.xid < pg_snapshot_xmax(last.hi) AND pg_visible_in_snapshot(m.xid, last.hi) AND m.enqueued_at > :born
      AND (m.xid, m.seq) > (greatest(last.xid, last.fresh), CASE WHEN last.xid < last.fresh THEN -1 ELSE last.seq END)
    ORDER BY m.xid, m.seq
    LIMIT :limit
), later AS (
    SELECT 2 AS part, m.* FROM last, holdfast_message m
    WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin(last.hi) AND NOT pg_visible_in_snapshot(m.xid, last.hi) AND m.enqueued_at > :born
    ORDER BY m.xid, m.seq
    LIMIT :limit
)
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM (SELECT * FROM late UNION ALL SELECT * FROM fresh UNION ALL SELECT * FROM later) AS all_parts
ORDER BY part, xid, seq
LIMIT :limit

-- name: find
-- A message of a lane by id, with the channel that it belongs to.
SELECT g.id, m.lane, m.enqueued_at, c.name, c.kind
FROM holdfast_message m
JOIN holdfast_channel c ON c.id = m.lane / 4
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE m.id = :id::uuid AND c.tenant = :tenant

-- name: search
-- By one of the three; each has an index but the last.
SELECT DISTINCT id FROM (
    SELECT m.id FROM holdfast_message m
    JOIN holdfast_channel c ON c.id = m.lane / 4
    WHERE m.key = :key::text AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.id > :after::uuid)
    UNION ALL
    SELECT m.id FROM holdfast_message m
    JOIN holdfast_channel c ON c.id = m.lane / 4
    WHERE m.correlation_id = :correlation_id::text AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.id > :after::uuid)
    UNION ALL
    SELECT m.id FROM holdfast_message m
    JOIN holdfast_channel c ON c.id = m.lane / 4
    WHERE :header::bytea IS NOT NULL AND position(:header::bytea IN m.headers) > 0 AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.id > :after::uuid)
) AS found
ORDER BY id
LIMIT :limit
