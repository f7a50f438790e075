-- name: list
SELECT d.id, c.name, d.message_id, d.lane, d.body, d.headers, d.key, d.correlation_id, d.reply_to, d.topic,
       NULL::bigint, d.enqueued_at,
       d.error, d.attempts, d.failed_at, d.errors, d.replayed_as, d.replay_state, d.replays
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id
WHERE d.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
  AND (:after::uuid IS NULL OR d.id > :after::uuid)
  AND (:error::text IS NULL OR position(:error::text IN d.error) > 0)
  AND (:key::text IS NULL OR d.key = :key)
  AND (:since::bigint IS NULL OR d.failed_at >= :since) AND (:before::bigint IS NULL OR d.failed_at < :before)
  AND (NOT :fresh::boolean OR d.replayed_as IS NULL)
ORDER BY d.id
LIMIT :limit

-- name: matching
-- How many of them there are, and the last: the end of what a bulk act is about.
SELECT count(*), (array_agg(d.id ORDER BY d.id DESC))[1]
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id
WHERE d.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
  AND (:after::uuid IS NULL OR d.id > :after::uuid)
  AND (:error::text IS NULL OR position(:error::text IN d.error) > 0)
  AND (:key::text IS NULL OR d.key = :key)
  AND (:since::bigint IS NULL OR d.failed_at >= :since) AND (:before::bigint IS NULL OR d.failed_at < :before)
  AND (NOT :fresh::boolean OR d.replayed_as IS NULL)

-- name: outdated
-- A dead letter stays while its replay is under way.
DELETE FROM holdfast_dead
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast_dead
    WHERE channel_id = :channel AND failed_at <= :now - :retention AND replay_state IS DISTINCT FROM 'pending'
    ORDER BY failed_at
    LIMIT :limit
))

-- name: search
-- By one of the three; each has an index but the last.
SELECT DISTINCT message_id FROM (
    SELECT m.message_id FROM holdfast_dead m
    JOIN holdfast_channel c ON c.id = m.channel_id
    WHERE m.key = :key::text AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.message_id > :after::uuid)
    UNION ALL
    SELECT m.message_id FROM holdfast_dead m
    JOIN holdfast_channel c ON c.id = m.channel_id
    WHERE m.correlation_id = :correlation_id::text AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.message_id > :after::uuid)
    UNION ALL
    SELECT m.message_id FROM holdfast_dead m
    JOIN holdfast_channel c ON c.id = m.channel_id
    WHERE :header::bytea IS NOT NULL AND position(:header::bytea IN m.headers) > 0 AND c.tenant = :tenant AND (:queue::text IS NULL OR c.name = :queue)
      AND (:after::uuid IS NULL OR m.message_id > :after::uuid)
) AS found
ORDER BY message_id
LIMIT :limit
