-- name: now
SELECT holdfast_now(:now::bigint)
