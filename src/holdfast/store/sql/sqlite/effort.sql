-- name: begin
-- It is looked at again when the message's history could be over, but not all the time.
INSERT INTO holdfast_effort (group_id, message_id, started_at, look_at)
SELECT g.id, :id, :since, :now + max(g.history, 60000000)
FROM holdfast_group g
WHERE g.id = :group
ON CONFLICT DO NOTHING
RETURNING 1

-- name: postpone
UPDATE holdfast_effort
SET look_at = :now + max((SELECT history FROM holdfast_group WHERE id = :group), 60000000)
WHERE group_id = :group AND message_id IN (
    SELECT e.message_id FROM holdfast_effort e
    WHERE e.group_id = :group AND e.look_at <= :now
    ORDER BY e.look_at
    LIMIT :limit
)
  AND (EXISTS (SELECT 1 FROM holdfast_message m WHERE m.id = holdfast_effort.message_id)
       OR EXISTS (SELECT 1 FROM holdfast_row r WHERE r.id = holdfast_effort.message_id AND r.group_id = :group))

-- name: outdated
DELETE FROM holdfast_effort
WHERE group_id = :group AND message_id IN (
    SELECT e.message_id FROM holdfast_effort e
    WHERE e.group_id = :group AND e.look_at <= :now
    ORDER BY e.look_at
    LIMIT :limit
)
  AND NOT EXISTS (SELECT 1 FROM holdfast_message m WHERE m.id = holdfast_effort.message_id)
  AND NOT EXISTS (SELECT 1 FROM holdfast_row r WHERE r.id = holdfast_effort.message_id AND r.group_id = :group)
