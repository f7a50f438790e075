-- name: is_due
-- Keys to forget, or numbers to add up; messages are looked at one by one.
SELECT 1 WHERE EXISTS (SELECT 1 FROM holdfast_idempotency
                       WHERE channel_id = :channel AND expires_at <= :now)
            OR EXISTS (SELECT 1 FROM holdfast_tally WHERE group_id = :group AND second > 0
                       AND second < :now / 1000000 - 120)

-- name: lose
-- What it loses while nobody has decided about the rest is to be decided about too.
UPDATE holdfast_group SET lost = lost + :count, lost_at = :now,
    missing = CASE WHEN :dead::boolean OR missing > 0 THEN missing + :count ELSE 0 END
WHERE id = :group
RETURNING lost, missing
