-- name: add
INSERT INTO holdfast_audit (tenant, at, actor, act, queue, about, count)
VALUES (:tenant, :now, :actor, :act, :queue, :about, :count)
RETURNING id

-- name: grow
UPDATE holdfast_audit SET count = count + :count WHERE id = :id

-- name: list
SELECT id, at, actor, act, queue, about, count
FROM holdfast_audit
WHERE tenant = :tenant AND (:before::bigint IS NULL OR id < :before)
ORDER BY id DESC
LIMIT :limit
