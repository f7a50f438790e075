-- name: view
-- A table to write to, for one connection, that does all of an enqueue in one statement: it is a transaction by itself, and gives
-- the interpreter away once.
CREATE TEMP VIEW holdfast_arrival AS
SELECT 0 AS channel, 0 AS lane, 0 AS start, 0 AS count, x'' AS ids, x'' AS bodies, '' AS places, '' AS keys, x'' AS digests, 0 AS now

-- name: trigger_of_one
-- For a single message without a key, which is the most frequent arrival: nothing to unpack.
CREATE TEMP TRIGGER holdfast_arrive_alone INSTEAD OF INSERT ON holdfast_arrival WHEN NEW.places IS NULL
BEGIN
    INSERT INTO holdfast_lane (lane, tail) VALUES (NEW.lane, NEW.start + 1)
    ON CONFLICT (lane) DO UPDATE SET tail = tail + 1;

    INSERT INTO holdfast_message (position, id, body, enqueued_at)
    VALUES ((SELECT l.tail FROM holdfast_lane l WHERE l.lane = NEW.lane), NEW.ids, NEW.bodies, NEW.now);
END

-- name: trigger
-- See idempotency.remember, lanes.reserve and lanes.append_bare. Without a :now of ours, the clock is read as in clock.now.
CREATE TEMP TRIGGER holdfast_arrive INSTEAD OF INSERT ON holdfast_arrival WHEN NEW.places IS NOT NULL
BEGIN
    INSERT INTO holdfast_idempotency (channel_id, key, message_id, digest, expires_at, lasts)
    SELECT NEW.channel, n.value ->> 0, substr(NEW.ids, 16 * n.key + 1, 16), substr(NEW.digests, 16 * n.key + 1, 16),
           NEW.now + (n.value ->> 1) / 4, n.value ->> 1
    FROM json_each(NEW.keys) n
    WHERE true
    ON CONFLICT (channel_id, key) DO UPDATE
    SET message_id = excluded.message_id, digest = excluded.digest, expires_at = excluded.expires_at, lasts = excluded.lasts, ended = 0,
        is_alias = excluded.is_alias
    WHERE holdfast_idempotency.ended AND holdfast_idempotency.expires_at <= NEW.now;

    SELECT RAISE(ABORT, 'one of the keys is known') WHERE NEW.keys IS NOT NULL AND changes() <> NEW.count;

    INSERT INTO holdfast_lane (lane, tail) VALUES (NEW.lane, NEW.start + NEW.count)
    ON CONFLICT (lane) DO UPDATE SET tail = tail + NEW.count;

    INSERT INTO holdfast_message (position, id, body, enqueued_at)
    SELECT (SELECT l.tail FROM holdfast_lane l WHERE l.lane = NEW.lane) - NEW.count + 1 + n.key,
           substr(NEW.ids, 16 * n.key + 1, 16), substr(NEW.bodies, n.value >> 32, n.value & 4294967295), NEW.now
    FROM json_each(NEW.places) n;
END

-- name: add
INSERT INTO temp.holdfast_arrival (channel, lane, start, count, ids, bodies, places, keys, digests, now)
VALUES (:channel, :lane, :start, :count, :ids, :bodies, :places, :keys, :digests,
        iif(:now, :now, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000))
