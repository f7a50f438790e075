-- name: find
SELECT concurrency, rate_count, rate_per, key_concurrency, key_rate_count, key_rate_per, catch_up_count, catch_up_per, turn
FROM holdfast_limit
WHERE group_id = :group

-- name: set
INSERT INTO holdfast_limit (group_id, concurrency, rate_count, rate_per, key_concurrency, key_rate_count, key_rate_per, catch_up_count,
                            catch_up_per)
VALUES (:group, :concurrency::bigint, :rate_count::bigint, :rate_per::bigint, :key_concurrency::bigint, :key_rate_count::bigint,
        :key_rate_per::bigint, :catch_up_count::bigint, :catch_up_per::bigint)
ON CONFLICT (group_id) DO UPDATE SET
    concurrency = excluded.concurrency, rate_count = excluded.rate_count, rate_per = excluded.rate_per,
    key_concurrency = excluded.key_concurrency, key_rate_count = excluded.key_rate_count, key_rate_per = excluded.key_rate_per,
    catch_up_count = excluded.catch_up_count, catch_up_per = excluded.catch_up_per

-- name: lift
DELETE FROM holdfast_limit WHERE group_id = :group

-- name: forget
DELETE FROM holdfast_start WHERE group_id = :group

-- name: started
-- How many were claimed in the last :per, and when the first of those rows leaves it.
SELECT coalesce(sum(count), 0)::bigint, min(at) + :per::bigint - :now
FROM holdfast_start
WHERE group_id = :group AND key = :key AND at > :now - :per::bigint

-- name: next_of_a_key
-- How long until some key may have one more claim.
SELECT min(at) + :per::bigint - :now
FROM holdfast_start
WHERE group_id = :group AND substr(key, 1, 1) = '=' AND at > :now - :per::bigint

-- name: next_end
-- How long until a lease ends.
SELECT min(moment) - :now FROM (
    SELECT min(until) AS moment FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL
    UNION ALL SELECT min(until) FROM holdfast_row WHERE group_id = :group AND state = 'processing'
    UNION ALL SELECT min(until) FROM holdfast_row WHERE group_id = :group AND state = 'sending'
) AS moments
