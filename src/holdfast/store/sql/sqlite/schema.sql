-- name: prepare
CREATE TABLE IF NOT EXISTS holdfast_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000000)
)

-- name: exists
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'holdfast_migration'

-- name: has_digests
SELECT 1 FROM pragma_table_info('holdfast_migration') WHERE name = 'digest'

-- name: files
PRAGMA database_list
