"""How much work the database has with a call: counted, not timed, so that a busy machine changes nothing."""

from collections.abc import Callable
from typing import Any

import psycopg

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.ready import KEEPER
from tests.waiting import eventually


def effort(url: str, hf: Holdfast, call: Callable[[], Any]) -> int:
    """Steps of SQLite's machine, or the table rows and index entries that PostgreSQL has read."""
    return _sqlite_steps(hf, call) if url.startswith("sqlite") else _postgres_reads(url, hf, call)


def _sqlite_steps(hf: Holdfast, call: Callable[[], Any]) -> int:
    hf.stats("q")  # Opens the connection that reads; the one that writes is open since something was enqueued.
    database = internals(hf).store.database  # type: ignore[attr-defined]
    connections = [counted._connection._connection for counted in (database._reader, database._writer)]
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    for connection in connections:
        connection.set_progress_handler(count, 1)
    try:
        call()
    finally:
        for connection in connections:
            connection.set_progress_handler(None, 1)
    return steps


def longest_write(hf: Holdfast, call: Callable[[], Any]) -> int:
    """Steps of SQLite's machine in the longest of a call's transactions that hold the write lock."""
    database = internals(hf).store.database  # type: ignore[attr-defined]
    steps, results = [0], list[Any]()

    def counted(write: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def count(work: Callable[[Any], Any]) -> Any:
            steps.append(_sqlite_steps(hf, lambda: results.append(write(work))))
            return results.pop()

        return count

    write, accept = counted(database.write), counted(database.accept)
    database.write, database.accept = write, accept
    try:
        call()
    finally:
        del database.write, database.accept
    return max(steps)


def _postgres_reads(url: str, hf: Holdfast, call: Callable[[], Any]) -> int:
    hf.close()
    before = _reads(url)
    call()
    hf.close()
    return _reads(url) - before


def _reads(url: str) -> int:
    """A session's counts are complete when it has ended."""
    with psycopg.connect(url, autocommit=True) as connection:
        wait_for_the_end_of_others(connection)
        found = connection.execute(
            "SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)"
            " + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)"
        ).fetchone()
    assert found is not None, "a sum is always there"
    return int(found[0])


def wait_for_the_end_of_others(connection: psycopg.Connection[Any]) -> None:
    """Of all sessions but the one that is there between tests too."""
    others = (
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
        " AND pid <> pg_backend_pid() AND application_name <> %s"
    )
    eventually(lambda: not connection.execute(others, [KEEPER]).fetchall(), "all sessions have ended")
