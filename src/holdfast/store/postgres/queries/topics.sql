-- name: declare
-- Nothing if the name is taken by now.
INSERT INTO holdfast_channel (tenant, name, kind, owns, spec, declared_at)
VALUES (:tenant, :name, 'topic', true, :spec, (SELECT holdfast_now(:now::bigint)))
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id

-- name: hold_names
-- Who declares a topic waits for all who declare something that begins with the same segment, and they for it: of two names of
-- which one would own the other, the second is seen to be too late.
SELECT CASE WHEN :alone::boolean THEN pg_advisory_xact_lock(hashtextextended(:names::text, 0))
            ELSE pg_advisory_xact_lock_shared(hashtextextended(:names::text, 0)) END

-- name: own
-- A queue in the form of a topic.
UPDATE holdfast_channel SET owns = true WHERE id = :channel

-- name: below
-- A name that someone has below another one.
SELECT name FROM holdfast_channel
WHERE tenant = :tenant AND kind <> 'group' AND substr(name, 1, length(:name) + 1) = :name || '.'
ORDER BY name
LIMIT 1

-- name: find
SELECT c.id, g.id, c.name, c.spec
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE c.id = :channel AND c.kind = 'topic'

-- name: hold
-- Keeps retention out until the transaction ends.
SELECT 1 FROM holdfast_channel WHERE id = :channel FOR NO KEY UPDATE

-- name: names
SELECT name FROM holdfast_channel WHERE tenant = :tenant AND owns ORDER BY name

-- name: subscribe
INSERT INTO holdfast_channel (tenant, name, kind, spec, declared_at)
VALUES (:tenant, :name, 'group', :spec, (SELECT holdfast_now(:now::bigint)))
ON CONFLICT (tenant, name) DO UPDATE SET spec = excluded.spec
RETURNING id

-- name: join
-- One that had ended begins anew.
INSERT INTO holdfast_group (channel_id, name, history, limited, source, wanted, fed, beat_at)
VALUES (:channel, '', 0, :limited, :source, :wanted, :fed, (SELECT holdfast_now(:now::bigint)))
ON CONFLICT (channel_id, name) DO UPDATE SET
    limited = excluded.limited, wanted = excluded.wanted, fed = excluded.fed, beat_at = excluded.beat_at, misses = 0, missed_at = NULL,
    dead_at = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.dead_at END,
    deaths = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.deaths ELSE 0 END,
    revivals = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.revivals ELSE 0 END,
    lost = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.lost ELSE 0 END,
    missing = CASE WHEN holdfast_group.ended_at IS NULL THEN holdfast_group.missing ELSE 0 END, ended_at = NULL,
    paused = holdfast_group.paused AND holdfast_group.ended_at IS NULL,
    stopped = holdfast_group.stopped AND holdfast_group.ended_at IS NULL
RETURNING id

-- name: leave
UPDATE holdfast_group SET ended_at = (SELECT holdfast_now(:now::bigint)) WHERE id = :group AND ended_at IS NULL
RETURNING 1

-- name: goes_on
SELECT 1 FROM holdfast_group WHERE id = :group AND ended_at IS NULL

-- name: cancel
UPDATE holdfast_group SET canceled_at = (SELECT holdfast_now(:now::bigint)) WHERE id = :group

-- name: is_canceled
SELECT 1
FROM holdfast_channel c
JOIN holdfast_group g ON g.channel_id = c.id AND g.canceled_at IS NOT NULL
WHERE c.tenant = :tenant AND c.name = :name AND c.kind = 'group'

-- name: remove
-- The rest of a group that was canceled: its name is free.
UPDATE holdfast_group SET canceled_at = NULL
WHERE canceled_at IS NOT NULL
  AND channel_id IN (SELECT id FROM holdfast_channel WHERE tenant = :tenant AND name = :name AND kind = 'group')
RETURNING 1

-- name: listeners
-- What each group wants that is owed new messages. A paused group is, a dead one is not.
SELECT DISTINCT wanted FROM holdfast_group WHERE source = :channel AND ended_at IS NULL AND dead_at IS NULL

-- name: forget_cursors
DELETE FROM holdfast_cursor WHERE group_id = :group

-- name: forget_runs
DELETE FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL

-- name: forget_skips
DELETE FROM holdfast_skip WHERE group_id = :group

-- name: forget_blocks
DELETE FROM holdfast_blocked WHERE group_id = :group

-- name: end_replays
-- The replays of dead letters that come to nothing, because the group ends.
UPDATE holdfast_dead SET replay_state = 'canceled'
WHERE id IN (SELECT replay_of FROM holdfast_row WHERE group_id = :group AND finished_at IS NULL AND replay_of IS NOT NULL)

-- name: forget_rows
DELETE FROM holdfast_row WHERE group_id = :group

-- name: start_earliest
-- With a window of all that is committed, unless there is nothing.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
), first AS (
    SELECT m.xid FROM holdfast_message m WHERE m.lane = :lane ORDER BY m.xid, m.seq LIMIT 1
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, CASE WHEN first.xid IS NULL THEN now_at ELSE '1:1:' END, now_at,
       CASE WHEN first.xid IS NULL THEN pg_snapshot_xmin(now_at) ELSE '1' END, -1
FROM pg_current_snapshot() AS now_at
LEFT JOIN first ON true
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)

-- name: start_latest
-- After a snapshot that shows all that is committed, and nothing that is still to be.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, now_at, now_at, pg_snapshot_xmin(now_at), -1 FROM pg_current_snapshot() AS now_at
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)

