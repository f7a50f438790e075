-- name: look
-- Whether it is this worker who leads, and for how long the lease still lasts.
SELECT worker = :worker, until - (SELECT holdfast_now(:now::bigint)) FROM holdfast_leader
WHERE tenant = :tenant AND duty = :duty

-- name: lead
INSERT INTO holdfast_leader (tenant, duty, worker, until)
VALUES (:tenant, :duty, :worker, (SELECT holdfast_now(:now::bigint)) + :term::bigint)
ON CONFLICT (tenant, duty) DO UPDATE SET worker = excluded.worker, until = excluded.until
WHERE holdfast_leader.worker = excluded.worker OR holdfast_leader.until <= (SELECT holdfast_now(:now::bigint))
    OR holdfast_leader.until > (SELECT holdfast_now(:now::bigint)) + 2 * :term::bigint
RETURNING 1

-- name: step_down
DELETE FROM holdfast_leader WHERE tenant = :tenant AND duty = :duty AND worker = :worker
