-- name: redeclare
-- A definition that was there before is the one that new sagas have.
UPDATE holdfast_saga_definition
SET declared = (SELECT max(d.declared) + 1 FROM holdfast_saga_definition d WHERE d.tenant = :tenant AND d.name = :name)
WHERE tenant = :tenant AND name = :name AND spec = :spec
RETURNING version

-- name: define
INSERT INTO holdfast_saga_definition (tenant, name, version, declared, spec)
SELECT :tenant::text, :name::text, coalesce(max(d.version), 0) + 1, coalesce(max(d.declared), 0) + 1, :spec::bytea
FROM holdfast_saga_definition d
WHERE d.tenant = :tenant AND d.name = :name
ON CONFLICT (tenant, name, version) DO NOTHING
RETURNING version

-- name: current
SELECT id, spec, version FROM holdfast_saga_definition
WHERE tenant = :tenant AND name = :name
ORDER BY declared DESC, version DESC
LIMIT 1

-- name: names
SELECT DISTINCT name FROM holdfast_saga_definition WHERE tenant = :tenant ORDER BY name

-- name: add
INSERT INTO holdfast_saga (tenant, saga_id, definition_id, given, status, state, started_at, updated_at)
VALUES (:tenant, :saga_id, :definition, :given, 'pending', :state, :now, :now)
ON CONFLICT (tenant, saga_id) DO NOTHING
RETURNING id

-- name: given
SELECT given FROM holdfast_saga WHERE tenant = :tenant AND saga_id = :saga_id

-- name: lock
SELECT s.id, s.tenant, s.saga_id, s.version, s.state, d.spec
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.id = :id
FOR UPDATE OF s

-- name: state
SELECT s.id, s.tenant, s.saga_id, s.version, s.state, d.spec
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.id = :id

-- name: lock_named
SELECT s.id, s.tenant, s.saga_id, s.version, s.state, d.spec
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.tenant = :tenant AND s.saga_id = :saga_id
FOR UPDATE OF s

-- name: take_due
SELECT s.id, s.tenant, s.saga_id, s.version, s.state, d.spec
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.id = :id AND s.due_at <= :now
FOR UPDATE OF s SKIP LOCKED

-- name: due
SELECT id FROM holdfast_saga
WHERE tenant = :tenant AND due_at <= :now
ORDER BY due_at, id
LIMIT :limit

-- name: is_due
SELECT 1 FROM holdfast_saga WHERE tenant = :tenant AND due_at <= :now
UNION ALL
SELECT 1 FROM holdfast_saga WHERE tenant = :tenant AND forget_at <= :now
LIMIT 1

-- name: move
-- Only on from where it was.
UPDATE holdfast_saga
SET version = version + 1, status = :status, state = :state, due_at = :due_at::bigint, updated_at = :now,
    ended_at = CASE WHEN :ended::boolean THEN coalesce(ended_at, :now) END,
    forget_at = CASE WHEN :ended::boolean THEN :now + :keep::bigint END
WHERE id = :id AND version = :version
RETURNING 1

-- name: note
INSERT INTO holdfast_saga_event (saga, seq, at, what, step, who, attempt, error, output, traceback)
VALUES (:saga, :seq, :now, :what, :step, :who, :attempt, :error, :output, :traceback)
RETURNING 1

-- name: events
SELECT at, what, step, who, attempt, error, output, traceback FROM holdfast_saga_event WHERE saga = :saga ORDER BY seq

-- name: list
SELECT s.id, s.saga_id, d.name, d.version, s.state, d.spec, s.started_at, s.updated_at, s.ended_at
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.tenant = :tenant AND s.id > :after::bigint AND (:name::text IS NULL OR d.name = :name)
ORDER BY s.id
LIMIT :limit

-- name: list_status
SELECT s.id, s.saga_id, d.name, d.version, s.state, d.spec, s.started_at, s.updated_at, s.ended_at
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.tenant = :tenant AND s.status = :status AND s.id > :after::bigint AND (:name::text IS NULL OR d.name = :name)
ORDER BY s.id
LIMIT :limit

-- name: count
-- Of one status, up to :most.
SELECT count(*) FROM (SELECT 1 FROM holdfast_saga WHERE tenant = :tenant AND status = :status LIMIT :most) AS counted

-- name: find
SELECT s.id, s.saga_id, d.name, d.version, s.state, d.spec, s.started_at, s.updated_at, s.ended_at
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.tenant = :tenant AND s.saga_id = :saga_id

-- name: over
-- With how many lines each has.
SELECT id, coalesce((SELECT max(e.seq) FROM holdfast_saga_event e WHERE e.saga = id), 0)
FROM holdfast_saga
WHERE tenant = :tenant AND forget_at <= :now
ORDER BY forget_at, id
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: is_over
SELECT 1 FROM holdfast_saga WHERE tenant = :tenant AND forget_at <= :now LIMIT 1

-- name: forget_events
DELETE FROM holdfast_saga_event WHERE saga = :id RETURNING 1

-- name: forget
DELETE FROM holdfast_saga WHERE id = :id RETURNING 1

-- name: next_due
SELECT MIN(due_at) - :now FROM holdfast_saga WHERE tenant = :tenant AND due_at IS NOT NULL
