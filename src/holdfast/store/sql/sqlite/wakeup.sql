-- name: version
-- Another number whenever another connection has committed.
PRAGMA data_version

-- name: note
-- A ring that is part of a transaction: whoever commits it is not us, so sleepers have to look for it.
INSERT INTO holdfast_ring (channel_id, count) VALUES (:channel, 1)
ON CONFLICT (channel_id) DO UPDATE SET count = count + 1

-- name: counts
SELECT channel_id, count FROM holdfast_ring
