-- name: beat
-- The start is when it was first heard of.
INSERT INTO holdfast_worker (
    tenant, id, consumer, pool, host, pid, labels, queues, state, concurrency,
    started_at, seen_at, valid_until, saturation, handled, failed, work
)
VALUES (
    :tenant, :id, :consumer, :pool::text, :host, :pid, :labels, :queues, :state, :concurrency,
    :now, :now, :now + :valid_for::bigint,
    :saturation::float8, :handled, :failed, :work
)
ON CONFLICT (tenant, id) DO UPDATE SET
    consumer = excluded.consumer, pool = excluded.pool, host = excluded.host, pid = excluded.pid,
    labels = excluded.labels, queues = excluded.queues, state = excluded.state, concurrency = excluded.concurrency,
    seen_at = excluded.seen_at, valid_until = excluded.valid_until, saturation = excluded.saturation,
    handled = excluded.handled, failed = excluded.failed, work = excluded.work

-- name: leave
DELETE FROM holdfast_worker WHERE tenant = :tenant AND id = :id

-- name: list
SELECT id, consumer, pool, host, pid, labels, queues, state, concurrency, started_at, seen_at, valid_until, saturation,
       handled, failed, work, valid_until > :now
FROM holdfast_worker
WHERE tenant = :tenant
ORDER BY consumer, started_at, id

-- name: work
-- What is in one worker's hands.
SELECT work FROM holdfast_worker WHERE tenant = :tenant AND id = :id
