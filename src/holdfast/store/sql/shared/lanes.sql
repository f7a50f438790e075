-- name: remove
DELETE FROM holdfast_message WHERE id = :id::uuid RETURNING 1

-- name: is_known
-- Whether an insert whose answer got lost did store this message.
SELECT 1 FROM holdfast_message WHERE id = :id::uuid
UNION ALL SELECT 1 FROM holdfast_row WHERE id = :id::uuid
UNION ALL SELECT 1 FROM holdfast_dead WHERE message_id = :id::uuid
LIMIT 1
