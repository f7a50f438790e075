-- name: declare
-- Nothing if the name is taken by now.
INSERT INTO holdfast_channel (tenant, name, kind, owns, spec, declared_at)
VALUES (:tenant, :name, 'topic', 1, :spec, :now)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING id

-- name: hold_names
-- PostgreSQL needs this; a SQLite transaction already has the only write lock.
SELECT 1 WHERE :alone IS NOT NULL AND :names IS NOT NULL

-- name: own
-- A queue in the form of a topic.
UPDATE holdfast_channel SET owns = 1 WHERE id = :channel

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
-- PostgreSQL needs this to keep retention out; a SQLite transaction already has the only write lock.
SELECT 1 WHERE :channel IS NOT NULL

-- name: names
SELECT name FROM holdfast_channel WHERE tenant = :tenant AND owns ORDER BY name

-- name: subscribe
INSERT INTO holdfast_channel (tenant, name, kind, spec, declared_at)
VALUES (:tenant, :name, 'group', :spec, :now)
ON CONFLICT (tenant, name) DO UPDATE SET spec = excluded.spec
RETURNING id

-- name: join
-- One that had ended begins anew.
INSERT INTO holdfast_group (channel_id, name, history, limited, source, wanted, fed, beat_at)
VALUES (:channel, '', 0, :limited, :source, :wanted, :fed, :now)
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
UPDATE holdfast_group SET ended_at = :now WHERE id = :group AND ended_at IS NULL
RETURNING 1

-- name: goes_on
SELECT 1 FROM holdfast_group WHERE id = :group AND ended_at IS NULL

-- name: cancel
UPDATE holdfast_group SET canceled_at = :now WHERE id = :group

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
INSERT INTO holdfast_cursor (group_id, lane, position, live_from)
VALUES (:group, :lane, :lane << 40, coalesce((SELECT tail FROM holdfast_lane WHERE lane = :lane), 0))
ON CONFLICT DO NOTHING

-- name: start_latest
INSERT INTO holdfast_cursor (group_id, lane, position)
VALUES (:group, :lane, coalesce((SELECT tail FROM holdfast_lane WHERE lane = :lane), :lane << 40))
ON CONFLICT DO NOTHING

-- name: start_at
-- Before the first message that is not older.
INSERT INTO holdfast_cursor (group_id, lane, position, live_from)
VALUES (:group, :lane, coalesce(
    (SELECT min(position) - 1 FROM holdfast_message
     WHERE position > :lane << 40 AND position < (:lane + 1) << 40 AND enqueued_at >= :at),
    (SELECT tail FROM holdfast_lane WHERE lane = :lane), :lane << 40),
    coalesce((SELECT tail FROM holdfast_lane WHERE lane = :lane), 0))
ON CONFLICT DO NOTHING

-- name: start_with
-- Before a message, if it is in this lane.
INSERT INTO holdfast_cursor (group_id, lane, position, live_from)
SELECT :group, :lane, position - 1, (SELECT tail FROM holdfast_lane WHERE lane = :lane) FROM holdfast_message WHERE id = :id AND position >> 40 = :lane
ON CONFLICT DO NOTHING
RETURNING 1

-- name: place_of
SELECT position >> 40, enqueued_at FROM holdfast_message WHERE id = :id

-- name: is_placed
SELECT 1 FROM holdfast_cursor WHERE group_id = :group LIMIT 1

-- name: is_in_past
-- Whether what a group gets next of a lane was there before it.
SELECT 1 FROM holdfast_cursor WHERE group_id = :group AND lane = :lane AND position < live_from

-- name: lag
-- How many messages of a lane a group still wants: one by one where there may be holes, few as they are, and by subtraction behind that.
-- Those that have outlived their time are not wanted; an index has them.
SELECT CASE WHEN g.wanted IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id) THEN
    (SELECT count(*) FROM holdfast_message m WHERE m.position > c.position AND m.position <= l.thin_to)
    + coalesce((SELECT m.position FROM holdfast_message m
                WHERE m.position > max(c.position, l.thin_to) AND m.position < (c.lane + 1) << 40
                ORDER BY m.position DESC LIMIT 1) + 1
               - (SELECT m.position FROM holdfast_message m
                  WHERE m.position > max(c.position, l.thin_to) AND m.position < (c.lane + 1) << 40
                  ORDER BY m.position LIMIT 1), 0)
    - (SELECT count(*) FROM holdfast_message m WHERE m.position >> 40 = :lane AND m.expires_at <= :now AND +m.position > c.position)
