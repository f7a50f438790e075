-- name: remember
-- Keys are taken, unless they are known already: :keys is a list of [channel, key, window], :ids and :digests are as long for each, and :aliases
-- says whether they are second keys of their messages. A key is free again when its message has ended and its window is over; a quarter of the
-- window from now, someone looks for the first time.
INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at, lasts, is_alias)
SELECT n.value ->> 0, n.value ->> 1, substr(:ids, 16 * n.key + 1, 16), substr(:digests, 16 * n.key + 1, 16),
       :now + (n.value ->> 2) / 4, n.value ->> 2, :aliases
FROM json_each(:keys) n
WHERE true
ON CONFLICT (channel_id, key) DO UPDATE
SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, lasts = excluded.lasts, ended = 0,
    is_alias = excluded.is_alias
WHERE holdfast_idempotency.ended AND holdfast_idempotency.expires_at <= :now
RETURNING message_id

-- name: due_among
-- The same, among these: :keys is a list of [channel, key].
SELECT i.channel_id, i.key, i.message_id, i.lasts
FROM json_each(:keys) n
CROSS JOIN holdfast_idempotency i ON i.channel_id = n.value ->> 0 AND i.key = n.value ->> 1
WHERE i.expires_at <= :now AND NOT i.ended

-- name: fate
-- What became of a message with a key, in one look, so that it cannot move in between: whether it certainly has not ended (it waits in its lane, or
-- is a row, or a replay of it is; what a topic keeps may still be read), when it came, when it ended if that is known, and the
-- open run that it is in. Of a topic's message nobody notes when the last group was done.
WITH RECURSIVE lives (id) AS (
    SELECT :id
    UNION
    SELECT d.replayed_as FROM lives CROSS JOIN holdfast_dead d ON d.message_id = lives.id WHERE d.replayed_as IS NOT NULL
), lane AS MATERIALIZED (
    SELECT m.position, m.enqueued_at, c.kind, g.id AS group_id, k.position AS claimed
    FROM holdfast_message m
    CROSS JOIN holdfast_channel c ON c.id = :channel
    LEFT JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
    LEFT JOIN holdfast_cursor k ON k.group_id = g.id AND k.lane = m.position >> 40
    WHERE m.id = :id
)
SELECT EXISTS (SELECT 1 FROM lane WHERE kind = 'topic' OR position > coalesce(claimed, 0))
       OR EXISTS (SELECT 1 FROM lives CROSS JOIN holdfast_row r ON r.id = lives.id WHERE r.finished_at IS NULL),
       coalesce((SELECT enqueued_at FROM lane), (SELECT min(r.enqueued_at) FROM lives CROSS JOIN holdfast_row r ON r.id = lives.id)),
       CASE WHEN (SELECT kind FROM holdfast_channel WHERE id = :channel) = 'queue' THEN
           coalesce((SELECT max(r.finished_at) FROM holdfast_row r WHERE r.id = :id),
                    (SELECT max(d.failed_at) FROM holdfast_dead d WHERE d.message_id = :id AND d.replayed_as IS NULL))
       END,
       held.size, held.settled, held.gone, held.before
FROM (SELECT 1)
LEFT JOIN (
    SELECT u.size, u.settled, u.gone,
           (SELECT count(*) FROM holdfast_message n WHERE n.position >= u.first AND n.position < lane.position) AS before
    FROM lane
    CROSS JOIN holdfast_run u ON u.group_id = lane.group_id AND u.finished_at IS NULL AND u.first <= lane.position AND u.last >= lane.position
    LIMIT 1
) AS held

-- name: outdated
DELETE FROM holdfast_idempotency
WHERE channel_id = :channel AND key IN (
    SELECT key FROM holdfast_idempotency
    WHERE channel_id = :channel AND expires_at <= :now AND ended
    ORDER BY expires_at
    LIMIT :limit
)
