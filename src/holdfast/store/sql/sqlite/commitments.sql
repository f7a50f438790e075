-- name: prolong
-- (The plus has them found by their message, and not among all whose time is over.)
UPDATE holdfast_commitment SET expires_at = :now + max(3600000000, (SELECT history FROM holdfast_group WHERE id = :group))
WHERE message_id = :id AND +group_id = :group AND expires_at <= :now
RETURNING 1

-- name: remove
DELETE FROM holdfast_commitment WHERE message_id = :id AND +group_id = :group AND expires_at <= :now
