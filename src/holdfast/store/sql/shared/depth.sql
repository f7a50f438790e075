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

-- name: note
UPDATE holdfast_depth SET bound = :bound WHERE channel_id = :channel
