-- name: is_full
SELECT 1 WHERE
    EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 0
            ORDER BY seq LIMIT 1 OFFSET :most - 1)
    OR EXISTS (SELECT 1 FROM holdfast_row WHERE group_id = :group AND lane = :lane AND state = 'pending' AND head = 1
               ORDER BY due_at, seq LIMIT 1 OFFSET :most - 1)

-- name: reached
SELECT lane, position FROM holdfast_cursor WHERE group_id = :group ORDER BY lane, position
