-- name: change
-- What an attach does not say stays as it was; a detach forgets it.
INSERT INTO holdfast_attachment (tenant, consumer, queue, attached, weight, empty, changed_at)
VALUES (:tenant, :consumer, :queue, :attached, :weight::float8, :empty::text, :now)
ON CONFLICT (tenant, consumer, queue) DO UPDATE SET
    attached = excluded.attached,
    weight = CASE WHEN excluded.attached THEN coalesce(excluded.weight, holdfast_attachment.weight) END,
    empty = CASE WHEN excluded.attached THEN coalesce(excluded.empty, holdfast_attachment.empty) END,
    changed_at = excluded.changed_at

-- name: list
SELECT consumer, queue, attached, weight, empty, changed_at
FROM holdfast_attachment
WHERE tenant = :tenant AND (:consumer::text IS NULL OR consumer = :consumer)
ORDER BY consumer, queue
