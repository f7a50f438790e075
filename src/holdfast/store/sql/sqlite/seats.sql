-- name: hold
-- PostgreSQL needs this so that two who count at the same time do not both find room; SQLite has one writer.
SELECT 1 WHERE :tenant IS NOT NULL AND :pool IS NOT NULL
