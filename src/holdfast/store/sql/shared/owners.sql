-- name: declare
INSERT INTO holdfast_owner (tenant, name, spec) VALUES (:tenant, :name, :spec)
ON CONFLICT (tenant, name) DO UPDATE SET spec = excluded.spec

-- name: find
SELECT spec FROM holdfast_owner WHERE tenant = :tenant AND name = :name

-- name: list
SELECT name, spec FROM holdfast_owner WHERE tenant = :tenant ORDER BY name
