-- name: enter
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = :channel AND bound + :count <= most
  AND NOT EXISTS (SELECT 1 FROM holdfast_return WHERE channel_id = :channel) AND settled_at <= (SELECT holdfast_now(:now::bigint))

-- name: grow
-- Not by the bound itself: whoever is arriving holds that row until it commits, and a nack or a sweep must not wait for it.
INSERT INTO holdfast_return (channel_id)
SELECT d.channel_id FROM holdfast_depth d JOIN holdfast_group g ON g.channel_id = d.channel_id
WHERE g.id = :group AND :count::bigint > 0

-- name: limit
-- Full, as far as we know: the next arrival counts. Clients know a queue's settings for a second; until all of them know
-- the limit, some arrive unnoticed, and every arrival counts.
INSERT INTO holdfast_depth (channel_id, bound, most, settled_at)
VALUES (:channel, :most, :most, (SELECT holdfast_now(:now::bigint)) + 2000000)
ON CONFLICT (channel_id) DO UPDATE SET most = excluded.most

-- name: most
SELECT most FROM holdfast_depth WHERE channel_id = :channel

-- name: open
DELETE FROM holdfast_depth WHERE channel_id = :channel

-- name: hold
-- What came back is counted now.
WITH counted AS (DELETE FROM holdfast_return WHERE channel_id = :channel)
SELECT g.id, c.kind, c.name, d.most
FROM holdfast_depth d
JOIN holdfast_channel c ON c.id = d.channel_id
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE d.channel_id = :channel
FOR UPDATE OF d

-- name: note
UPDATE holdfast_depth SET bound = :bound WHERE channel_id = :channel
