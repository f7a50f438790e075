-- name: forget
-- Those who have been dead for an hour. An array is chosen once; an IN would be asked again for every row, past the limit.
DELETE FROM holdfast_worker
WHERE tenant = :tenant AND id = ANY (ARRAY(
    SELECT id FROM holdfast_worker
    WHERE tenant = :tenant AND valid_until <= :now - 3600000000
    ORDER BY valid_until
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