-- name: start_at
-- Inside a window of all that is committed, before the first message that is not older.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
), first AS (
    SELECT m.xid, m.seq FROM holdfast_message m
    WHERE m.lane = :lane AND m.enqueued_at >= :at
    ORDER BY m.xid, m.seq
    LIMIT 1
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, CASE WHEN first.xid IS NULL THEN now_at ELSE '1:1:' END, now_at,
       coalesce(first.xid, pg_snapshot_xmin(now_at)), coalesce(first.seq - 1, -1)
FROM pg_current_snapshot() AS now_at
LEFT JOIN first ON true
WHERE NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)

-- name: start_with
-- Before a message, if it is in this lane.
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane) ON CONFLICT DO NOTHING
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT :group, :lane, '1:1:', now_at, m.xid, m.seq - 1
FROM pg_current_snapshot() AS now_at, holdfast_message m
WHERE m.id = :id::uuid AND m.lane = :lane
  AND NOT EXISTS (SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
RETURNING 1

-- name: place_of
SELECT lane, enqueued_at FROM holdfast_message WHERE id = :id::uuid

-- name: is_placed
SELECT 1 FROM holdfast_cursor WHERE group_id = :group LIMIT 1

-- name: is_in_past
-- Whether what a group gets next of a lane was there before it.
SELECT 1
FROM (SELECT * FROM holdfast_cursor WHERE group_id = :group AND lane = :lane ORDER BY number DESC LIMIT 1) AS c
WHERE holdfast_is_past(c.lo, c.hi) AND EXISTS (SELECT 1 FROM holdfast_read_window(c.lane, c.lo, c.hi, c.xid, c.seq, 1))

-- name: lag
-- How many messages of a lane a group still wants.
SELECT count(*)
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT 1 FROM holdfast_message m
              WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.c).lo) AND holdfast_is_pending(last.c, m.xid, m.seq)
                AND (m.expires_at IS NULL OR m.expires_at > (SELECT holdfast_now(:now::bigint)))
                AND (g.wanted IS NULL OR m.topic ~ g.wanted)
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)) AS owed
WHERE g.id = :group

-- name: past
-- How many messages of a lane a group still wants of those that were there when it was put where it began.
SELECT count(*)
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT 1 FROM holdfast_message m
              WHERE m.lane = :lane AND (m.xid, m.seq) > ((last.c).xid, (last.c).seq) AND m.xid < pg_snapshot_xmax((last.c).hi)
                AND pg_visible_in_snapshot(m.xid, (last.c).hi) AND (g.wanted IS NULL OR m.topic ~ g.wanted)
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)) AS owed
WHERE g.id = :group AND holdfast_is_past((last.c).lo, (last.c).hi)

-- name: keep_past
UPDATE holdfast_group SET past = :past WHERE id = :group

-- name: whole_past
SELECT past FROM holdfast_group WHERE id = :group

-- name: standings
-- The groups of the topic that keeps a message, and how each stands to it: what it wants, whether it has come to it, what it has of it.
SELECT c.name, g.id, g.wanted, holdfast_is_pending(last.k, m.xid, m.seq),
       EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id),
       (SELECT r.state FROM holdfast_row r WHERE r.id = m.id AND r.group_id = g.id),
       EXISTS (SELECT 1 FROM holdfast_dead d WHERE d.message_id = m.id AND d.group_id = g.id),
       (SELECT 1 FROM holdfast_run u WHERE u.group_id = g.id AND u.finished_at IS NULL ORDER BY u.until, u.token LIMIT 1) IS NOT NULL
FROM holdfast_message m
JOIN holdfast_group g ON g.source = m.lane / 4 AND g.ended_at IS NULL
JOIN holdfast_channel c ON c.id = g.channel_id
JOIN LATERAL (SELECT k FROM holdfast_cursor k WHERE k.group_id = g.id AND k.lane = m.lane
              ORDER BY k.number DESC LIMIT 1) AS last ON true
WHERE m.id = :id::uuid
ORDER BY c.name

-- name: remains
-- What groups have of a message that their topic keeps no more.
SELECT c.name, r.state
FROM holdfast_row r
JOIN holdfast_group g ON g.id = r.group_id AND g.source IS NOT NULL
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE r.id = :id::uuid AND c.tenant = :tenant
UNION ALL
SELECT c.name, 'dead'
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id AND c.kind = 'group'
WHERE d.message_id = :id::uuid AND d.tenant = :tenant
ORDER BY 1

-- name: peek
-- What a group would get next, nearly in that order: what was written late is claimed later.
SELECT m.id, m.lane, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic, m.expires_at, m.enqueued_at
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT * FROM holdfast_message m
              WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.c).lo) AND holdfast_is_pending(last.c, m.xid, m.seq)
                AND (m.expires_at IS NULL OR m.expires_at > (SELECT holdfast_now(:now::bigint))) AND m.enqueued_at > :born
                AND (g.wanted IS NULL OR m.topic ~ g.wanted)
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)
              ORDER BY m.xid, m.seq
              LIMIT :limit) AS m
WHERE g.id = :group

-- name: unwanted
-- Whether a group is owed a message whose name does not match.
SELECT 1
FROM holdfast_group g,
     LATERAL (SELECT c FROM holdfast_cursor c WHERE c.group_id = g.id AND c.lane = :lane ORDER BY c.number DESC LIMIT 1) AS last,
     LATERAL (SELECT 1 FROM holdfast_message m
              WHERE m.lane = :lane AND m.xid >= pg_snapshot_xmin((last.c).lo) AND holdfast_is_pending(last.c, m.xid, m.seq)
                AND (g.wanted IS NULL OR m.topic ~ g.wanted) AND NOT m.topic ~ :wanted
                AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)
              LIMIT 1) AS unwanted
WHERE g.id = :group
