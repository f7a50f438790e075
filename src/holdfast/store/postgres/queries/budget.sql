-- name: spend
INSERT INTO holdfast_budget (group_id, spent)
VALUES (:group, :amount)
ON CONFLICT (group_id) DO UPDATE SET spent = holdfast_budget.spent + excluded.spent
RETURNING spent

-- name: find
SELECT spent, paused_by FROM holdfast_budget WHERE group_id = :group

-- name: pause
UPDATE holdfast_group SET paused = true WHERE id = :group AND NOT paused
RETURNING 1

-- name: note_pause
UPDATE holdfast_budget SET paused_by = :report::uuid WHERE group_id = :group

-- name: forget
DELETE FROM holdfast_budget WHERE group_id = :group RETURNING spent
