-- name: is_full
SELECT 1 WHERE holdfast_is_full(:group::bigint, :lane::bigint, :most::bigint)

-- name: reached
SELECT lane, number, xid::text, seq FROM holdfast_cursor WHERE group_id = :group ORDER BY lane, number
