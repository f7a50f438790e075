-- name: insert
INSERT INTO holdfast_dead (id, tenant, channel_id, group_id, message_id, lane, attempts, error, errors, failed_at,
                           body, headers, key, correlation_id, reply_to, topic, enqueued_at, saga, unsent, copy_id, replays)
VALUES (:id, :tenant, :channel, :group, :message_id, :lane, :attempts, :error, :errors, :failed_at,
        :body, :headers, :key, :correlation_id, :reply_to, :topic, :enqueued_at, :saga, :unsent, :copy_id,
        coalesce((SELECT d.replays + 1 FROM holdfast_dead d WHERE d.id = :replay_of), 0))

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

-- name: delete
DELETE FROM holdfast_dead WHERE id = :id AND tenant = :tenant RETURNING group_id, copy_id

-- name: outdated
-- A dead letter stays while its replay is under way.
DELETE FROM holdfast_dead
WHERE id IN (
    SELECT id FROM holdfast_dead
    WHERE channel_id = :channel AND failed_at <= :now - :retention AND replay_state IS NOT 'pending'
    ORDER BY failed_at
    LIMIT :limit
)

-- name: look_up
-- The last death of a message.
SELECT d.message_id, d.lane, d.body, d.headers, d.key, d.correlation_id, d.reply_to, d.topic, NULL, d.enqueued_at,
       c.name, 'dead', d.attempts, NULL, NULL, NULL, d.failed_at, d.errors, NULL,
       (SELECT e.session FROM holdfast_effort e WHERE e.group_id = d.group_id AND e.message_id = d.message_id)
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id
WHERE d.message_id = :id AND d.tenant = :tenant
ORDER BY d.id DESC
LIMIT 1

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

-- name: begin_replay
UPDATE holdfast_dead SET replayed_as = :new_id, replay_state = 'pending'
WHERE id = :id AND tenant = :tenant AND replayed_as IS NULL
  AND EXISTS (SELECT 1 FROM holdfast_group g WHERE g.id = group_id AND g.ended_at IS NULL)
RETURNING group_id, lane, body, headers, key, correlation_id, reply_to, topic, saga, message_id, copy_id

-- name: exists
-- With when its group has ended.
SELECT g.ended_at FROM holdfast_dead d JOIN holdfast_group g ON g.id = d.group_id WHERE d.id = :id AND d.tenant = :tenant

-- name: end_replay
UPDATE holdfast_dead SET replay_state = :state WHERE id = :id RETURNING 1

-- name: purge_replays
-- The replays among the messages that are about to be purged.
UPDATE holdfast_dead SET replay_state = 'canceled'
WHERE id IN (SELECT replay_of FROM holdfast_row
             WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND replay_of IS NOT NULL)

-- name: is_older
SELECT 1 FROM holdfast_dead WHERE channel_id = :channel AND failed_at <= :now - :age LIMIT 1
