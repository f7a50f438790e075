-- name: add
-- Each of :completed was held for as long as it is since they were claimed, on average.
INSERT INTO holdfast_tally (group_id, second, slot, arrived, ended, dead, claimed, completed, failed, lapsed, busy, kept)
VALUES (:group, :now / 1000000, 0, :arrived, :ended, :dead, :claimed, :completed, :failed, :lapsed, :completed * (:now - :since), :kept)
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

-- name: fold
-- What is older than two minutes becomes one row, the oldest of it first.
INSERT INTO holdfast_tally (group_id, second, slot, arrived, ended, dead, claimed, completed, failed, lapsed, busy, kept)
SELECT group_id, 0, 0, sum(arrived), sum(ended), sum(dead), sum(claimed), sum(completed), sum(failed), sum(lapsed), sum(busy), sum(kept)
FROM holdfast_tally
WHERE group_id = :group AND second IN (
    SELECT second FROM holdfast_tally
    WHERE group_id = :group AND second > 0 AND second < :now / 1000000 - 120
    ORDER BY second
    LIMIT :limit
)
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
DELETE FROM holdfast_tally
WHERE group_id = :group AND second IN (
    SELECT second FROM holdfast_tally
    WHERE group_id = :group AND second > 0 AND second < :now / 1000000 - 120
    ORDER BY second
    LIMIT :limit
)

-- name: totals
-- What came into the lanes is known from their tails.
SELECT coalesce(sum(arrived) - sum(ended), 0)
       + (SELECT coalesce(sum(l.tail - (l.lane << 40)), 0)
          FROM holdfast_group g JOIN holdfast_lane l ON l.lane >= 4 * g.channel_id AND l.lane < 4 * g.channel_id + 4
          WHERE g.id = :group),
       coalesce(sum(dead), 0)
FROM holdfast_tally
WHERE group_id = :group
