-- name: now
-- The host's clock as the SQLite library reads it; whole milliseconds, understood by every SQLite since 3.35.
SELECT CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000
