"""Our named queries. SQLite understands `:name` parameters as they are."""

from __future__ import annotations

from holdfast.store.sqlfile import load_queries

QUERIES = load_queries(__package__)
