-- name: take
-- The lowest number that nobody holds, unless so many are held already (above `most` too, if that was lowered).
WITH live AS (
    SELECT number FROM holdfast_seat
    WHERE tenant = :tenant AND pool = :pool AND until > :now
), free AS (
    SELECT min(number) AS number FROM (SELECT 1::bigint AS number UNION ALL SELECT number + 1 FROM live) AS candidate
    WHERE number NOT IN (SELECT number FROM live)
)
INSERT INTO holdfast_seat (tenant, pool, number, worker, token, until)
SELECT :tenant, :pool, number, :worker, :token::uuid, :now + :term::bigint
FROM free
WHERE number <= :most::bigint AND (SELECT count(*) FROM live) < :most::bigint
ON CONFLICT (tenant, pool, number) DO UPDATE SET worker = excluded.worker, token = excluded.token, until = excluded.until
RETURNING number, worker, token, until

-- name: mine
SELECT number, worker, token, until FROM holdfast_seat
WHERE tenant = :tenant AND pool = :pool AND token = :token::uuid AND until > :now

-- name: keep
-- One that has lapsed is lost, also if nobody has taken it: others may have counted without it.
UPDATE holdfast_seat SET until = :now + :term::bigint
WHERE tenant = :tenant AND pool = :pool AND number = :number AND token = :token::uuid
  AND until > :now

-- name: leave
DELETE FROM holdfast_seat WHERE tenant = :tenant AND pool = :pool AND number = :number AND token = :token::uuid

-- name: taken
SELECT number, worker, token, until FROM holdfast_seat
WHERE tenant = :tenant AND pool = :pool AND until > :now
ORDER BY number
