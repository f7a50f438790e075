-- name: hold
-- Keeps beats out until the transaction ends.
SELECT 1 FROM holdfast_group WHERE id = :group FOR NO KEY UPDATE

-- name: pulses
-- Of groups that could die: when each was last heard of, by a beat, by who asked for work, or by who held a lease (which is renewed as
-- long as it is worked on). Who is paused is told to be silent.
SELECT g.id, greatest(g.beat_at, coalesce((SELECT max(c.seen_at) FROM holdfast_consumer c WHERE c.group_id = g.id), 0),
       least(:now, greatest(
           coalesce((SELECT max(u.until) FROM holdfast_run u WHERE u.group_id = g.id AND u.finished_at IS NULL), 0),
           coalesce((SELECT max(r.until) FROM holdfast_row r WHERE r.group_id = g.id AND r.state = 'processing'), 0)))),
       g.beat_at, g.misses, g.missed_at
FROM holdfast_group g
WHERE g.id IN (SELECT value::bigint FROM json_array_elements_text(:groups::json) AS value) AND g.dead_at IS NULL AND g.ended_at IS NULL AND NOT g.paused
