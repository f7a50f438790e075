-- name: prepare
CREATE TABLE IF NOT EXISTS holdfast_migration (
    number     bigint PRIMARY KEY,
    name       text   NOT NULL,
    digest     text   NOT NULL,
    applied_at bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
)

-- name: hold
-- One process at a time, in every database of the server that has this table.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast_migration', 0))

-- name: exists
SELECT 1 WHERE to_regclass('holdfast_migration') IS NOT NULL

-- name: has_digests
SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('holdfast_migration') AND attname = 'digest' AND NOT attisdropped

-- name: identity
-- Tells this set of tables from that of any other database or schema.
SELECT to_regclass('holdfast_migration')::oid::bigint, applied_at FROM holdfast_migration WHERE number = 1

-- name: is_ahead
-- After a dump was restored on another server, messages may carry transaction numbers that this server has not reached.
SELECT 1
FROM holdfast_lane l
LEFT JOIN LATERAL (SELECT m.xid FROM holdfast_message m WHERE m.lane = l.lane ORDER BY m.xid DESC LIMIT 1) AS last ON true
LEFT JOIN LATERAL (SELECT c.hi FROM holdfast_cursor c WHERE c.group_id = l.group_id AND c.lane = l.lane
                   ORDER BY c.number DESC LIMIT 1) AS reader ON true
WHERE greatest(last.xid, pg_snapshot_xmax(reader.hi)) > pg_snapshot_xmax(pg_current_snapshot())
LIMIT 1

-- name: stop_everything
LOCK TABLE holdfast_lane, holdfast_cursor, holdfast_run, holdfast_message, holdfast_row IN ACCESS EXCLUSIVE MODE

-- name: end_leases
UPDATE holdfast_run SET until = 0 WHERE finished_at IS NULL

-- name: channels
SELECT tenant, name FROM holdfast_channel

-- name: finished_runs
SELECT token, group_id, size FROM holdfast_run

-- name: renumber_messages
UPDATE holdfast_message SET xid = pg_current_xact_id()

-- name: place_groups
-- What groups have read is still there. By the numbers to come, each goes on before the first message that it has not read; of
-- those behind that one it may get some again.
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT l.group_id, l.lane, CASE WHEN first.seq IS NULL THEN new.all_of_it ELSE '1:1:' END, new.all_of_it, pg_current_xact_id(),
       coalesce(first.seq - 1, -1)
FROM holdfast_lane l
JOIN holdfast_group g ON g.id = l.group_id AND g.source IS NOT NULL AND g.ended_at IS NULL
CROSS JOIN LATERAL (SELECT format('%1$s:%1$s:', pg_current_xact_id()::text::numeric + 1)::pg_snapshot AS all_of_it) AS new
LEFT JOIN LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = l.group_id AND c.lane = l.lane
                   ORDER BY c.number DESC LIMIT 1) AS last ON true
LEFT JOIN LATERAL (SELECT min(m.seq) AS seq FROM holdfast_message m
                   WHERE m.lane = l.lane AND holdfast_is_pending(last.c, m.xid, m.seq)) AS first ON true

-- name: forget_cursors
-- All but those that groups have just got.
DELETE FROM holdfast_cursor c USING holdfast_group g
WHERE g.id = c.group_id
  AND (g.source IS NULL OR EXISTS (SELECT 1 FROM holdfast_cursor n
                                   WHERE n.group_id = c.group_id AND n.lane = c.lane AND n.number > c.number))

-- name: restart_cursors
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT l.group_id, l.lane, '1:1:', '1:1:', '1', -1
FROM holdfast_lane l
JOIN holdfast_group g ON g.id = l.group_id AND g.source IS NULL
