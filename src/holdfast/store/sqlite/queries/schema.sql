-- name: prepare
CREATE TABLE IF NOT EXISTS holdfast_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
)

-- name: exists
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_migration'

-- name: version
SELECT coalesce(max(number), 0) FROM holdfast_migration

-- name: record
INSERT INTO holdfast_migration (number, name) VALUES (:number, :name)

-- name: files
PRAGMA database_list
