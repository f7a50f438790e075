-- name: through_sqs
-- Which queues of SQS there should be.
SELECT c.tenant, c.name, c.spec
FROM holdfast_group g
JOIN holdfast_channel c ON c.id = g.channel_id
WHERE g.delivery = 'sqs' AND g.ended_at IS NULL
ORDER BY c.tenant, c.name
LIMIT :queues

-- name: sagas
-- Those that nobody could undo, by tenant; each count stops at :most.
SELECT t.tenant, (SELECT count(*) FROM (SELECT 1 FROM holdfast_saga s
                                        WHERE s.tenant = t.tenant AND s.status = 'compensation_failed' LIMIT :most) AS counted)
FROM (SELECT DISTINCT tenant FROM holdfast_saga_definition) AS t
ORDER BY t.tenant
