-- name: touch
UPDATE holdfast_channel SET declared_at = :now WHERE id = :channel

-- name: forget_runs
DELETE FROM holdfast_run WHERE token IN (
    SELECT token FROM holdfast_run WHERE group_id = :group AND finished_at IS NULL
    UNION ALL SELECT token FROM holdfast_run WHERE group_id = :group AND finished_at IS NOT NULL
)

-- name: forget_cursors
DELETE FROM holdfast_cursor WHERE group_id = :group

-- name: forget_tallies
DELETE FROM holdfast_tally WHERE group_id = :group

-- name: forget_consumers
DELETE FROM holdfast_consumer WHERE group_id = :group

-- name: forget_results
DELETE FROM holdfast_result WHERE group_id = :group

-- name: forget_efforts
DELETE FROM holdfast_effort WHERE group_id = :group

-- name: forget_checks
DELETE FROM holdfast_commitment WHERE group_id = :group

-- name: forget_keys
DELETE FROM holdfast_idempotency WHERE channel_id = :channel

-- name: forget_notices
DELETE FROM holdfast_notice WHERE channel_id = :channel

-- name: forget_dead
DELETE FROM holdfast_dead WHERE channel_id = :channel

-- name: forget_group
DELETE FROM holdfast_group WHERE channel_id = :channel

-- name: forget_channel
DELETE FROM holdfast_channel WHERE id = :channel
