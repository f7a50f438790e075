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

-- name: outdated
DELETE FROM holdfast_row
WHERE seq IN (SELECT r.seq FROM holdfast_row r JOIN holdfast_group g ON g.id = r.group_id
              WHERE r.group_id = :group AND r.finished_at <= :now - g.history
              ORDER BY r.finished_at
              LIMIT :limit)

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

-- name: unwant
-- Whoever works on this message is to stop: its lease is not renewed any more.
UPDATE holdfast_row SET unwanted = 1
WHERE group_id = :group AND id = :id AND token IS NOT NULL
RETURNING until
