"""Our named queries. SQLite understands `:name` parameters as they are."""

from __future__ import annotations

from holdfast.store.sql import load_queries

QUERIES = load_queries("sqlite")
