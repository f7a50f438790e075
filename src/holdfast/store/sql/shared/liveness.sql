-- name: beat
-- The group is held until the transaction ends.
UPDATE holdfast_group SET beat_at = :now, misses = 0, missed_at = NULL
WHERE id = :group AND ended_at IS NULL
RETURNING missing, dead_at IS NOT NULL

-- name: is_dead
SELECT 1 FROM holdfast_group WHERE id = :group AND dead_at IS NOT NULL

-- name: revive
UPDATE holdfast_group SET dead_at = NULL, revivals = revivals + 1 WHERE id = :group

-- name: note
UPDATE holdfast_group SET beat_at = :beat_at, misses = :misses, missed_at = :missed_at::bigint WHERE id = :group

-- name: die
UPDATE holdfast_group SET dead_at = :now, deaths = deaths + 1 WHERE id = :group

-- name: is_silent
-- Whether it claims nothing because it is dead, has lost something, or was canceled.
SELECT 1 FROM holdfast_group
WHERE id = :group
  AND (canceled_at IS NOT NULL OR NOT paused AND ended_at IS NULL AND (dead_at IS NOT NULL OR missing > 0))

-- name: missing
SELECT missing FROM holdfast_group WHERE id = :group

-- name: accept
UPDATE holdfast_group SET missing = 0 WHERE id = :group

-- name: groups
SELECT c.id, g.id, c.name, c.spec, g.canceled_at, g.paused, g.dead_at, g.deaths, g.revivals, g.lost, g.beat_at
FROM holdfast_group g
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE g.source = :topic AND (g.ended_at IS NULL OR g.canceled_at IS NOT NULL)
ORDER BY c.name
