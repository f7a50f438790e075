-- name: end_sessions
-- Only our own: a name that begins so is given to nobody else's.
SELECT pg_terminate_backend(a.pid)
FROM pg_stat_activity a
WHERE starts_with(a.application_name, :named) AND a.datname = current_database() AND a.pid <> pg_backend_pid()
