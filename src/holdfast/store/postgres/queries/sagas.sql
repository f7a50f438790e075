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
VALUES (:tenant, :saga_id, :definition, :given, 'pending', :state, (SELECT holdfast_now(:now::bigint)), (SELECT holdfast_now(:now::bigint)))
ON CONFLICT (tenant, saga_id) DO NOTHING
RETURNING id

-- name: add_together
INSERT INTO holdfast_saga (tenant, saga_id, definition_id, given, status, state, started_at, updated_at)
SELECT m.tenant, m.saga_id, m.definition, m.given, 'pending', m.state, (SELECT holdfast_now(:now::bigint)), (SELECT holdfast_now(:now::bigint))
FROM unnest(:tenant::text[], :saga_id::text[], :definition::bigint[], :given::bytea[], :state::bytea[]) WITH ORDINALITY
    AS m (tenant, saga_id, definition, given, state, place)
ORDER BY m.place
ON CONFLICT (tenant, saga_id) DO NOTHING
RETURNING tenant AS of_tenant, saga_id AS of_saga_id, id

-- name: given
SELECT given FROM holdfast_saga WHERE tenant = :tenant AND saga_id = :saga_id

-- name: lock
SELECT s.id, s.tenant, s.saga_id, s.version, s.state, d.spec
FROM holdfast_saga s
JOIN holdfast_saga_definition d ON d.id = s.definition_id
WHERE s.id = :id
FOR UPDATE OF s

-- name: lock_together
SELECT s.id AS of_id, s.id, s.tenant, s.saga_id, s.version, s.state, d.spec
FROM unnest(:id::bigint[]) WITH ORDINALITY AS m (id, place)
JOIN holdfast_saga s ON s.id = m.id
JOIN holdfast_saga_definition d ON d.id = s.definition_id
ORDER BY m.place
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
WHERE s.id = :id AND s.due_at <= (SELECT holdfast_now(:now::bigint))
FOR UPDATE OF s SKIP LOCKED

-- name: due
SELECT id FROM holdfast_saga
WHERE tenant = :tenant AND due_at <= (SELECT holdfast_now(:now::bigint))
ORDER BY due_at, id
LIMIT :limit

-- name: is_due
SELECT 1 FROM holdfast_saga WHERE tenant = :tenant AND due_at <= (SELECT holdfast_now(:now::bigint))
UNION ALL
SELECT 1 FROM holdfast_saga WHERE tenant = :tenant AND forget_at <= (SELECT holdfast_now(:now::bigint))
LIMIT 1

-- name: move
-- Only on from where it was.
UPDATE holdfast_saga
SET version = version + 1, status = :status, state = :state, due_at = :due_at::bigint, updated_at = (SELECT holdfast_now(:now::bigint)),
    ended_at = CASE WHEN :ended::boolean THEN coalesce(ended_at, (SELECT holdfast_now(:now::bigint))) END,
    forget_at = CASE WHEN :ended::boolean THEN (SELECT holdfast_now(:now::bigint)) + :keep::bigint END
WHERE id = :id AND version = :version
RETURNING 1

-- name: move_together
UPDATE holdfast_saga s
SET version = s.version + 1, status = m.status, state = m.state, due_at = m.due_at, updated_at = (SELECT holdfast_now(:now::bigint)),
    ended_at = CASE WHEN m.ended THEN coalesce(s.ended_at, (SELECT holdfast_now(:now::bigint))) END,
    forget_at = CASE WHEN m.ended THEN (SELECT holdfast_now(:now::bigint)) + m.keep END
FROM unnest(:id::bigint[], :version::bigint[], :status::text[], :state::bytea[], :due_at::bigint[], :ended::boolean[], :keep::bigint[])
    AS m (id, version, status, state, due_at, ended, keep)
WHERE s.id = m.id AND s.version = m.version
RETURNING s.id AS of_id, 1

-- name: note
INSERT INTO holdfast_saga_event (saga, seq, at, what, step, who, attempt, error, output, traceback)
VALUES (:saga, :seq, (SELECT holdfast_now(:now::bigint)), :what, :step, :who, :attempt, :error, :output, :traceback)
RETURNING 1

-- name: note_together
INSERT INTO holdfast_saga_event (saga, seq, at, what, step, who, attempt, error, output, traceback)
SELECT m.saga, m.seq, (SELECT holdfast_now(:now::bigint)), m.what, m.step, m.who, m.attempt, m.error, m.output, m.traceback
FROM unnest(:saga::bigint[], :seq::bigint[], :what::text[], :step::text[], :who::text[], :attempt::bigint[], :error::text[], :output::bytea[], :traceback::text[])
    AS m (saga, seq, what, step, who, attempt, error, output, traceback)
RETURNING saga AS of_saga, seq AS of_seq, 1

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
WHERE tenant = :tenant AND forget_at <= (SELECT holdfast_now(:now::bigint))
ORDER BY forget_at, id
LIMIT :limit
FOR UPDATE SKIP LOCKED

-- name: is_over
SELECT 1 FROM holdfast_saga WHERE tenant = :tenant AND forget_at <= (SELECT holdfast_now(:now::bigint)) LIMIT 1

-- name: forget_events
DELETE FROM holdfast_saga_event WHERE saga = :id RETURNING 1

-- name: forget
DELETE FROM holdfast_saga WHERE id = :id RETURNING 1

-- name: next_due
SELECT MIN(due_at) - (SELECT holdfast_now(:now::bigint)) FROM holdfast_saga WHERE tenant = :tenant AND due_at IS NOT NULL
