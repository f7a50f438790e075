-- name: untold
-- An array, because a join with a subquery that locks may run it again and again, each time with other rows.
UPDATE holdfast_notice SET telling_until = :now + 60000000
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast_notice
    WHERE tenant = :tenant AND told_at IS NULL AND acknowledged_at IS NULL AND deliver_at IS NULL
      AND (telling_until IS NULL OR telling_until <= :now)
    ORDER BY id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
RETURNING id, (SELECT c.name FROM holdfast_channel c WHERE c.id = channel_id), owner, level, dead_id, message_id, error,
          attempts, created_at, climb_at, acknowledged_at, acknowledged_by, remark, kind, about, repeats, traceback

-- name: untold_of
UPDATE holdfast_notice SET telling_until = :now + 60000000
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast_notice
    WHERE tenant = :tenant AND owner = :owner AND told_at IS NULL AND acknowledged_at IS NULL AND deliver_at IS NULL
      AND (telling_until IS NULL OR telling_until <= :now)
    ORDER BY id
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
RETURNING id, (SELECT c.name FROM holdfast_channel c WHERE c.id = channel_id), owner, level, dead_id, message_id, error,
          attempts, created_at, climb_at, acknowledged_at, acknowledged_by, remark, kind, about, repeats, traceback

-- name: outdated
-- It is as old as its dead letter, and goes with it.
DELETE FROM holdfast_notice
WHERE id = ANY (ARRAY(
    SELECT id FROM holdfast_notice
    WHERE channel_id = :channel AND kind = 'dead_letter' AND created_at <= :now - :retention
    ORDER BY created_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
