-- name: add
-- Each of :completed was held for as long as it is since they were claimed, on average.
SELECT holdfast_count(:group::bigint, holdfast_now(:now::bigint), :arrived::bigint, :ended::bigint, :dead::bigint, :claimed::bigint,
                      :completed::bigint, :failed::bigint, :lapsed::bigint, :since::bigint, :kept::bigint)

-- name: fold
-- What is older than two minutes becomes one row, the oldest of it first.
-- (A long transaction of someone's may still hold one of them; it is left for later, so that a sweep never waits.)
WITH free AS (
    SELECT second, slot FROM holdfast_tally
    WHERE group_id = :group AND second > 0 AND second < :now / 1000000 - 120
    ORDER BY second
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
), old AS (
    DELETE FROM holdfast_tally t USING free f
    WHERE t.group_id = :group AND t.second = f.second AND t.slot = f.slot
    RETURNING t.*
)
INSERT INTO holdfast_tally (group_id, second, slot, arrived, ended, dead, claimed, completed, failed, lapsed, busy, kept)
SELECT group_id, 0, 0, sum(arrived), sum(ended), sum(dead), sum(claimed), sum(completed), sum(failed), sum(lapsed), sum(busy), sum(kept)
FROM old
GROUP BY group_id
ON CONFLICT (group_id, second, slot) DO UPDATE SET
    arrived = holdfast_tally.arrived + excluded.arrived,
    ended = holdfast_tally.ended + excluded.ended,
    dead = holdfast_tally.dead + excluded.dead,
    claimed = holdfast_tally.claimed + excluded.claimed,
    completed = holdfast_tally.completed + excluded.completed,
    failed = holdfast_tally.failed + excluded.failed,
    lapsed = holdfast_tally.lapsed + excluded.lapsed,
    busy = holdfast_tally.busy + excluded.busy,
    kept = holdfast_tally.kept + excluded.kept

-- name: forget
-- SQLite needs this; here the fold has removed them.
SELECT 1 WHERE :group::bigint IS NOT NULL AND :limit::bigint IS NOT NULL

-- name: totals
SELECT coalesce(sum(arrived) - sum(ended), 0)::bigint, coalesce(sum(dead), 0)::bigint FROM holdfast_tally WHERE group_id = :group
