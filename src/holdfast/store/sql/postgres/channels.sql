-- name: place_cursor
-- A queue's reader starts before everything: a snapshot that shows nothing. (:start is a SQLite position.)
WITH placed AS (
    INSERT INTO holdfast_lane (group_id, lane) VALUES (:group, :lane)
    ON CONFLICT DO NOTHING
    RETURNING group_id, lane
)
INSERT INTO holdfast_cursor (group_id, lane, lo, hi, xid, seq)
SELECT group_id, lane, '1:1:', '1:1:', '1', -1 FROM placed WHERE :start::bigint IS NOT NULL

-- name: owners
-- What owns these names, and all below them; the longest first.
SELECT id, kind, name FROM holdfast_channel
WHERE tenant = :tenant AND owns AND name IN (SELECT value FROM json_array_elements_text(:names::json) AS value)
ORDER BY length(name) DESC

-- name: next_due
-- How long until the next delay or lease of a group runs out, and whether it has limits that know better. :lane is the first of the channel's four.
SELECT min(moment) - :now, (SELECT limited FROM holdfast_group WHERE id = :group) FROM (
    SELECT min(until) AS moment FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL
    UNION ALL SELECT min(until) FROM holdfast_row WHERE group_id = :group AND state = 'processing'
    UNION ALL SELECT min(until) FROM holdfast_row WHERE group_id = :group AND state = 'sending'
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane + 1 AND state = 'pending' AND head AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane + 2 AND state = 'pending' AND head AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane + 3 AND state = 'pending' AND head AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
) AS moments

-- name: paused
-- Those of these groups that are handed nothing.
SELECT id FROM holdfast_group
WHERE id IN (SELECT value::bigint FROM json_array_elements_text(:groups::json) AS value) AND paused

-- name: due
-- The groups that a sweep would find anything to do for. (What is too old in a lane is seen by a look at its front.)
-- Each part is ordered by its index, or the planner might read the table instead.
SELECT c.reader
FROM (SELECT "group" AS reader, channel, entry, max_age, history, history_limit AS most, retention, "window" AS noted
      FROM json_to_recordset(:channels::json)
           AS asked ("group" bigint, channel bigint, entry bigint, max_age bigint, history bigint, history_limit bigint, retention bigint, "window" bigint)) AS c
CROSS JOIN LATERAL (
    (SELECT 1 FROM holdfast_run WHERE group_id = c.reader AND finished_at IS NULL AND until <= :now
     ORDER BY until, token LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_row WHERE group_id = c.reader AND state = 'processing' AND until <= :now
     ORDER BY until, seq LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_row WHERE group_id = c.reader AND state = 'sending' AND until <= :now
     ORDER BY until, seq LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_row WHERE group_id = c.reader AND token IS NULL AND finished_at IS NULL AND expires_at <= :now
     ORDER BY expires_at, seq LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_row WHERE group_id = c.reader AND token IS NULL AND finished_at IS NULL AND enqueued_at <= :now - c.max_age
     ORDER BY enqueued_at, seq LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_run WHERE group_id = c.reader AND finished_at <= :now - c.history
     ORDER BY finished_at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_row WHERE group_id = c.reader AND finished_at <= :now - c.history
     ORDER BY finished_at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_result WHERE group_id = c.reader AND expires_at <= :now
     ORDER BY expires_at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_effort WHERE group_id = c.reader AND look_at <= :now
     ORDER BY look_at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_commitment WHERE group_id = c.reader AND expires_at <= :now
     ORDER BY expires_at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_idempotency WHERE channel_id = c.entry AND expires_at <= :now
     ORDER BY expires_at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_dead WHERE channel_id = c.channel AND failed_at <= :now - c.retention
       AND replay_state IS DISTINCT FROM 'pending'
     ORDER BY failed_at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_start WHERE group_id = c.reader AND at <= :now - c.noted
     ORDER BY at LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_tally WHERE group_id = c.reader AND second > 0 AND second < :now / 1000000 - 120
     ORDER BY second LIMIT 1)
    UNION ALL SELECT 1 WHERE (SELECT coalesce(sum(kept), 0) FROM holdfast_tally WHERE group_id = c.reader) > c.most
    LIMIT 1
) AS found

-- name: astir
-- The groups of which something may be due to be claimed without anyone's doing: a delay or a lease has run out, there are limits and
-- something that they hold back, or a claim has stopped in the middle of a lane.
SELECT g.id
FROM json_to_recordset(:channels::json) AS c ("group" bigint, lane bigint)
JOIN holdfast_group g ON g.id = c."group"
CROSS JOIN LATERAL (
    (SELECT 1 FROM holdfast_run WHERE group_id = g.id AND finished_at IS NULL AND until <= :now
     ORDER BY until, token LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_row WHERE group_id = g.id AND state = 'processing' AND until <= :now
     ORDER BY until, seq LIMIT 1)
    UNION ALL (SELECT 1 FROM holdfast_row WHERE group_id = g.id AND state = 'sending' AND until <= :now
     ORDER BY until, seq LIMIT 1)
    UNION ALL SELECT 1 FROM generate_series(c.lane, c.lane + 3) AS one (lane)
     CROSS JOIN LATERAL (SELECT 1 FROM holdfast_row r
                         WHERE r.group_id = g.id AND r.lane = one.lane AND r.state = 'pending' AND r.head AND r.due_at <= :now
                         ORDER BY r.due_at, r.seq LIMIT 1) AS row
    UNION ALL (SELECT 1 FROM holdfast_row WHERE g.limited <> 0 AND group_id = g.id AND state = 'pending' ORDER BY enqueued_at, seq LIMIT 1)
    UNION ALL SELECT 1 FROM generate_series(c.lane, c.lane + 3) AS one (lane)
     CROSS JOIN LATERAL (SELECT k.* FROM holdfast_cursor k
                         WHERE k.group_id = g.id AND (g.fed IS NOT NULL OR g.wanted IS NOT NULL OR g.limited <> 0) AND k.lane = one.lane
                         ORDER BY k.number DESC LIMIT 1) AS last
     WHERE EXISTS (SELECT 1 FROM holdfast_read_window(last.lane, last.lo, last.hi, last.xid, last.seq, 1))
        OR (SELECT 1 FROM holdfast_message m
            WHERE m.lane = last.lane AND m.xid >= pg_snapshot_xmin(last.hi) AND NOT pg_visible_in_snapshot(m.xid, last.hi)
            ORDER BY m.xid, m.seq LIMIT 1) IS NOT NULL
    LIMIT 1
) AS found
