-- name: forget
-- Those who have been dead for an hour.
DELETE FROM holdfast_worker
WHERE tenant = :tenant AND id IN (
    SELECT id FROM holdfast_worker
    WHERE tenant = :tenant AND valid_until <= :now - 3600000000
    ORDER BY valid_until
    LIMIT :limit
)
