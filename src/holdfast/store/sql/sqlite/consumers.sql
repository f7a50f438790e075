-- name: outdated
DELETE FROM holdfast_consumer
WHERE group_id = :group AND worker IN (
    SELECT worker FROM holdfast_consumer
    WHERE group_id = :group AND seen_at <= :now - 3600000000
    LIMIT :limit
)
