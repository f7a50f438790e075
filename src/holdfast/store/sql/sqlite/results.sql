-- name: keep
-- For as long as the message's history, or its idempotency key, lasts. How long that is turns out later: see prolong.
INSERT INTO holdfast_result (message_id, group_id, result, expires_at)
SELECT :id, g.id, :result, max(:now + g.history,
       coalesce((SELECT max(i.expires_at + CASE WHEN i.ended THEN 0 ELSE i.lasts END) FROM holdfast_idempotency i WHERE i.message_id = :id), 0))
FROM holdfast_group g
WHERE g.id = :group
ON CONFLICT (message_id) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
RETURNING 1

-- name: outdated
DELETE FROM holdfast_result
WHERE message_id IN (
    SELECT message_id FROM holdfast_result
    WHERE group_id = :group AND expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
)
