-- name: list
SELECT d.id, c.name, d.message_id, d.lane, d.body, d.headers, d.key, d.correlation_id, d.reply_to, d.topic,
       NULL, d.enqueued_at,
       d.error, d.attempts, d.failed_at, d.errors, d.replayed_as, d.replay_state, d.replays
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id
WHERE d.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
  AND (:after IS NULL OR d.id > :after)
  AND (:error IS NULL OR instr(d.error, :error) > 0)
  AND (:key IS NULL OR d.key = :key)
  AND (:since IS NULL OR d.failed_at >= :since) AND (:before IS NULL OR d.failed_at < :before)
  AND (NOT :fresh OR d.replayed_as IS NULL)
ORDER BY d.id
LIMIT :limit

-- name: matching
-- How many of them there are, and the last: the end of what a bulk act is about.
SELECT count(*), max(d.id)
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id
WHERE d.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
  AND (:after IS NULL OR d.id > :after)
  AND (:error IS NULL OR instr(d.error, :error) > 0)
  AND (:key IS NULL OR d.key = :key)
  AND (:since IS NULL OR d.failed_at >= :since) AND (:before IS NULL OR d.failed_at < :before)
  AND (NOT :fresh OR d.replayed_as IS NULL)

-- name: outdated
-- A dead letter stays while its replay is under way.
DELETE FROM holdfast_dead
WHERE id IN (
    SELECT id FROM holdfast_dead
    WHERE channel_id = :channel AND failed_at <= :now - :retention AND replay_state IS NOT 'pending'
    ORDER BY failed_at
    LIMIT :limit
)

-- name: search
-- By one of the three; each has an index but the last.
SELECT DISTINCT message_id FROM (
    SELECT m.message_id FROM holdfast_dead m
    JOIN holdfast_channel c ON c.id = m.channel_id
    WHERE m.key = :key AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.message_id > :after)
    UNION ALL
    SELECT m.message_id FROM holdfast_dead m
    JOIN holdfast_channel c ON c.id = m.channel_id
    WHERE m.correlation_id = :correlation_id AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.message_id > :after)
    UNION ALL
    SELECT m.message_id FROM holdfast_dead m
    JOIN holdfast_channel c ON c.id = m.channel_id
    WHERE :header IS NOT NULL AND instr(m.headers, :header) > 0 AND c.tenant = :tenant AND (:queue IS NULL OR c.name = :queue)
      AND (:after IS NULL OR m.message_id > :after)
) AS found
ORDER BY message_id
LIMIT :limit
