-- name: notify
SELECT pg_notify(:channel::text, :payload::text)