ELSE
    (SELECT count(*) FROM holdfast_message m
     WHERE m.position > c.position AND m.position < (c.lane + 1) << 40 AND (m.expires_at IS NULL OR m.expires_at > :now)
       AND (g.wanted IS NULL OR m.topic REGEXP g.wanted)
       AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id))
END
FROM holdfast_group g
JOIN holdfast_cursor c ON c.group_id = g.id AND c.lane = :lane
LEFT JOIN holdfast_lane l ON l.lane = :lane
WHERE g.id = :group

-- name: past
-- How many messages of a lane a group still wants of those that were there when it was put where it began. Counted as the lag is.
SELECT CASE WHEN g.wanted IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id) THEN
    (SELECT count(*) FROM holdfast_message m WHERE m.position > c.position AND m.position <= min(l.thin_to, c.live_from))
    + coalesce((SELECT m.position FROM holdfast_message m
                WHERE m.position > max(c.position, l.thin_to) AND m.position <= c.live_from
                ORDER BY m.position DESC LIMIT 1) + 1
               - (SELECT m.position FROM holdfast_message m
                  WHERE m.position > max(c.position, l.thin_to) AND m.position <= c.live_from
                  ORDER BY m.position LIMIT 1), 0)
ELSE
    (SELECT count(*) FROM holdfast_message m
     WHERE m.position > c.position AND m.position <= c.live_from AND (g.wanted IS NULL OR m.topic REGEXP g.wanted)
       AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id))
END
FROM holdfast_group g
JOIN holdfast_cursor c ON c.group_id = g.id AND c.lane = :lane
LEFT JOIN holdfast_lane l ON l.lane = :lane
WHERE g.id = :group

-- name: keep_past
UPDATE holdfast_group SET past = :past WHERE id = :group

-- name: whole_past
SELECT past FROM holdfast_group WHERE id = :group

-- name: standings
-- The groups of the topic that keeps a message, and how each stands to it: what it wants, whether it has come to it, what it has of it.
SELECT c.name, g.id, g.wanted, m.position > k.position,
       EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id),
       (SELECT r.state FROM holdfast_row r WHERE r.id = m.id AND r.group_id = g.id),
       EXISTS (SELECT 1 FROM holdfast_dead d WHERE d.message_id = m.id AND d.group_id = g.id),
       EXISTS (SELECT 1 FROM holdfast_run u WHERE u.group_id = g.id AND u.finished_at IS NULL)
FROM holdfast_message m
JOIN holdfast_group g ON g.source = (m.position >> 40) / 4 AND g.ended_at IS NULL
JOIN holdfast_channel c ON c.id = g.channel_id
JOIN holdfast_cursor k ON k.group_id = g.id AND k.lane = m.position >> 40
WHERE m.id = :id
ORDER BY c.name

-- name: remains
-- What groups have of a message that their topic keeps no more.
SELECT c.name, r.state
FROM holdfast_row r
JOIN holdfast_group g ON g.id = r.group_id AND g.source IS NOT NULL
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE r.id = :id AND c.tenant = :tenant
UNION ALL
SELECT c.name, 'dead'
FROM holdfast_dead d
JOIN holdfast_channel c ON c.id = d.channel_id AND c.kind = 'group'
WHERE d.message_id = :id AND d.tenant = :tenant
ORDER BY 1

-- name: peek
SELECT m.id, m.position >> 40, m.body, m.headers, m.key, m.correlation_id, m.reply_to, m.topic, m.expires_at, m.enqueued_at
FROM holdfast_message m
WHERE m.position > (SELECT position FROM holdfast_cursor WHERE group_id = :group AND lane = :lane)
  AND m.position < (:lane + 1) << 40 AND m.enqueued_at > :born AND (m.expires_at IS NULL OR m.expires_at > :now)
  AND CASE WHEN (SELECT wanted FROM holdfast_group WHERE id = :group) IS NULL THEN 1
           ELSE m.topic REGEXP (SELECT wanted FROM holdfast_group WHERE id = :group) END
  AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = :group AND s.id = m.id)
ORDER BY m.position
LIMIT :limit

-- name: unwanted
-- Whether a group is owed a message whose name does not match.
SELECT 1
FROM holdfast_group g
JOIN holdfast_cursor c ON c.group_id = g.id AND c.lane = :lane
JOIN holdfast_message m ON m.position > c.position AND m.position < (:lane + 1) << 40
WHERE g.id = :group AND (g.wanted IS NULL OR m.topic REGEXP g.wanted) AND NOT m.topic REGEXP :wanted
  AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id AND s.id = m.id)
LIMIT 1
