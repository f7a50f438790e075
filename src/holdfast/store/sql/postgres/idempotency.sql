-- name: remember
-- Keys are taken, unless they are known already: :keys is a list of [channel, key, window], :ids and :digests are as long for each, and :aliases
-- says whether they are second keys of their messages. A key is free again when its message has ended and its window is over; a quarter of the
-- window from now, someone looks for the first time. Rivals wait here for each other's commit.
INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at, lasts, is_alias)
SELECT (n.value ->> 0)::bigint, n.value ->> 1, encode(substr(:ids::bytea, (16 * n.place - 15)::integer, 16), 'hex')::uuid,
       substr(:digests::bytea, (16 * n.place - 15)::integer, 16), :now + (n.value ->> 2)::bigint / 4, (n.value ->> 2)::bigint,
       :aliases::boolean
FROM json_array_elements(:keys::json) WITH ORDINALITY AS n (value, place)
ORDER BY n.place
ON CONFLICT (channel_id, key) DO UPDATE
SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, lasts = excluded.lasts, ended = false,
    is_alias = excluded.is_alias
WHERE holdfast_idempotency.ended AND holdfast_idempotency.expires_at <= :now
RETURNING message_id

-- name: due_among
-- The same, among these, which are held: :keys is a list of [channel, key].
SELECT i.channel_id, i.key, i.message_id, i.lasts
FROM json_array_elements(:keys::json) AS n (value)
JOIN holdfast_idempotency i ON i.channel_id = (n.value ->> 0)::bigint AND i.key = n.value ->> 1
WHERE i.expires_at <= :now AND NOT i.ended

-- name: fate
-- What became of a message with a key, in one look, so that it cannot move in between: see holdfast_fate.
SELECT is_live, since, ended_at, size, settled, gone, before FROM holdfast_fate(:channel::bigint, :id::uuid)

-- name: fate_together
SELECT n.channel_id AS of_channel, n.id AS of_id, f.is_live, f.since, f.ended_at, f.size, f.settled, f.gone, f.before
FROM unnest(:channel::bigint[], :id::uuid[]) AS n (channel_id, id), holdfast_fate(n.channel_id, n.id) AS f

-- name: looked_together
UPDATE holdfast_idempotency i SET ended = n.ended, expires_at = n.expires
FROM unnest(:channel::bigint[], :key::text[], :id::uuid[], :ended::boolean[], :expires::bigint[]) AS n (channel_id, key, id, ended, expires)
WHERE i.channel_id = n.channel_id AND i.key = n.key AND i.message_id = n.id AND NOT i.ended
RETURNING n.channel_id AS of_channel, n.key AS of_key, 1

-- name: outdated
-- Who takes such a key at this moment gets it: it is locked, and left alone.
DELETE FROM holdfast_idempotency
WHERE channel_id = :channel AND key = ANY (ARRAY(
    SELECT key FROM holdfast_idempotency
    WHERE channel_id = :channel AND expires_at <= :now AND ended
    ORDER BY expires_at
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))
