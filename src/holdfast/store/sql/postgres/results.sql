-- name: keep
-- For as long as the message's history, or its idempotency key, lasts. How long that is turns out later: see prolong.
INSERT INTO holdfast_result (message_id, group_id, result, expires_at)
SELECT :id::uuid, g.id, :result, greatest(:now + g.history,
       coalesce((SELECT max(i.expires_at + CASE WHEN i.ended THEN 0 ELSE i.lasts END) FROM holdfast_idempotency i WHERE i.message_id = :id::uuid), 0))
FROM holdfast_group g
WHERE g.id = :group
ON CONFLICT (message_id) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
RETURNING 1

-- name: keep_together
-- Of two groups of a topic that did the same message, the last one's is kept.
INSERT INTO holdfast_result (message_id, group_id, result, expires_at)
SELECT DISTINCT ON (m.id) m.id, g.id, m.result, greatest(:now + g.history,
       coalesce((SELECT max(i.expires_at + CASE WHEN i.ended THEN 0 ELSE i.lasts END) FROM holdfast_idempotency i WHERE i.message_id = m.id), 0))
FROM unnest(:id::uuid[], :group::bigint[], :result::bytea[]) WITH ORDINALITY AS m (id, group_id, result, place)
JOIN holdfast_group g ON g.id = m.group_id
ORDER BY m.id, m.place DESC
ON CONFLICT (message_id) DO UPDATE SET result = excluded.result, expires_at = excluded.expires_at
RETURNING message_id AS of_id, 1

-- name: prolong_together
UPDATE holdfast_result r SET expires_at = n.expires
FROM (SELECT m.id, max(m.expires) AS expires FROM unnest(:id::uuid[], :expires::bigint[]) AS m (id, expires) GROUP BY m.id) AS n
WHERE r.message_id = n.id AND r.expires_at < n.expires
RETURNING r.message_id AS of_id, 1

-- name: outdated
DELETE FROM holdfast_result
WHERE message_id = ANY (ARRAY(
    SELECT message_id FROM holdfast_result
    WHERE group_id = :group AND expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
))
