-- name: version
SELECT coalesce(max(number), 0) FROM holdfast_migration

-- name: applied
SELECT number, name, digest FROM holdfast_migration ORDER BY number

-- name: applied_without_digests
-- In tables from before 0.1.
SELECT number, name, NULL::text FROM holdfast_migration ORDER BY number

-- name: record
INSERT INTO holdfast_migration (number, name, digest) VALUES (:number, :name, :digest)
