-- name: held_by_key
SELECT key, count FROM holdfast_held_by_key(:group)

-- name: note
-- So many messages of a group ('') or a key were claimed.
SELECT holdfast_note_start(:group, :key::text, :per::bigint, :count::bigint, :now)

-- name: due
-- What can be handed over, but for keys that are :full.
SELECT seq, key
FROM holdfast_row
WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head AND due_at <= :now
  AND (key IS NULL OR key NOT IN (SELECT value FROM json_array_elements_text(:full::json) AS value))
ORDER BY due_at, seq
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: token
SELECT nextval('holdfast_token')

-- name: unheard
-- Whoever was sending these is gone.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE seq = ANY (ARRAY(
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'sending' AND until <= :now
    ORDER BY until, seq
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))

-- name: wait_longer
UPDATE holdfast_row
SET until = :now + :patience::bigint
WHERE seq = ANY (ARRAY(
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'enqueued' AND until <= :now
    ORDER BY until, seq
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))

-- name: send_again
-- Pointers that are lost: away for as long as :away, at least.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE seq = ANY (ARRAY(
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'enqueued' AND until <= :now AND handed_at <= :now - :away::bigint
    ORDER BY until, seq
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))

-- name: fall_back
-- SQS is out of reach: what was handed over so long ago is the database's to deliver.
UPDATE holdfast_row
SET state = 'pending', until = NULL
WHERE seq = ANY (ARRAY(
    SELECT seq FROM holdfast_row
    WHERE group_id = :group AND state = 'enqueued' AND handed_at <= :now - :away::bigint
    ORDER BY until, seq
    LIMIT :limit
    FOR UPDATE SKIP LOCKED
))

-- name: unsent
-- Deaths that nobody outside was told of yet.
SELECT id, message_id, attempts, error, errors, failed_at
FROM holdfast_dead
WHERE channel_id = :channel AND unsent
ORDER BY id
LIMIT :limit

-- name: sent
UPDATE holdfast_dead SET unsent = false WHERE id = :id::uuid AND unsent RETURNING 1
