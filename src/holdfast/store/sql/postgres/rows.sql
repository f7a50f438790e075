-- name: insert_together
-- Several of one key in one call: the first of them is the first of its key. Not by EXISTS, which the server would make a table of all keys for.
INSERT INTO holdfast_row (group_id, id, lane, state, due_at, attempts, alone, order_key, head, finished_at,
                          errors, replay_of, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, saga,
                          claimed_at)
SELECT m.group_id, m.id, m.lane, m.state, :now + m.delay, m.attempts, m.alone, m.order_key,
       m.first OR m.order_key = ''
           OR (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = m.group_id AND b.order_key = m.order_key LIMIT 1) IS NULL
              AND (SELECT 1 FROM holdfast_row r
                   WHERE r.group_id = m.group_id AND r.order_key = m.order_key AND r.order_key <> '' AND r.finished_at IS NULL LIMIT 1) IS NULL
              AND row_number() OVER (PARTITION BY m.group_id, m.order_key ORDER BY m.place) = 1,
       CASE WHEN m.state IN ('pending', 'processing') THEN NULL ELSE :now END,
       m.errors, m.replay_of, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic,
       coalesce(m.expires_at, :now + m.ttl), coalesce(m.enqueued_at, :now), m.saga,
       m.claimed_at
FROM unnest(:group::bigint[], :id::uuid[], :lane::bigint[], :state::text[], :delay::bigint[], :attempts::bigint[], :alone::boolean[],
            :order_key::text[], :first::boolean[], :errors::bytea[], :replay_of::uuid[], :body::bytea[], :headers::bytea[], :key::text[],
            :correlation_id::text[], :reply_to::text[], :topic::text[], :expires_at::bigint[], :ttl::bigint[], :enqueued_at::bigint[],
            :saga::text[], :claimed_at::bigint[]) WITH ORDINALITY
    AS m (group_id, id, lane, state, delay, attempts, alone, order_key, first, errors, replay_of, body, headers, key,
          correlation_id, reply_to, topic, expires_at, ttl, enqueued_at, saga, claimed_at, place)
ORDER BY m.place
ON CONFLICT DO NOTHING
RETURNING id AS of_id, group_id AS of_group, 1

-- name: hold_key
-- An arrival and the end of the head must not miss each other: whoever touches a key takes turns.
SELECT pg_advisory_xact_lock(hashtextextended(:order_key::text, :group::bigint))

-- name: lock_together
SELECT r.group_id AS of_group, r.id AS of_id, r.token AS of_token,
       r.id, r.lane, r.body, r.headers, r.key, r.correlation_id, r.reply_to, r.topic, r.expires_at, r.enqueued_at, r.errors, r.order_key,
       r.replay_of, r.worker, r.alone, r.attempts, r.saga, r.unwanted, r.claimed_at
FROM unnest(:group::bigint[], :id::uuid[], :token::bigint[]) WITH ORDINALITY AS m (group_id, id, token, place)
JOIN holdfast_row r ON r.id = m.id AND r.group_id = m.group_id AND r.token = m.token
ORDER BY m.place
FOR UPDATE OF r

-- name: ended_as
-- What became of a message whose claim is gone.
SELECT state FROM holdfast_row WHERE group_id = :group AND id = :id::uuid
UNION ALL
SELECT 'dead' FROM holdfast_dead WHERE group_id = :group AND message_id = :id::uuid

-- name: succeed_together
UPDATE holdfast_row r
SET state = 'succeeded', finished_at = :now, token = NULL, until = NULL
FROM unnest(:group::bigint[], :id::uuid[], :token::bigint[]) AS m (group_id, id, token)
WHERE r.id = m.id AND r.group_id = m.group_id AND r.token = m.token
RETURNING r.group_id AS of_group, r.id AS of_id,
          (SELECT g.history FROM holdfast_group g WHERE g.id = r.group_id), (SELECT g.limited FROM holdfast_group g WHERE g.id = r.group_id)

-- name: remove_together
DELETE FROM holdfast_row r
USING unnest(:group::bigint[], :id::uuid[]) AS m (group_id, id)
WHERE r.id = m.id AND r.group_id = m.group_id
RETURNING r.group_id AS of_group, r.id AS of_id, 1

