-- name: prolong
UPDATE holdfast_commitment SET expires_at = :now + greatest(3600000000, (SELECT history FROM holdfast_group WHERE id = :group))
WHERE message_id = :id::uuid AND group_id = :group AND expires_at <= :now
RETURNING 1

-- name: remove
DELETE FROM holdfast_commitment WHERE message_id = :id::uuid AND group_id = :group AND expires_at <= :now
