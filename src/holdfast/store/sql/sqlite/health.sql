-- name: durability
-- The mode is the file's, the level is that of the connection that asks.
SELECT (SELECT journal_mode FROM pragma_journal_mode), (SELECT synchronous FROM pragma_synchronous)

-- name: newest
-- The latest time that anything carries, looked up at the end of each index.
SELECT max(moment) FROM (
    SELECT (SELECT m.enqueued_at FROM holdfast_message m
            WHERE m.position > k.lane << 40 AND m.position < (k.lane + 1) << 40
            ORDER BY m.position DESC LIMIT 1) AS moment
    FROM holdfast_cursor k
    UNION ALL
    SELECT (SELECT r.enqueued_at FROM holdfast_row r WHERE r.group_id = g.id AND r.token IS NULL AND r.finished_at IS NULL
            ORDER BY r.enqueued_at DESC LIMIT 1)
    FROM holdfast_group g
    UNION ALL
    SELECT (SELECT r.finished_at FROM holdfast_run r WHERE r.group_id = g.id AND r.finished_at IS NOT NULL
            ORDER BY r.finished_at DESC LIMIT 1)
    FROM holdfast_group g
    UNION ALL
    SELECT (SELECT d.failed_at FROM holdfast_dead d WHERE d.channel_id = c.id ORDER BY d.failed_at DESC LIMIT 1)
    FROM holdfast_channel c
)

-- name: queues
-- For each queue: paused, open leases, those that ran out, since when the oldest claimable message waits, blocked keys, dead
-- letters without a replay among the newest. Every count stops at :most.
SELECT c.tenant, c.name, g.paused,
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_run r WHERE r.group_id = g.id AND r.finished_at IS NULL LIMIT :most))
     + (SELECT count(*) FROM (SELECT 1 FROM holdfast_row r WHERE r.group_id = g.id AND r.state = 'processing' LIMIT :most)),
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_run r
                              WHERE r.group_id = g.id AND r.finished_at IS NULL AND r.until <= :now - :grace LIMIT :most))
     + (SELECT count(*) FROM (SELECT 1 FROM holdfast_row r
                              WHERE r.group_id = g.id AND r.state = 'processing' AND r.until <= :now - :grace LIMIT :most)),
       (SELECT min(moment) FROM (
            SELECT (SELECT m.enqueued_at FROM holdfast_message m
                    WHERE m.position > k.position AND m.position < (k.lane + 1) << 40
                    ORDER BY m.position LIMIT 1) AS moment
            FROM holdfast_cursor k WHERE k.group_id = g.id
            UNION ALL
            SELECT (SELECT r.due_at FROM holdfast_row r
                    WHERE r.group_id = g.id AND r.lane = k.lane AND r.state = 'pending' AND r.head = 1
                    ORDER BY r.due_at, r.seq LIMIT 1)
            FROM holdfast_cursor k WHERE k.group_id = g.id)),
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = g.id LIMIT :most)),
       (SELECT count(*) FROM (SELECT d.replayed_as FROM holdfast_dead d WHERE d.channel_id = c.id
                              ORDER BY d.id DESC LIMIT :most) WHERE replayed_as IS NULL)
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
ORDER BY c.tenant, c.name
LIMIT :queues