-- name: outdated
DELETE FROM holdfast_row
WHERE seq = ANY (ARRAY(
    SELECT r.seq FROM holdfast_row r JOIN holdfast_group g ON g.id = r.group_id
    WHERE r.group_id = :group AND r.finished_at <= :now - g.history
    ORDER BY r.finished_at
    LIMIT :limit
))

-- name: peek
-- Those that can be claimed, and those behind a head of their key whose time is over: a claim ends that one, and then gets the next.
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM (
    SELECT * FROM (SELECT due_at, seq, id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
                   FROM holdfast_row
                   WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head AND due_at <= :now
                     AND (expires_at IS NULL OR expires_at > :now) AND enqueued_at > :born
                   ORDER BY due_at, seq
                   LIMIT :limit) AS heads
    UNION ALL
    SELECT n.due_at, n.seq, n.id, n.lane, n.body, n.headers, n.key, n.correlation_id, n.reply_to, n.topic, n.expires_at, n.enqueued_at FROM holdfast_row n
    WHERE n.seq = ANY (ARRAY(
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.expires_at <= :now AND h.head AND h.order_key <> ''
        UNION ALL
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.enqueued_at <= :born AND h.head AND h.order_key <> ''
    )) AND n.lane = :lane AND n.state = 'pending' AND n.due_at <= :now
      AND NOT EXISTS (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = n.group_id AND b.order_key = n.order_key)
) AS both_kinds
ORDER BY due_at, seq
LIMIT :limit

-- name: is_due
-- Whether there is anything to hand out, or to expire.
SELECT 1 FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head AND due_at <= :now
ORDER BY due_at, seq
LIMIT 1

-- name: search
-- The sum keeps the planner from walking over all rows of a group to find those with a key.
-- By one of the three; each has an index but the last.
SELECT DISTINCT id FROM (
    SELECT m.id FROM holdfast_row m
    JOIN holdfast_group g ON g.id = m.group_id + 0
    JOIN holdfast_channel c ON c.id = g.channel_id
    WHERE m.key = :key::text AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.id > :after::uuid)
    UNION ALL
    SELECT m.id FROM holdfast_row m
    JOIN holdfast_group g ON g.id = m.group_id + 0
    JOIN holdfast_channel c ON c.id = g.channel_id
    WHERE m.correlation_id = :correlation_id::text AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.id > :after::uuid)
    UNION ALL
    SELECT m.id FROM holdfast_row m
    JOIN holdfast_group g ON g.id = m.group_id + 0
    JOIN holdfast_channel c ON c.id = g.channel_id
    WHERE :header::bytea IS NOT NULL AND position(:header::bytea IN m.headers) > 0 AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.id > :after::uuid)
) AS found
ORDER BY id
LIMIT :limit

-- name: first_due
SELECT min(due_at) FROM (
    SELECT due_at FROM (SELECT due_at FROM holdfast_row
                        WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head
                          AND (expires_at IS NULL OR expires_at > :now) AND enqueued_at > :born
                        ORDER BY due_at, seq
                        LIMIT 1) AS pending
    UNION ALL
    SELECT due_at FROM (SELECT due_at FROM holdfast_row
                        WHERE group_id = :group AND state = 'enqueued' AND lane = :lane
                          AND (expires_at IS NULL OR expires_at > :now) AND enqueued_at > :born
                        ORDER BY until, seq
                        LIMIT 1) AS handed_over
    UNION ALL
    SELECT due_at FROM (SELECT due_at FROM holdfast_row
                        WHERE group_id = :group AND state = 'sending' AND lane = :lane
                          AND (expires_at IS NULL OR expires_at > :now) AND enqueued_at > :born
                        ORDER BY until, seq
                        LIMIT 1) AS on_the_way
    UNION ALL
    SELECT n.due_at FROM holdfast_row n
    WHERE n.seq = ANY (ARRAY(
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.expires_at <= :now AND h.head AND h.order_key <> ''
        UNION ALL
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.enqueued_at <= :born AND h.head AND h.order_key <> ''
    )) AND n.lane = :lane AND n.state = 'pending'
      AND NOT EXISTS (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = n.group_id AND b.order_key = n.order_key)
) AS firsts
HAVING count(*) > 0

-- name: unwant
-- Whoever works on this message is to stop: its lease is not renewed any more.
UPDATE holdfast_row SET unwanted = true
WHERE seq = (SELECT seq FROM holdfast_row
             WHERE group_id = :group AND id = :id::uuid AND token IS NOT NULL
             FOR UPDATE SKIP LOCKED)
RETURNING until
