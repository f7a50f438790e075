-- name: below
-- A name that someone has below another one.
SELECT name FROM holdfast_channel
WHERE tenant = :tenant AND kind <> 'group' AND substr(name, 1, length(:name) + 1) = :name || '.'
ORDER BY name
LIMIT 1

-- name: find
SELECT c.id, g.id, c.name, c.spec
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE c.id = :channel AND c.kind = 'topic'

-- name: names
SELECT name FROM holdfast_channel WHERE tenant = :tenant AND owns ORDER BY name

-- name: subscribe
INSERT INTO holdfast_channel (tenant, name, kind, spec, declared_at)
VALUES (:tenant, :name, 'group', :spec, :now)
ON CONFLICT (tenant, name) DO UPDATE SET spec = excluded.spec
RETURNING id

-- name: join
-- One that had ended begins anew.
INSERT INTO holdfast_group (channel_id, name, history, limited, source, wanted, fed, beat_at)
VALUES (:channel, '', 0, :limited, :source, :wanted, :fed, :now)
ON CONFLICT (channel_id, name) DO UPDATE SET
    limited = excluded.limited, wanted = excluded.wanted, fed = excluded.fed, beat_at = excluded.beat_at, misses = 0, missed_at = NULL,
    dead_at = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.dead_at END,
    deaths = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.deaths ELSE 0 END,
    revivals = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.revivals ELSE 0 END,
    lost = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.lost ELSE 0 END,
    missing = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.missing ELSE 0 END, ended_at = NULL,
    paused = holdfast_group.paused AND holdfast_group.ended_at IS NULL,
    stopped = holdfast_group.stopped AND holdfast_group.ended_at IS NULL
RETURNING id

-- name: leave
UPDATE holdfast_group SET ended_at = :now WHERE id = :group AND ended_at IS NULL
RETURNING 1

-- name: goes_on
SELECT 1 FROM holdfast_group WHERE id = :group AND ended_at IS NULL

-- name: cancel
UPDATE holdfast_group SET canceled_at = :now WHERE id = :group

-- name: is_canceled
SELECT 1
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.canceled_at IS NOT NULL
WHERE c.tenant = :tenant AND c.name = :name AND c.kind = 'group'

-- name: remove
-- The rest of a group that was canceled: its name is free.
UPDATE holdfast_group SET canceled_at = NULL
WHERE canceled_at IS NOT NULL
  AND channel_id IN (SELECT id FROM holdfast_channel WHERE tenant = :tenant AND name = :name AND kind = 'group')
RETURNING 1

-- name: listeners
-- What each group wants that is owed new messages. A paused group is, a dead one is not.
SELECT DISTINCT wanted FROM holdfast_group WHERE source = :channel AND ended_at IS NULL AND dead_at IS NULL

-- name: forget_cursors
DELETE FROM holdfast_cursor WHERE group_id = :group

-- name: forget_runs
DELETE FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL

-- name: forget_skips
DELETE FROM holdfast_skip WHERE group_id = :group

-- name: forget_blocks
DELETE FROM holdfast_blocked WHERE group_id = :group

-- name: end_replays
-- The replays of dead letters that come to nothing, because the group ends.
UPDATE holdfast_dead SET replay_state = 'canceled'
WHERE id IN (SELECT replay_of FROM holdfast_row WHERE group_id = :group AND finished_at IS NULL AND replay_of IS NOT NULL)

-- name: forget_rows
DELETE FROM holdfast_row WHERE group_id = :group

-- name: is_placed
SELECT 1 FROM holdfast_cursor WHERE group_id = :group LIMIT 1

-- name: keep_past
UPDATE holdfast_group SET past = :past WHERE id = :group

-- name: whole_past
SELECT past FROM holdfast_group WHERE id = :group

-- name: remains
-- What groups have of a message that their topic keeps no more.
SELECT c.name, r.state
FROM holdfast_row r
JOIN holdfast_group g ON g.id = r.group_id AND g.source IS NOT NULL
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE r.id = :id::uuid AND c.tenant = :tenant
UNION ALL
SELECT c.name, 'dead'
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id AND c.kind = 'group'
WHERE d.message_id = :id::uuid AND d.tenant = :tenant
ORDER BY 1

-- name: declare
-- Nothing if the name is taken by now.
INSERT INTO holdfast_channel (tenant, name, kind, owns, spec, declared_at)
VALUES (:tenant, :name, 'topic', true, :spec, :now)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id

-- name: own
-- A queue in the form of a topic.
UPDATE holdfast_channel SET owns = true WHERE id = :channel
