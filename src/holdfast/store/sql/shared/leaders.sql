-- name: look
-- Whether it is this worker who leads, and for how long the lease still lasts.
SELECT worker = :worker, until - :now FROM holdfast_leader
WHERE tenant = :tenant AND duty = :duty

-- name: lead
INSERT INTO holdfast_leader (tenant, duty, worker, until)
VALUES (:tenant, :duty, :worker, :now + :term::bigint)
ON CONFLICT (tenant, duty) DO UPDATE SET worker = excluded.worker, until = excluded.until
WHERE holdfast_leader.worker = excluded.worker OR holdfast_leader.until <= :now
    OR holdfast_leader.until > :now + 2 * :term::bigint
RETURNING 1

-- name: step_down
DELETE FROM holdfast_leader WHERE tenant = :tenant AND duty = :duty AND worker = :worker
