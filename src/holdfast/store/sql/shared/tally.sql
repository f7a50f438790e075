-- name: is_old
SELECT 1 FROM holdfast_tally WHERE group_id = :group AND second > 0 AND second < :now / 1000000 - 120 LIMIT 1

-- name: recent
-- The last minute, and how long the messages completed in it were worked on.
SELECT coalesce(sum(claimed), 0)::bigint, coalesce(sum(completed), 0)::bigint, coalesce(sum(failed), 0)::bigint,
       coalesce(sum(lapsed), 0)::bigint, coalesce(sum(busy), 0)::bigint
FROM holdfast_tally
WHERE group_id = :group AND second > :now / 1000000 - :window AND second > 0

-- name: kept
SELECT coalesce(sum(kept), 0)::bigint FROM holdfast_tally WHERE group_id = :group
