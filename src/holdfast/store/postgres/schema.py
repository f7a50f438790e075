"""Migrations on PostgreSQL: an advisory lock keeps a second process out.

A statement that changes a table waits until every transaction that uses the table has ended, and everyone who comes
later waits behind it. So it waits for a lock no longer than `LOCK_WAIT`; then the migration is rolled back, the queues
go on, and it is tried again until patience ends.

A migration that begins with `-- without transaction` builds or drops indexes CONCURRENTLY, which PostgreSQL refuses
inside of a transaction, or validates constraints. It runs statement by statement on a connection of its own, while a
transaction beside it holds the advisory lock. If it fails half way, it starts again from its first statement.
"""

from __future__ import annotations

from holdfast.errors import Unavailable
from holdfast.store.engine import counters
from holdfast.store.engine.channels import find
from holdfast.store.engine.expire_leases import sweep
from holdfast.store.migrate import Applied, applied, digest_of, schema_version
from holdfast.store.postgres.connection import PostgresDatabase, PostgresTransaction
from holdfast.store.postgres.errors import is_lock_wait
from holdfast.store.sql import is_transactional, statements

LOCK_WAIT = 1.0
"""Seconds that a migration waits for a lock on a table, and that the queues may have to wait behind it."""

_LET_GO = "SET LOCAL lock_timeout = 0"
"""The snapshot of the last query stays with the transaction until its next statement, and building an index
CONCURRENTLY waits for all snapshots. This statement takes none."""

_TABLES = (
    "other transactions kept the tables that it changes locked. It waited only briefly at a time, so that the queues "
    "could go on. End long transactions (`holdfast doctor` shows the oldest), then run `holdfast migrate` again"
)
_TURN = (
    "another process is migrating this database and has not finished within the client's patience. Wait for it, or "
    "run `holdfast migrate` again"
)


class PostgresSchema:
    """The database's structure."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def schema_version(self) -> int:
        """The last migration's number, 0 for an empty database."""
        return self._database.read(schema_version)

    def applied(self) -> list[Applied]:
        """The migrations that it has seen."""
        return self._database.read(applied)

    def apply(self, number: int, name: str, script: str) -> bool:
        """Runs one migration unless someone else has."""

        has_turn = False

        def work(tx: PostgresTransaction) -> bool:
            nonlocal has_turn
            has_turn = False
            tx.one("schema.hold")
            has_turn = True
            tx.run("schema.prepare")
            if schema_version(tx) >= number:
                return False
            if is_transactional(script):
                for statement in statements(script):
                    tx.execute(statement)
            else:
                tx.execute(_LET_GO)
                self._database.run_outside(statements(script))
            tx.run("schema.record", number=number, name=name, digest=digest_of(script))
            return True

        try:
            return self._database.write_at_length(work, lock_wait=LOCK_WAIT)
        except Unavailable as problem:
            if not is_lock_wait(problem.__cause__):
                raise
            raise Unavailable(f"migration {name} was not run: {_TABLES if has_turn else _TURN}") from problem

    def is_ahead(self) -> bool:
        """Whether the data comes from a server whose transaction numbers were higher than this one's are."""
        return self._database.glance(lambda tx: tx.one("schema.is_ahead") is not None)

    def rebase(self) -> None:
        """Gives every waiting message a transaction number of this server, and starts the readers anew.

        Leases end as if their holders had been killed, and the history of finished messages is dropped: both know
        their messages by the old numbers.
        """
        self._database.write_at_length(_rebase)


def _rebase(tx: PostgresTransaction) -> None:
    tx.run("schema.stop_everything")
    tx.run("schema.end_leases")
    for tenant, name in tx.all("schema.channels"):
        channel = find(tx, tenant, name)
        while channel is not None and sweep(tx, channel, limit=1_000):
            pass
    for token, group, size in tx.all("schema.finished_runs"):
        tx.run("runs.drop_messages", token=token)
        tx.run("runs.drop", token=token)
        counters.add(tx, group, kept=-size)
    tx.run("schema.place_groups")
    tx.run("schema.renumber_messages")
    tx.run("schema.forget_cursors")
    tx.run("schema.restart_cursors")
