-- name: forget
-- An attempt that was handed back is made again under the same number.
DELETE FROM holdfast_commitment WHERE message_id = :id::uuid AND attempt = :attempt

-- name: keep
-- For as long as the message's history lasts.
INSERT INTO holdfast_commitment (message_id, attempt, place, group_id, name, passed, code, output, checked_at, expires_at)
SELECT :id::uuid, :attempt::bigint, :place::bigint, g.id, :name::text, :passed::boolean, :code::bigint, :output::text, :now, :now + g.history
FROM holdfast_group g
WHERE g.id = :group
RETURNING 1

-- name: list
SELECT k.name, k.passed, k.code, k.output, k.attempt, k.checked_at
FROM holdfast_commitment k
JOIN holdfast_group g ON g.id = k.group_id
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE k.message_id = :id::uuid AND c.tenant = :tenant
ORDER BY k.attempt, k.place

-- name: outdated
SELECT DISTINCT message_id FROM (
    SELECT message_id FROM holdfast_commitment
    WHERE group_id = :group AND expires_at <= :now
    ORDER BY expires_at
    LIMIT :limit
) AS found
ORDER BY message_id

-- name: is_wanted
-- Whether the message still has something before it, or lies among the dead, where someone will ask why.
SELECT 1 FROM holdfast_row WHERE id = :id::uuid AND group_id = :group AND finished_at IS NULL
UNION ALL SELECT 1 FROM holdfast_dead WHERE message_id = :id::uuid
LIMIT 1
