-- name: find
SELECT started_at, spent, action, repeats, token, report
FROM holdfast_effort
WHERE group_id = :group AND message_id = :id::uuid

-- name: write
UPDATE holdfast_effort SET spent = :spent, action = :action, repeats = :repeats, token = :token, report = :report::uuid
WHERE group_id = :group AND message_id = :id::uuid

-- name: remember
UPDATE holdfast_effort SET session = :session WHERE group_id = :group AND message_id = :id::uuid

-- name: session
SELECT session FROM holdfast_effort WHERE group_id = :group AND message_id = :id::uuid
