-- name: insert
-- A row with an order key is claimable only as the first unfinished one of its key.
INSERT INTO holdfast_row (group_id, id, lane, state, due_at, attempts, alone, order_key, head, finished_at,
                          errors, replay_of, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, saga,
                          claimed_at)
VALUES (:group, :id, :lane, :state, :now + :delay, :attempts, :alone, :order_key,
        :first OR :order_key = '' OR NOT EXISTS (SELECT 1 FROM holdfast_blocked
                                       WHERE group_id = :group AND order_key = :order_key)
                                AND NOT EXISTS (SELECT 1 FROM holdfast_row
                                       WHERE group_id = :group AND order_key = :order_key AND order_key <> ''
                                         AND finished_at IS NULL),
        CASE WHEN :state IN ('pending', 'processing') THEN NULL ELSE :now END,
        :errors, :replay_of, :body, :headers, :key, :correlation_id, :reply_to, :topic, coalesce(:expires_at, :now + :ttl),
        coalesce(:enqueued_at, :now), :saga, :claimed_at)
ON CONFLICT DO NOTHING
RETURNING 1

-- name: hold_key
-- PostgreSQL needs this so that an arrival and the end of the head cannot miss each other; SQLite has one writer.
SELECT 1 WHERE :group IS NOT NULL AND :order_key IS NOT NULL

-- name: due
SELECT seq, id, lane, attempts, alone, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND due_at <= :now
  AND (alone = 0 OR :alone)
ORDER BY due_at, seq
LIMIT :limit

-- name: due_alone
SELECT seq, id, lane, attempts, alone, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM holdfast_row
WHERE group_id = :group AND state = 'pending' AND head = 1 AND alone = 1 AND due_at <= :now
  AND NOT (SELECT paused OR dead_at IS NOT NULL OR missing > 0 FROM holdfast_group WHERE id = :group)
ORDER BY due_at, seq
LIMIT 1

-- name: take
UPDATE holdfast_row
SET state = 'processing', attempts = attempts + 1, token = :token, until = :until, worker = :worker, claimed_at = :now
WHERE seq = :seq

-- name: lock
-- The row behind a claim, if the token still holds.
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, errors, order_key, replay_of, worker,
       alone, attempts, saga, unwanted, claimed_at
FROM holdfast_row
WHERE group_id = :group AND id = :id AND token = :token

-- name: succeed
UPDATE holdfast_row
SET state = 'succeeded', finished_at = :now, token = NULL, until = NULL
WHERE group_id = :group AND id = :id AND token = :token
RETURNING (SELECT history FROM holdfast_group g WHERE g.id = group_id), (SELECT limited FROM holdfast_group g WHERE g.id = group_id)

-- name: again
UPDATE holdfast_row
SET state = 'pending', due_at = :now + :delay, attempts = :attempts, alone = :alone, errors = :errors,
    token = NULL, until = NULL, claimed_at = NULL
WHERE group_id = :group AND id = :id
RETURNING 1

-- name: end
UPDATE holdfast_row
SET state = :state, attempts = coalesce(:attempts, attempts), errors = coalesce(:errors, errors), finished_at = :now, token = NULL, until = NULL
WHERE group_id = :group AND id = :id AND finished_at IS NULL
RETURNING head, order_key, saga

-- name: remove
DELETE FROM holdfast_row WHERE group_id = :group AND id = :id RETURNING 1

-- name: promote
-- The key's next one may go.
UPDATE holdfast_row SET head = 1
WHERE seq = (SELECT min(seq) FROM holdfast_row
             WHERE group_id = :group AND order_key = :order_key AND order_key <> '' AND finished_at IS NULL)
  AND finished_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM holdfast_blocked WHERE group_id = :group AND order_key = :order_key)
RETURNING 1

-- name: extend
-- The lease of a step that its saga does not want any more is left to run out; 0 says so.
UPDATE holdfast_row SET until = CASE WHEN unwanted = 1 THEN until ELSE :now + :micros END
WHERE group_id = :group AND id = :id AND token = :token
RETURNING CASE WHEN unwanted = 1 THEN 0 ELSE until END

-- name: lapsed
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, errors, order_key, replay_of, worker,
       alone, attempts, saga, unwanted, claimed_at
FROM holdfast_row
WHERE group_id = :group AND state = 'processing' AND until <= :now
ORDER BY until, seq
LIMIT :limit

-- name: outlived
SELECT id, replay_of
FROM holdfast_row
WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND expires_at <= :now
ORDER BY expires_at, seq
LIMIT :limit

-- name: aged
SELECT id, replay_of
FROM holdfast_row
WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND enqueued_at <= :now - :max_age
ORDER BY enqueued_at, seq
LIMIT :limit

-- name: outdated
DELETE FROM holdfast_row
WHERE seq IN (SELECT r.seq FROM holdfast_row r JOIN holdfast_group g ON g.id = r.group_id
              WHERE r.group_id = :group AND r.finished_at <= :now - g.history
              ORDER BY r.finished_at
              LIMIT :limit)

-- name: purge
DELETE FROM holdfast_row WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND saga IS NULL

-- name: withdraw
-- One message that nobody has claimed.
DELETE FROM holdfast_row WHERE id = :id AND group_id = :group AND token IS NULL AND finished_at IS NULL
RETURNING 1

-- name: purge_steps
-- Those that a saga waits for, which has to know.
DELETE FROM holdfast_row WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND saga IS NOT NULL
RETURNING id, saga

