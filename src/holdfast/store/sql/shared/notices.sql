-- name: add
INSERT INTO holdfast_notice (id, tenant, channel_id, dead_id, message_id, owner, error, traceback, attempts, created_at)
VALUES (:id, :tenant, :channel, :dead_id, :message_id, :owner, :error, :traceback, :attempts, :created_at)

-- name: report
-- What is reported again before anyone has answered is the same notice, with the newest error.
INSERT INTO holdfast_notice (id, tenant, kind, about, channel_id, owner, error, traceback, attempts, created_at)
VALUES (:id::uuid, :tenant, :kind, :about, :channel::bigint, :owner, :error, :traceback, 0, :created_at)
ON CONFLICT (tenant, kind, about) WHERE about IS NOT NULL AND acknowledged_at IS NULL
DO UPDATE SET repeats = holdfast_notice.repeats + 1, error = excluded.error, traceback = excluded.traceback
RETURNING id, repeats

-- name: forget_answered
-- About a dead letter they go with it. These have nothing to go with: a month after the answer they are history.
DELETE FROM holdfast_notice
WHERE tenant = :tenant AND kind = :kind AND about = :about AND acknowledged_at <= :now - 2592000000000

-- name: plan
-- When it climbs, and when it is brought with others.
UPDATE holdfast_notice SET climb_at = :now + :wait::bigint, deliver_at = :now + :digest::bigint
WHERE id = :id::uuid

-- name: late
SELECT n.id, c.name, n.owner, n.level, n.dead_id, n.message_id, n.error, n.attempts, n.created_at, n.climb_at,
       n.acknowledged_at, n.acknowledged_by, n.remark, n.kind, n.about, n.repeats, n.traceback
FROM holdfast_notice n
LEFT JOIN holdfast_channel c ON c.id = n.channel_id
WHERE n.tenant = :tenant AND n.acknowledged_at IS NULL AND n.climb_at <= :now
ORDER BY n.climb_at, n.id
LIMIT :limit
FOR UPDATE OF n SKIP LOCKED

-- name: leave
-- A callback is told of every level, also of one that the notice leaves before anyone looked.
INSERT INTO holdfast_untold_level (notice_id, level, tenant, owner, telling_until)
SELECT id, level, tenant, owner, telling_until FROM holdfast_notice WHERE id = :id::uuid AND told_at IS NULL

-- name: climb
-- The new owner's callback has not been told.
UPDATE holdfast_notice
SET owner = :owner, level = level + 1, climb_at = NULL, deliver_at = NULL, told_at = NULL, telling_until = NULL
WHERE id = :id::uuid

-- name: rest
-- There is nobody above.
UPDATE holdfast_notice SET climb_at = NULL WHERE id = :id::uuid

-- name: next_digest
-- Whose is due first.
SELECT owner FROM holdfast_notice
WHERE tenant = :tenant AND acknowledged_at IS NULL AND deliver_at <= :now
ORDER BY deliver_at
LIMIT 1
FOR UPDATE SKIP LOCKED

-- name: undelivered
SELECT n.id, c.name, n.owner, n.level, n.dead_id, n.message_id, n.error, n.attempts, n.created_at, n.climb_at,
       n.acknowledged_at, n.acknowledged_by, n.remark, n.kind, n.about, n.repeats, n.traceback
FROM holdfast_notice n
LEFT JOIN holdfast_channel c ON c.id = n.channel_id
WHERE n.tenant = :tenant AND n.acknowledged_at IS NULL AND n.deliver_at IS NOT NULL AND n.owner = :owner
ORDER BY n.id
LIMIT :limit
FOR UPDATE OF n SKIP LOCKED

-- name: delivered
UPDATE holdfast_notice SET deliver_at = NULL WHERE id = :id::uuid RETURNING 1

