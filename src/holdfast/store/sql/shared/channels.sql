-- name: lock
SELECT id, kind, spec FROM holdfast_channel WHERE tenant = :tenant AND name = :name
FOR NO KEY UPDATE

-- name: declare
-- Nothing if the name is taken by now.
INSERT INTO holdfast_channel (tenant, name, kind, spec, declared_at)
VALUES (:tenant, :name, 'queue', :spec, :now)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id

-- name: change
UPDATE holdfast_channel SET spec = :spec WHERE id = :channel

-- name: join
-- The hidden group of a queue.
INSERT INTO holdfast_group (channel_id, name, history, limited, delivery)
VALUES (:channel, '', :history, :limited, :delivery)
ON CONFLICT (channel_id, name) DO UPDATE
SET history = excluded.history, limited = excluded.limited, delivery = excluded.delivery
RETURNING id

-- name: find
-- A queue, or a group of a topic.
SELECT c.id, g.id, c.spec, g.source
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE c.tenant = :tenant AND c.name = :name AND c.kind <> 'topic' AND g.ended_at IS NULL

-- name: owner
-- Whose message a group's is: for wake-ups, dead letters and settings.
SELECT c.id, c.tenant, c.name, c.spec
FROM holdfast_group g
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE g.id = :group

-- name: names
-- Without Holdfast's own, whose names begin with :own.
SELECT name FROM holdfast_channel
WHERE tenant = :tenant AND kind = 'queue' AND substr(name, 1, length(:own::text)) <> :own::text
ORDER BY name

-- name: readers
-- Queues, and groups of topics. Without Holdfast's own, whose names begin with :own.
SELECT c.name, c.id, g.id, c.spec, g.source
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE c.tenant = :tenant AND c.kind <> 'topic' AND g.ended_at IS NULL AND substr(c.name, 1, length(:own::text)) <> :own::text
ORDER BY c.name

-- name: pause
-- The time of the pause is no silence.
UPDATE holdfast_group SET stopped = :stopped, paused = :paused, beat_at = :now, misses = 0, missed_at = NULL WHERE id = :group

-- name: is_paused
SELECT paused FROM holdfast_group WHERE id = :group
