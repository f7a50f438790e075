-- name: add
INSERT INTO holdfast_schedule (tenant, name, spec, created_at, next_at, due_at, set_at)
VALUES (:tenant, :name, :spec, :created_at, :next_at::bigint, :next_at::bigint, :now)
ON CONFLICT (tenant, name) DO NOTHING
RETURNING 1

-- name: lock
SELECT spec, created_at, next_at, due_at, last_slot, paused, set_at FROM holdfast_schedule
WHERE tenant = :tenant AND name = :name
FOR UPDATE

-- name: find
SELECT spec FROM holdfast_schedule WHERE tenant = :tenant AND name = :name

-- name: change
UPDATE holdfast_schedule SET spec = :spec, next_at = :next_at::bigint, due_at = :due_at::bigint, set_at = :now, error = NULL
WHERE tenant = :tenant AND name = :name

-- name: pause
UPDATE holdfast_schedule
SET paused = :paused, next_at = :next_at::bigint, due_at = :due_at::bigint, set_at = :now, error = NULL
WHERE tenant = :tenant AND name = :name

-- name: remove
DELETE FROM holdfast_schedule WHERE tenant = :tenant AND name = :name RETURNING 1

-- name: list
SELECT name, spec, paused, next_at, last_slot, last_at, created_at, error FROM holdfast_schedule
WHERE tenant = :tenant
ORDER BY name

-- name: due
SELECT name, spec, created_at, next_at, :now FROM holdfast_schedule
WHERE tenant = :tenant AND due_at <= :now
ORDER BY due_at, name
LIMIT :limit

-- name: ahead
-- What a clock has worked out that was set back since.
SELECT name FROM holdfast_schedule
WHERE tenant = :tenant AND due_at IS NOT NULL AND set_at > :now + :grace::bigint
ORDER BY set_at, name
LIMIT :limit

-- name: resume
UPDATE holdfast_schedule SET next_at = :next_at::bigint, due_at = :next_at::bigint, set_at = :now
WHERE tenant = :tenant AND name = :name

-- name: note
UPDATE holdfast_schedule SET error = :error WHERE tenant = :tenant AND name = :name

-- name: take
SELECT spec, created_at, next_at FROM holdfast_schedule
WHERE tenant = :tenant AND name = :name AND due_at <= :now
FOR UPDATE SKIP LOCKED

-- name: fired
-- Without a slot, those that were due were skipped.
UPDATE holdfast_schedule
SET next_at = :next_at::bigint, due_at = :next_at::bigint, set_at = :now, error = NULL,
    last_slot = COALESCE(:last_slot::bigint, last_slot),
    last_at = CASE WHEN :last_slot::bigint IS NULL THEN last_at ELSE :now END
WHERE tenant = :tenant AND name = :name

-- name: postpone
UPDATE holdfast_schedule SET due_at = :now + 1000000, set_at = :now, error = :error
WHERE tenant = :tenant AND name = :name AND due_at <= :now

-- name: next_due
SELECT MIN(due_at) - :now FROM holdfast_schedule WHERE tenant = :tenant AND due_at IS NOT NULL
