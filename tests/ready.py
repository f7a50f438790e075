"""Databases with all our tables and nothing in them, at a fraction of what migrations cost.

A test that is about migrations, or about a database that nobody used before, takes an empty one instead.
"""

import os
from pathlib import Path
from typing import Any

import psycopg

from holdfast import Holdfast

MEMORY = Path("/dev/shm")
ROOM = 4 << 30


def use_memory() -> bool:
    """Whether temporary folders are in memory. No test cuts the power, so none has to wait for a disk."""
    if not MEMORY.is_dir():
        return False
    about = os.statvfs(MEMORY)
    return about.f_bavail * about.f_frsize > ROOM and not about.f_flag & os.ST_NOEXEC


STRUCTURE = r"""
SELECT coalesce(md5(string_agg(fact, ' ' ORDER BY fact)), '') FROM (
    SELECT concat_ws(' ', 'schema', oid) FROM pg_namespace
        WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
    UNION ALL SELECT concat_ws(' ', 'relation', oid, relkind, relname, relacl, reloptions) FROM pg_class
        WHERE relnamespace = to_regnamespace('public')
    UNION ALL SELECT concat_ws(' ', 'column', attrelid, attnum, attribute.xmin)
        FROM pg_attribute attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = to_regnamespace('public') AND attnum > 0
    UNION ALL SELECT concat_ws(' ', 'function', oid, xmin) FROM pg_proc WHERE pronamespace = to_regnamespace('public')
    UNION ALL SELECT concat_ws(' ', 'constraint', oid, xmin) FROM pg_constraint
        WHERE connamespace = to_regnamespace('public')
    UNION ALL SELECT concat_ws(' ', 'trigger', trigger.oid, trigger.xmin)
        FROM pg_trigger trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace = to_regnamespace('public')
) AS facts (fact)
"""
"""Differs from what it was as soon as anything but rows was changed. Emptying a table is no change."""

DROP = r"""
DO $$
DECLARE
    found name;
BEGIN
    FOR found IN SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
    LOOP
        EXECUTE format('DROP SCHEMA %I CASCADE', found);
    END LOOP;
    CREATE SCHEMA public;
END $$
"""

MIGRATIONS = "SELECT string_agg(concat_ws(' ', number, name), ',' ORDER BY number) FROM holdfast_migration"

CLEAR = """
DO $$
DECLARE
    found regclass;
BEGIN
    SET LOCAL session_replication_role = replica;
    FOR found IN SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace('public') AND relkind = 'r'
        AND relname <> 'holdfast_migration' AND pg_relation_size(oid) > 0
    LOOP
        -- Whoever was cut off a moment ago may still be committing.
        EXECUTE format('LOCK TABLE %s IN EXCLUSIVE MODE', found);
        IF pg_relation_size(found) < 131072 THEN
            EXECUTE format('DELETE FROM %s', found);
        ELSE
            EXECUTE format('TRUNCATE %s CASCADE', found);
        END IF;
    END LOOP;
    PERFORM setval(seqrelid::regclass, seqstart, false)
        FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid WHERE relnamespace = to_regnamespace('public');
END $$
"""
"""Deleting a few rows is much quicker than truncating a table, which makes new files."""

COUNT_NOW = """
DO $$ BEGIN
    IF current_setting('server_version_num')::int >= 150000 THEN  -- PostgreSQL 14 has no such function.
        PERFORM pg_stat_force_next_flush();
    END IF;
END $$
"""
"""Otherwise the statistics would tell of our statements later, in the middle of a test that counts its own."""


KEEPER = "keeper of the tests' database"
"""What the one session is called that is there all the time."""


class PostgresDatabase:
    """One database, which many tests use one after the other."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._ready = ""
        self._connection: psycopg.Connection[Any] | None = None

    def make_empty(self) -> None:
        """Nothing is in it."""
        connection = self._alone()
        connection.execute(DROP)
        connection.execute(COUNT_NOW)

    def make_ready(self) -> None:
        """Our tables are in it, as migrations make them, and no row."""
        connection = self._alone()
        if self._ready and structure(connection) == self._ready:
            connection.execute(CLEAR)
            connection.execute(COUNT_NOW)
            return
        connection.execute(DROP)
        with Holdfast(self.url) as hf:
            hf.queues.list()
        self._ready = structure(connection)
        connection.execute(COUNT_NOW)

    def _alone(self) -> psycopg.Connection[Any]:
        """A connection, when all others are cut off. It is kept for the next test: a new one would know no tables."""
        try:
            return self._cut_off()
        except psycopg.OperationalError:  # A test has cut it off, as it may.
            self._connection = None
            return self._cut_off()

    def _cut_off(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True, application_name=KEEPER)
            self._connection.execute("SET lock_timeout = '20s'; SET client_min_messages = warning")
        self._connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return self._connection


def structure(connection: psycopg.Connection[Any]) -> str:
    """A text that stands for the tables, functions and migrations that there are."""
    tables = connection.execute(STRUCTURE).fetchone()
    known = connection.execute("SELECT to_regclass('public.holdfast_migration') IS NOT NULL").fetchone()
    migrations = connection.execute(MIGRATIONS).fetchone() if known == (True,) else None
    return f"{tables} {migrations}"


def make_ready_file(path: Path) -> Path:
    """A file with our tables and no row, to be copied."""
    with Holdfast(f"sqlite:///{path}") as hf:
        hf.queues.list()
    return path