-- name: peek
-- Those that can be claimed, and those behind a head of their key whose time is over: a claim ends that one, and then gets the next.
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
FROM (
    SELECT * FROM (SELECT due_at, seq, id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at
                   FROM holdfast_row
                   WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND due_at <= :now
                     AND (expires_at IS NULL OR expires_at > :now) AND enqueued_at > :born
                   ORDER BY due_at, seq
                   LIMIT :limit) AS heads
    UNION ALL
    SELECT n.due_at, n.seq, n.id, n.lane, n.body, n.headers, n.key, n.correlation_id, n.reply_to, n.topic, n.expires_at, n.enqueued_at FROM holdfast_row n
    WHERE n.seq IN (
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.expires_at <= :now AND h.head = 1 AND h.order_key <> ''
        UNION ALL
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.enqueued_at <= :born AND h.head = 1 AND h.order_key <> ''
    ) AND n.lane = :lane AND n.state = 'pending' AND n.due_at <= :now
      AND NOT EXISTS (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = n.group_id AND b.order_key = n.order_key)
) AS both_kinds
ORDER BY due_at, seq
LIMIT :limit

-- name: is_due
-- Whether there is anything to hand out, or to expire.
SELECT 1 FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND due_at <= :now
ORDER BY due_at, seq
LIMIT 1

-- name: find
SELECT r.group_id, r.lane, r.state, r.attempts, r.due_at, r.enqueued_at, c.name, r.order_key, r.replay_of, r.expires_at
FROM holdfast_row r
JOIN holdfast_group g ON g.id = r.group_id
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE r.id = :id AND c.tenant = :tenant

-- name: look_up
SELECT r.id, r.lane, r.body, r.headers, r.key, r.correlation_id, r.reply_to, r.topic, r.expires_at, r.enqueued_at,
       c.name, r.state, r.attempts, r.due_at, r.worker, r.until, r.finished_at, r.errors, r.claimed_at,
       (SELECT e.session FROM holdfast_effort e WHERE e.group_id = r.group_id AND e.message_id = r.id)
FROM holdfast_row r
JOIN holdfast_group g ON g.id = r.group_id
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE r.id = :id AND c.tenant = :tenant

-- name: search
-- By one of the three; each has an index but the last.
SELECT DISTINCT id FROM (
    SELECT m.id FROM holdfast_row m
    JOIN holdfast_group g ON g.id = m.group_id
    JOIN holdfast_channel c ON c.id = g.channel_id
    WHERE m.key = :key AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.id > :after)
    UNION ALL
    SELECT m.id FROM holdfast_row m
    JOIN holdfast_group g ON g.id = m.group_id
    JOIN holdfast_channel c ON c.id = g.channel_id
    WHERE m.correlation_id = :correlation_id AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.id > :after)
    UNION ALL
    SELECT m.id FROM holdfast_row m
    JOIN holdfast_group g ON g.id = m.group_id
    JOIN holdfast_channel c ON c.id = g.channel_id
    WHERE :header IS NOT NULL AND instr(m.headers, :header) > 0 AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.id > :after)
) AS found
ORDER BY id
LIMIT :limit

-- name: held
SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'processing'

-- name: pending
SELECT (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'pending')
     + (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'sending')
     + (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'enqueued')

-- name: waiting
SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'pending' AND due_at > :now

-- name: first_due
SELECT min(due_at) FROM (
    SELECT due_at FROM (SELECT due_at FROM holdfast_row
                        WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1
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
    WHERE n.seq IN (
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.expires_at <= :now AND h.head = 1 AND h.order_key <> ''
        UNION ALL
        SELECT (SELECT min(f.seq) FROM holdfast_row f
                WHERE f.group_id = :group AND f.order_key = h.order_key AND f.order_key <> '' AND f.finished_at IS NULL
                  AND (f.expires_at IS NULL OR f.expires_at > :now) AND f.enqueued_at > :born)
        FROM holdfast_row h
        WHERE h.group_id = :group AND h.token IS NULL AND h.finished_at IS NULL AND h.enqueued_at <= :born AND h.head = 1 AND h.order_key <> ''
    ) AND n.lane = :lane AND n.state = 'pending'
      AND NOT EXISTS (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = n.group_id AND b.order_key = n.order_key)
) AS firsts
HAVING count(*) > 0

-- name: oldest
-- Of those that can still be claimed.
SELECT enqueued_at FROM holdfast_row WHERE group_id = :group AND token IS NULL AND finished_at IS NULL
  AND enqueued_at > :born AND (expires_at IS NULL OR expires_at > :now)
ORDER BY enqueued_at, seq
LIMIT 1

-- name: oldest_finished
SELECT r.id, r.finished_at
FROM holdfast_row r
WHERE r.group_id = :group AND r.finished_at IS NOT NULL
ORDER BY r.finished_at
LIMIT :limit

-- name: key
-- It never changes, so nobody need hold the row.
SELECT order_key FROM holdfast_row WHERE group_id = :group AND id = :id

-- name: unclaimed
-- A message that nobody works on.
SELECT replay_of FROM holdfast_row
WHERE group_id = :group AND id = :id AND token IS NULL AND finished_at IS NULL

-- name: unwant
-- Whoever works on this message is to stop: its lease is not renewed any more.
UPDATE holdfast_row SET unwanted = 1
WHERE group_id = :group AND id = :id AND token IS NOT NULL
RETURNING until

-- name: is_unfinished
SELECT 1 FROM holdfast_row WHERE group_id = :group AND id = :id AND finished_at IS NULL

-- name: lapsed_step
-- One message of a step whose lease has ended.
SELECT id, lane, body, headers, key, correlation_id, reply_to, topic, expires_at, enqueued_at, errors, order_key, replay_of, worker,
       alone, attempts, saga, unwanted, claimed_at
FROM holdfast_row
WHERE group_id = :group AND id = :id AND state = 'processing' AND until <= :now

-- name: is_older
SELECT 1 FROM holdfast_row WHERE group_id = :group AND finished_at <= :now - :age LIMIT 1