-- name: is_due
SELECT 1 FROM holdfast_notice
WHERE tenant = :tenant AND acknowledged_at IS NULL AND climb_at <= :now
UNION ALL
SELECT 1 FROM holdfast_notice
WHERE tenant = :tenant AND acknowledged_at IS NULL AND deliver_at <= :now
LIMIT 1

-- name: list
SELECT n.id, c.name, n.owner, n.level, n.dead_id, n.message_id, n.error, n.attempts, n.created_at, n.climb_at,
       n.acknowledged_at, n.acknowledged_by, n.remark, n.kind, n.about, n.repeats, n.traceback
FROM holdfast_notice n
LEFT JOIN holdfast_channel c ON c.id = n.channel_id
WHERE n.tenant = :tenant AND (:owner::text IS NULL OR n.owner = :owner) AND (:queue::text IS NULL OR c.name = :queue)
  AND (NOT :open_only OR n.acknowledged_at IS NULL)
  AND (:after::uuid IS NULL OR n.id > :after::uuid)
ORDER BY n.id
LIMIT :limit

-- name: answer_about
-- What it was about is over.
UPDATE holdfast_notice
SET acknowledged_at = :now, acknowledged_by = :actor, remark = 'it goes on', climb_at = NULL, deliver_at = NULL
WHERE tenant = :tenant AND kind = :kind AND about = :about AND acknowledged_at IS NULL

-- name: acknowledge
UPDATE holdfast_notice
SET acknowledged_at = :now, acknowledged_by = :actor, remark = :remark,
    climb_at = NULL, deliver_at = NULL
WHERE id = :id::uuid AND tenant = :tenant AND acknowledged_at IS NULL
RETURNING 1

-- name: answer
-- Whoever replays a dead letter has answered for it.
UPDATE holdfast_notice
SET acknowledged_at = :now, acknowledged_by = :actor, remark = 'replayed',
    climb_at = NULL, deliver_at = NULL
WHERE dead_id = :dead_id::uuid AND acknowledged_at IS NULL
RETURNING 1

-- name: left_untold
SELECT n.id, c.name, l.owner, l.level, n.dead_id, n.message_id, n.error, n.attempts, n.created_at,
       NULL, n.acknowledged_at, n.acknowledged_by, n.remark, n.kind, n.about, n.repeats, n.traceback
FROM holdfast_untold_level l
JOIN holdfast_notice n ON n.id = l.notice_id
LEFT JOIN holdfast_channel c ON c.id = n.channel_id
WHERE l.tenant = :tenant AND (l.telling_until IS NULL OR l.telling_until <= :now)
ORDER BY l.notice_id, l.level
LIMIT :limit
FOR UPDATE OF l SKIP LOCKED

-- name: left_untold_of
SELECT n.id, c.name, l.owner, l.level, n.dead_id, n.message_id, n.error, n.attempts, n.created_at,
       NULL, n.acknowledged_at, n.acknowledged_by, n.remark, n.kind, n.about, n.repeats, n.traceback
FROM holdfast_untold_level l
JOIN holdfast_notice n ON n.id = l.notice_id
LEFT JOIN holdfast_channel c ON c.id = n.channel_id
WHERE l.tenant = :tenant AND l.owner = :owner AND (l.telling_until IS NULL OR l.telling_until <= :now)
ORDER BY l.notice_id, l.level
LIMIT :limit
FOR UPDATE OF l SKIP LOCKED

-- name: tell_left
UPDATE holdfast_untold_level SET telling_until = :now + 60000000
WHERE notice_id = :id::uuid AND level = :level
RETURNING 1

-- name: told
-- Of this level: it may have climbed meanwhile.
UPDATE holdfast_notice SET told_at = :now WHERE id = :id::uuid AND level = :level RETURNING 1

-- name: told_left
DELETE FROM holdfast_untold_level WHERE notice_id = :id::uuid AND level = :level RETURNING 1

-- name: forget
DELETE FROM holdfast_notice WHERE dead_id = :dead_id::uuid RETURNING 1
