-- name: insert
INSERT INTO holdfast_dead (id, tenant, channel_id, group_id, message_id, lane, attempts, error, errors, failed_at,
                           body, headers, key, correlation_id, reply_to, topic, enqueued_at, saga, unsent, copy_id, replays)
VALUES (:id::uuid, :tenant, :channel, :group, :message_id::uuid, :lane, :attempts, :error, :errors, :failed_at,
        :body, :headers, :key, :correlation_id, :reply_to, :topic, :enqueued_at, :saga, :unsent, :copy_id::uuid,
        coalesce((SELECT d.replays + 1 FROM holdfast_dead d WHERE d.id = :replay_of::uuid), 0))

-- name: delete
DELETE FROM holdfast_dead WHERE id = :id::uuid AND tenant = :tenant RETURNING group_id, copy_id

-- name: look_up
-- The last death of a message.
SELECT d.message_id, d.lane, d.body, d.headers, d.key, d.correlation_id, d.reply_to, d.topic, NULL::bigint, d.enqueued_at,
       c.name, 'dead', d.attempts, NULL::bigint, NULL, NULL::bigint, d.failed_at, d.errors, NULL::bigint,
       (SELECT e.session FROM holdfast_effort e WHERE e.group_id = d.group_id AND e.message_id = d.message_id)
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id
WHERE d.message_id = :id::uuid AND d.tenant = :tenant
ORDER BY d.id DESC
LIMIT 1

-- name: begin_replay
UPDATE holdfast_dead SET replayed_as = :new_id::uuid, replay_state = 'pending'
WHERE id = :id::uuid AND tenant = :tenant AND replayed_as IS NULL
  AND EXISTS (SELECT 1 FROM holdfast_group g WHERE g.id = group_id AND g.ended_at IS NULL)
RETURNING group_id, lane, body, headers, key, correlation_id, reply_to, topic, saga, message_id, copy_id

-- name: exists
-- With when its group has ended.
SELECT g.ended_at FROM holdfast_dead d JOIN holdfast_group g ON g.id = d.group_id WHERE d.id = :id::uuid AND d.tenant = :tenant

-- name: end_replay
UPDATE holdfast_dead SET replay_state = :state WHERE id = :id::uuid RETURNING 1

-- name: purge_replays
-- The replays among the messages that are about to be purged.
UPDATE holdfast_dead SET replay_state = 'canceled'
WHERE id IN (SELECT replay_of FROM holdfast_row
             WHERE group_id = :group AND token IS NULL AND finished_at IS NULL AND replay_of IS NOT NULL)

-- name: is_older
SELECT 1 FROM holdfast_dead WHERE channel_id = :channel AND failed_at <= :now - :age LIMIT 1
