-- name: prepare
CREATE TABLE IF NOT EXISTS holdfast_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
)

-- name: exists
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_migration'

-- name: version
SELECT coalesce(max(number), 0) FROM holdfast_migration

-- name: applied
SELECT number, name, digest FROM holdfast_migration ORDER BY number

-- name: has_digests
SELECT 1 FROM pragma_table_info('holdfast_migration') WHERE name = 'digest'

-- name: applied_without_digests
-- In tables from before 0.1.
SELECT number, name, NULL FROM holdfast_migration ORDER BY number

-- name: record
INSERT INTO holdfast_migration (number, name, digest) VALUES (:number, :name, :digest)

-- name: files
PRAGMA database_list
