-- name: outdated
DELETE FROM holdfast_start s
USING (SELECT key, slot FROM holdfast_start
       WHERE group_id = :group AND at <= :now - :per::bigint
       ORDER BY at
       LIMIT :limit
       FOR UPDATE SKIP LOCKED) AS old
WHERE s.group_id = :group AND s.key = old.key AND s.slot = old.slot

-- name: front
SELECT seq, alone, free
FROM holdfast_front((SELECT l FROM holdfast_limit l WHERE l.group_id = :group), :lane::bigint, :limit::bigint,
                    holdfast_now(:now::bigint), :alone)

-- name: next_row
-- How long until the next row of a lane that is not due yet is.
SELECT min(due_at) - :now FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head AND due_at > :now
