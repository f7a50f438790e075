-- name: spend
INSERT INTO holdfast_budget (group_id, spent)
VALUES (:group, :amount)
ON CONFLICT (group_id) DO UPDATE SET spent = holdfast_budget.spent + excluded.spent
RETURNING spent

-- name: find
SELECT spent, paused_by FROM holdfast_budget WHERE group_id = :group

-- name: hold
-- Reports wait from here on, so that what follows from the amount is still true at the end.
UPDATE holdfast_budget SET spent = spent WHERE group_id = :group RETURNING spent

-- name: mind
-- Pauses a group whose budget is spent, and lets one go on that was paused for nothing else.
UPDATE holdfast_group SET paused = (stopped OR :spent) WHERE id = :group AND paused <> (stopped OR :spent)
RETURNING 1

-- name: note_pause
UPDATE holdfast_budget SET paused_by = :report::uuid WHERE group_id = :group

-- name: forget
DELETE FROM holdfast_budget WHERE group_id = :group RETURNING spent

-- name: pause
UPDATE holdfast_group SET stopped = true, paused = true WHERE id = :group AND NOT stopped
RETURNING 1
