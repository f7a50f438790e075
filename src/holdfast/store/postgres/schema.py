"""Migrations on PostgreSQL: an advisory lock keeps a second process out."""

from __future__ import annotations

from holdfast.store import tally
from holdfast.store.channels import find
from holdfast.store.expiry import sweep
from holdfast.store.migrate import Applied, applied, digest_of, schema_version
from holdfast.store.postgres import lanes
from holdfast.store.postgres.connection import Database, PostgresTransaction
from holdfast.store.sqlfile import statements


class PostgresSchema:
    """The database's structure."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def schema_version(self) -> int:
        """The last migration's number, 0 for an empty database."""
        return self._database.read(schema_version)

    def applied(self) -> list[Applied]:
        """The migrations that it has seen."""
        return self._database.read(applied)

    def apply(self, number: int, name: str, script: str) -> bool:
        """Runs one migration unless someone else has."""

        def work(tx: PostgresTransaction) -> bool:
            tx.one("schema.hold")
            tx.run("schema.prepare")
            if schema_version(tx) >= number:
                return False
            for statement in statements(script):
                tx.execute(statement)
            tx.run("schema.record", number=number, name=name, digest=digest_of(script))
            return True

        return self._database.write_at_length(work)

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
        while channel is not None and sweep(tx, lanes.insert, channel, limit=1_000):
            pass
    for token, group, size in tx.all("schema.finished_runs"):
        tx.run("runs.drop_messages", token=token)
        tx.run("runs.drop", token=token)
        tally.add(tx, group, kept=-size)
    tx.run("schema.place_groups")
    tx.run("schema.renumber_messages")
    tx.run("schema.forget_cursors")
    tx.run("schema.restart_cursors")
