-- name: is_picky
-- Whether a claim of a group may stop in the middle of a lane with nothing in its hands.
SELECT 1 FROM holdfast_group g
WHERE g.id = :group AND NOT g.paused AND g.dead_at IS NULL AND g.missing = 0
  AND (g.fed IS NOT NULL OR g.wanted IS NOT NULL
       OR EXISTS (SELECT 1 FROM holdfast_limit l WHERE l.group_id = g.id AND l.catch_up_count IS NOT NULL))
