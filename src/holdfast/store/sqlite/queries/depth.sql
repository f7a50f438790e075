-- name: enter
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = :channel AND bound + :count <= most AND settled_at <= :now

-- name: grow
UPDATE holdfast_depth SET bound = bound + :count
WHERE channel_id = (SELECT channel_id FROM holdfast_group WHERE id = :group)

-- name: limit
-- Full, as far as we know: the next arrival counts. Clients know a queue's settings for a second; until all of them know
-- the limit, some arrive unnoticed, and every arrival counts.
INSERT INTO holdfast_depth (channel_id, bound, most, settled_at)
VALUES (:channel, :most, :most, :now + 2000000)
ON CONFLICT (channel_id) DO UPDATE SET most = excluded.most

-- name: most
SELECT most FROM holdfast_depth WHERE channel_id = :channel

-- name: open
DELETE FROM holdfast_depth WHERE channel_id = :channel

-- name: hold
SELECT g.id, c.kind, c.name, d.most
FROM holdfast_depth d
JOIN holdfast_channel c ON c.id = d.channel_id
JOIN holdfast_group g ON g.channel_id = c.id AND g.name = ''
WHERE d.channel_id = :channel

-- name: note
UPDATE holdfast_depth SET bound = :bound WHERE channel_id = :channel
