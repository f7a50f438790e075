-- name: place_cursor
INSERT INTO holdfast_cursor (group_id, lane, position)
VALUES (:group, :lane, :start)
ON CONFLICT DO NOTHING

-- name: owners
-- What owns these names, and all below them; the longest first.
SELECT id, kind, name FROM holdfast_channel
WHERE tenant = :tenant AND owns AND name IN (SELECT value FROM json_each(:names))
ORDER BY length(name) DESC

-- name: next_due
-- How long until the next delay or lease of a group runs out, and whether it has limits that know better. :lane is the first of the channel's four.
SELECT min(moment) - :now, (SELECT limited FROM holdfast_group WHERE id = :group) FROM (
    SELECT min(until) AS moment FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL
    UNION ALL SELECT min(until) FROM holdfast_row WHERE group_id = :group AND state = 'processing'
    UNION ALL SELECT min(until) FROM holdfast_row WHERE group_id = :group AND state = 'sending'
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1 AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane + 1 AND state = 'pending' AND head = 1 AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane + 2 AND state = 'pending' AND head = 1 AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
    UNION ALL SELECT min(due_at) FROM holdfast_row
              WHERE group_id = :group AND lane = :lane + 3 AND state = 'pending' AND head = 1 AND NOT (SELECT paused FROM holdfast_group WHERE id = :group)
)

-- name: paused
-- Those of these groups that are handed nothing.
SELECT id FROM holdfast_group WHERE id IN (SELECT value FROM json_each(:groups)) AND paused

-- name: due
-- The groups that a sweep would find anything to do for. (What is too old in a lane is seen by a look at its front.)
WITH asked AS (
    SELECT value ->> 'group' AS reader, value ->> 'channel' AS channel, value ->> 'entry' AS entry, value ->> 'max_age' AS max_age,
           value ->> 'history' AS history, value ->> 'history_limit' AS most, value ->> 'retention' AS retention, value ->> 'window' AS noted
    FROM json_each(:channels)
)
SELECT reader FROM asked
WHERE EXISTS (SELECT 1 FROM holdfast_run WHERE group_id = reader AND finished_at IS NULL AND until <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = reader AND state = 'processing' AND until <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = reader AND state = 'sending' AND until <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = reader AND token IS NULL AND finished_at IS NULL AND expires_at <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = reader AND token IS NULL AND finished_at IS NULL AND enqueued_at <= :now - max_age)
   OR EXISTS (SELECT 1 FROM holdfast_run WHERE group_id = reader AND finished_at <= :now - history)
   OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = reader AND finished_at <= :now - history)
   OR EXISTS (SELECT 1 FROM holdfast_result WHERE group_id = reader AND expires_at <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_effort WHERE group_id = reader AND look_at <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_commitment WHERE group_id = reader AND expires_at <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_idempotency WHERE channel_id = entry AND expires_at <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_dead WHERE channel_id = channel AND failed_at <= :now - retention AND replay_state IS NOT 'pending')
   OR EXISTS (SELECT 1 FROM holdfast_start WHERE group_id = reader AND at <= :now - noted)
   OR EXISTS (SELECT 1 FROM holdfast_tally WHERE group_id = reader AND second > 0 AND second < :now / 1000000 - 120)
   OR (SELECT coalesce(sum(kept), 0) FROM holdfast_tally WHERE group_id = reader) > most

-- name: astir
-- The groups of which something may be due to be claimed without anyone's doing: a delay or a lease has run out, there are limits and
-- something that they hold back, or a claim has stopped in the middle of a lane.
SELECT g.id
FROM json_each(:channels) AS asked
JOIN holdfast_group g ON g.id = asked.value ->> 'group'
WHERE EXISTS (SELECT 1 FROM holdfast_run WHERE group_id = g.id AND finished_at IS NULL AND until <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = g.id AND state = 'processing' AND until <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = g.id AND state = 'sending' AND until <= :now)
   OR EXISTS (SELECT 1 FROM holdfast_row
              WHERE group_id = g.id AND lane IN (asked.value ->> 'lane', (asked.value ->> 'lane') + 1, (asked.value ->> 'lane') + 2, (asked.value ->> 'lane') + 3)
                AND state = 'pending' AND head = 1 AND due_at <= :now)
   OR g.limited <> 0 AND EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = g.id AND state = 'pending')
   OR (g.fed IS NOT NULL OR g.wanted IS NOT NULL OR g.limited <> 0)
      AND EXISTS (SELECT 1 FROM holdfast_cursor k
                  WHERE k.group_id = g.id AND EXISTS (SELECT 1 FROM holdfast_message m
                                                      WHERE m.position > k.position AND m.position < (k.lane + 1) << 40))
