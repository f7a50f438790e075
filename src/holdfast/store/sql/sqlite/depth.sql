-- name: enter
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = :channel AND bound + :count <= most AND settled_at <= :now

-- name: grow
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = (SELECT channel_id FROM holdfast_group WHERE id = :group)

-- name: hold
SELECT g.id, c.kind, c.name, d.most
FROM holdfast_depth d
JOIN holdfast_channel c ON c.id = d.channel_id
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE d.channel_id = :channel

-- name: count
-- What of a group is not waiting, though it has not ended: rows at work, open runs (as JSON), and messages whose time is over. In one look, so that none counts twice.
-- Of these: rows, rows that are not due yet, rows that SQS has, and those among the first :limit of each lane, with whether there may be more behind them.
-- Rows are found by two indexes; in a lane the oldest are in front.
WITH over AS (
    SELECT r.state, r.due_at FROM holdfast_row r
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.expires_at <= :now
    UNION ALL
    SELECT r.state, r.due_at FROM holdfast_row r
    WHERE r.group_id = :group AND r.token IS NULL AND r.finished_at IS NULL AND r.enqueued_at <= :born
      AND (r.expires_at IS NULL OR r.expires_at > :now)
), fronts AS (
    SELECT (SELECT count(*) FROM (SELECT 1 FROM holdfast_message m WHERE m.position > k.position AND m.position < (k.lane + 1) << 40
                                  ORDER BY m.position LIMIT :limit)) AS looked,
           (SELECT count(*) FROM (SELECT m.enqueued_at FROM holdfast_message m WHERE m.position > k.position AND m.position < (k.lane + 1) << 40
                                  ORDER BY m.position LIMIT :limit) WHERE enqueued_at <= :born) AS aged
    FROM holdfast_cursor k
    WHERE k.group_id = :group AND :limit > 0
)
SELECT (SELECT count(*) FROM holdfast_row WHERE group_id = :group AND state = 'processing'),
       (SELECT json_group_array(json_array(size, hex(settled))) FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL),
       (SELECT count(*) FROM over),
       (SELECT count(*) FROM over WHERE state = 'pending' AND due_at > :now),
       (SELECT count(*) FROM over WHERE state = 'enqueued'),
       (SELECT coalesce(sum(aged), 0) FROM fronts),
       (SELECT coalesce(max(looked = :limit AND aged * 2 > looked), 0) FROM fronts)

-- name: doubt
-- More may be needed than was counted: the next arrival counts.
UPDATE holdfast_depth SET bound = max(bound, most) WHERE channel_id = :channel

-- name: names
-- What choosy groups have before them. Which of these names they want is not asked here: on a caller's connection there is no REGEXP.
SELECT DISTINCT g.wanted, m.topic
FROM holdfast_group g
CROSS JOIN holdfast_cursor k ON k.group_id = g.id
CROSS JOIN holdfast_message m ON m.position > k.position AND m.position < (k.lane + 1) << 40
WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL AND g.wanted IS NOT NULL

-- name: needed
-- How many messages of a topic a live or paused group is not done with: it has not come to them, someone holds them, or they are to be tried again.
-- What is behind the slowest group that takes everything is known by subtraction, as a lag is; the others are counted by their ids, each once.
WITH chosen AS MATERIALIZED (
    SELECT json_extract(value, '$[0]') AS wanted, json_extract(value, '$[1]') AS topic FROM json_each(:names)
), reader AS MATERIALIZED (
    SELECT g.id, g.wanted, k.lane, k.position,
           g.wanted IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = g.id) AS takes_all
    FROM holdfast_group g
    CROSS JOIN holdfast_cursor k ON k.group_id = g.id
    WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL
), slowest AS MATERIALIZED (
    SELECT l.lane, l.thin_to,
           coalesce((SELECT min(k.position) FROM reader k WHERE k.lane = l.lane AND k.takes_all), (l.lane + 1) << 40) AS position
    FROM holdfast_lane l
    WHERE l.lane >= :channel * 4 AND l.lane < :channel * 4 + 4
), member AS (
    SELECT m.id, m.position, r.lane, r.settled, row_number() OVER (PARTITION BY r.token ORDER BY m.position) - 1 AS place
    FROM reader k
    CROSS JOIN holdfast_run r ON r.group_id = k.id AND r.lane = k.lane AND r.finished_at IS NULL
    CROSS JOIN holdfast_message m ON m.position >= r.first AND m.position <= r.last
), copy AS (
    SELECT r.id
    FROM holdfast_group g
    CROSS JOIN holdfast_row r ON r.group_id = g.id AND r.state = 'pending'
    WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL AND r.replay_of IS NULL
      AND (r.expires_at IS NULL OR r.expires_at > :now)
    UNION ALL
    SELECT r.id
    FROM holdfast_group g
    CROSS JOIN holdfast_row r ON r.group_id = g.id AND r.state = 'processing'
    WHERE g.source = :channel AND g.ended_at IS NULL AND g.dead_at IS NULL AND r.replay_of IS NULL
), other AS (
    SELECT m.id
    FROM reader k
    CROSS JOIN slowest s ON s.lane = k.lane
    CROSS JOIN holdfast_message m ON m.position > k.position AND m.position <= s.position
    WHERE NOT k.takes_all AND (k.wanted IS NULL OR (k.wanted, m.topic) IN (SELECT wanted, topic FROM chosen)) AND (m.expires_at IS NULL OR m.expires_at > :now)
      AND NOT EXISTS (SELECT 1 FROM holdfast_skip s WHERE s.group_id = k.id AND s.id = m.id)
    UNION
    SELECT member.id
    FROM member
    CROSS JOIN slowest s ON s.lane = member.lane
    WHERE member.position <= s.position
      AND CASE WHEN member.settled IS NULL THEN 1  -- Of each byte, the second digit has the lower four bits.
               ELSE ((instr('0123456789ABCDEF', substr(hex(member.settled), member.place / 8 * 2 + CASE WHEN member.place % 8 < 4 THEN 2 ELSE 1 END, 1)) - 1)
                     >> (member.place % 4)) & 1 = 0 END
    UNION
    SELECT c.id
    FROM copy c
    WHERE NOT EXISTS (SELECT 1 FROM holdfast_message m CROSS JOIN slowest s ON s.lane = m.position >> 40
                      WHERE m.id = c.id AND m.position > s.position)
)
SELECT (SELECT count(*) FROM other) + coalesce(sum(
    (SELECT count(*) FROM holdfast_message m WHERE m.position > s.position AND m.position <= s.thin_to)
    + coalesce((SELECT m.position FROM holdfast_message m
                WHERE m.position > max(s.position, s.thin_to) AND m.position < (s.lane + 1) << 40
                ORDER BY m.position DESC LIMIT 1) + 1
               - (SELECT m.position FROM holdfast_message m
                  WHERE m.position > max(s.position, s.thin_to) AND m.position < (s.lane + 1) << 40
                  ORDER BY m.position LIMIT 1), 0)
    - (SELECT count(*) FROM holdfast_message m WHERE m.position >> 40 = +s.lane AND m.expires_at <= :now AND +m.position > s.position)
), 0)
FROM slowest s
