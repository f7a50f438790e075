-- name: prepare
CREATE TABLE IF NOT EXISTS holdfast_migration (
    number     bigint PRIMARY KEY,
    name       text   NOT NULL,
    applied_at bigint NOT NULL
)

-- name: hold
-- One process at a time, in every database of the server that has this table.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast_migration', 0))

-- name: exists
SELECT 1 WHERE to_regclass('holdfast_migration') IS NOT NULL

-- name: version
SELECT coalesce(max(number), 0) FROM holdfast_migration

-- name: record
INSERT INTO holdfast_migration (number, name, applied_at) VALUES (:number, :name, (SELECT holdfast_now(:now::bigint)))
