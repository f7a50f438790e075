-- name: durability
-- As our session sees them: a role or a database may have settings of its own.
SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes'),
       pg_is_in_recovery()

-- name: server
SELECT current_setting('server_version_num')::bigint, current_setting('server_version'),
       pg_database_size(current_database())

-- name: clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint

-- name: connections
-- Used, allowed, and how many sessions of other roles do not show what they do to ours.
SELECT (SELECT coalesce(sum(d.numbackends), 0)::bigint FROM pg_stat_database d WHERE d.datname IS NOT NULL),
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.datid IS NOT NULL AND a.query = '<insufficient privilege>')

-- name: transactions
-- The oldest that is open: who, and for how many microseconds. While it is, nothing deleted since can be cleared away.
SELECT who, (extract(epoch FROM clock_timestamp() - since) * 1000000)::bigint
FROM (
    SELECT concat('session ', a.pid, ' of ', a.usename, ' (', a.state, ')') AS who, a.xact_start AS since
    FROM pg_stat_activity a
    WHERE a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid() AND a.backend_type IN ('client backend', 'walsender')
    UNION ALL
    SELECT concat('prepared transaction ', p.gid), p.prepared FROM pg_prepared_xacts p
) AS opened
ORDER BY since
LIMIT 1

-- name: slots
-- Who keeps the server from throwing its log away, and how many bytes of it.
SELECT s.slot_name, s.active,
       coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
                                s.restart_lsn), 0)::bigint AS held
FROM pg_replication_slots s
ORDER BY held DESC
LIMIT :limit

-- name: newest
-- The latest time that anything carries, looked up at the end of each index.
SELECT max(moment) FROM (
    SELECT (SELECT m.enqueued_at FROM holdfast_message m WHERE m.lane = l.lane
            ORDER BY m.xid DESC, m.seq DESC LIMIT 1) AS moment
    FROM holdfast_lane l
    UNION ALL
    SELECT (SELECT r.enqueued_at FROM holdfast_row r WHERE r.group_id = g.id AND r.token IS NULL AND r.finished_at IS NULL
            ORDER BY r.enqueued_at DESC LIMIT 1)
    FROM holdfast_group g
    UNION ALL
    SELECT (SELECT r.finished_at FROM holdfast_run r WHERE r.group_id = g.id AND r.finished_at IS NOT NULL
            ORDER BY r.finished_at DESC LIMIT 1)
    FROM holdfast_group g
    UNION ALL
    SELECT (SELECT d.failed_at FROM holdfast_dead d WHERE d.channel_id = c.id ORDER BY d.failed_at DESC LIMIT 1)
    FROM holdfast_channel c
) AS moments

-- name: queues
-- For each queue: paused, open leases, those that ran out, since when the oldest claimable message waits, blocked keys, dead
-- letters without a replay among the newest. Every count stops at :most.
-- What a lane has left is in its reader's window, or came after it: from a later transaction, or one that was running then.
SELECT c.tenant, c.name, g.paused,
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_run r
                              WHERE r.group_id = g.id AND r.finished_at IS NULL ORDER BY r.until LIMIT :most) AS n)
     + (SELECT count(*) FROM (SELECT 1 FROM holdfast_row r
                              WHERE r.group_id = g.id AND r.state = 'processing' ORDER BY r.until LIMIT :most) AS n),
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_run r
                              WHERE r.group_id = g.id AND r.finished_at IS NULL
                                AND r.until <= :now - :grace ORDER BY r.until LIMIT :most) AS n)
     + (SELECT count(*) FROM (SELECT 1 FROM holdfast_row r
                              WHERE r.group_id = g.id AND r.state = 'processing'
                                AND r.until <= :now - :grace ORDER BY r.until LIMIT :most) AS n),
       (SELECT min(first.moment)
        FROM holdfast_lane l
        CROSS JOIN LATERAL (SELECT * FROM holdfast_cursor k WHERE k.group_id = g.id AND k.lane = l.lane
                            ORDER BY k.number DESC LIMIT 1) AS k
        CROSS JOIN LATERAL (
            (SELECT w.enqueued_at AS moment FROM holdfast_read_window(l.lane, k.lo, k.hi, k.xid, k.seq, 1) AS w)
            UNION ALL
            (SELECT m.enqueued_at FROM holdfast_message m WHERE m.lane = l.lane AND m.xid >= pg_snapshot_xmax(k.hi)
             ORDER BY m.xid, m.seq LIMIT 1)
            UNION ALL
            (SELECT late.enqueued_at FROM pg_snapshot_xip(k.hi) AS x (xid),
                    LATERAL (SELECT m.enqueued_at FROM holdfast_message m WHERE m.lane = l.lane AND m.xid = x.xid
                             ORDER BY m.seq LIMIT 1) AS late)
            UNION ALL
            (SELECT r.due_at FROM holdfast_row r
             WHERE r.group_id = g.id AND r.lane = l.lane AND r.state = 'pending' AND r.head
             ORDER BY r.due_at, r.seq LIMIT 1)
        ) AS first
        WHERE l.group_id = g.id),
       (SELECT count(*) FROM (SELECT 1 FROM holdfast_blocked b WHERE b.group_id = g.id LIMIT :most) AS n),
       (SELECT count(*) FROM (SELECT d.replayed_as FROM holdfast_dead d WHERE d.channel_id = c.id
                              ORDER BY d.id DESC LIMIT :most) AS n WHERE n.replayed_as IS NULL)
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
ORDER BY c.tenant, c.name
LIMIT :queues
