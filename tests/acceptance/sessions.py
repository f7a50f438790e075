"""What the sessions of one database are doing. Others run tests in the same server: never look at all of it."""

import psycopg

WAITING = (
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid IN (SELECT pid FROM pg_locks WHERE NOT granted) LIMIT 1"
)


def is_waiting(url: str) -> bool:
    """Whether a session of this database waits for a lock."""
    with psycopg.connect(url) as connection:
        return connection.execute(WAITING).fetchone() is not None
