-- name: add_together
INSERT INTO holdfast_saga (tenant, saga_id, definition_id, given, status, state, started_at, updated_at)
SELECT m.tenant, m.saga_id, m.definition, m.given, 'pending', m.state, :now, :now
FROM unnest(:tenant::text[], :saga_id::text[], :definition::bigint[], :given::bytea[], :state::bytea[]) WITH ORDINALITY
    AS m (tenant, saga_id, definition, given, state, place)
ORDER BY m.place
ON CONFLICT (tenant, saga_id) DO NOTHING
RETURNING tenant AS of_tenant, saga_id AS of_saga_id, id

-- name: lock_together
SELECT s.id AS of_id, s.id, s.tenant, s.saga_id, s.version, s.state, d.spec
FROM unnest(:id::bigint[]) WITH ORDINALITY AS m (id, place)
JOIN holdfast_saga s ON s.id = m.id
JOIN holdfast_saga_definition d ON d.id = s.definition_id
ORDER BY m.place
FOR UPDATE OF s

-- name: move_together
UPDATE holdfast_saga s
SET version = s.version + 1, status = m.status, state = m.state, due_at = m.due_at, updated_at = :now,
    ended_at = CASE WHEN m.ended THEN coalesce(s.ended_at, :now) END,
    forget_at = CASE WHEN m.ended THEN :now + m.keep END
FROM unnest(:id::bigint[], :version::bigint[], :status::text[], :state::bytea[], :due_at::bigint[], :ended::boolean[], :keep::bigint[])
    AS m (id, version, status, state, due_at, ended, keep)
WHERE s.id = m.id AND s.version = m.version
RETURNING s.id AS of_id, 1

-- name: note_together
INSERT INTO holdfast_saga_event (saga, seq, at, what, step, who, attempt, error, output, traceback)
SELECT m.saga, m.seq, :now, m.what, m.step, m.who, m.attempt, m.error, m.output, m.traceback
FROM unnest(:saga::bigint[], :seq::bigint[], :what::text[], :step::text[], :who::text[], :attempt::bigint[], :error::text[], :output::bytea[], :traceback::text[])
    AS m (saga, seq, what, step, who, attempt, error, output, traceback)
RETURNING saga AS of_saga, seq AS of_seq, 1
