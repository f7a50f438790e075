-- name: hold
-- Who takes or keeps a seat of a pool takes turns: two who count at the same time would both find room.
SELECT pg_advisory_xact_lock(hashtextextended('holdfast_seat ' || :tenant::text || '/' || :pool::text, 0))
