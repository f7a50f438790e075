"""Inside the caller's own transaction: what is done here happens when that commits, and never did if it does not.

Nothing here begins, commits, rolls back or tries again; that is the caller's. Errors of the driver are the caller's
too, and reach it as they are. Shared by both stores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.commands import steps as commands
from holdfast.commands.rules import CommandKey, CommandReceipt
from holdfast.core.given import Settle
from holdfast.core.message import Duplicate, NewMessage
from holdfast.core.queue import QueueSpec
from holdfast.core.settlement import Settlement
from holdfast.errors import HoldfastError, StoreError
from holdfast.sagas.steps import instances
from holdfast.sagas.steps.values import NewSaga
from holdfast.store.api import Channel
from holdfast.store.engine import channels, counters
from holdfast.store.engine import insert as inserting
from holdfast.store.migrate import Migrator, too_new
from holdfast.store.transaction import Transaction

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Result = TypeVar("Result")

OTHER_DATABASE = (
    "conn= leads to another database than this client's URL: "
    "a message can only be part of a transaction in the database that it is stored in"
)
NO_TRANSACTION = (
    "conn= needs an open transaction, and this connection is in autocommit mode without one: begin one, for example "
    "with `with conn.transaction():` (psycopg), `with connection:` (apsw) or conn.execute('BEGIN IMMEDIATE') (sqlite3)"
)


class OnLoop:
    """A caller's asyncio connection and the loop it lives on. `given_up` is set when nobody waits for it any more."""

    def __init__(self, connection: Any, loop: AbstractEventLoop) -> None:
        self.connection = connection
        self.loop = loop
        self.given_up = threading.Event()


class JoinedTransaction:
    """The verbs that make sense there. `ring` tells sleepers, as part of the transaction."""

    def __init__(
        self,
        tx: Any,
        settle: Callable[[Any, Sequence[Settlement]], list[bool]],
        ring: Callable[[Any], None],
    ) -> None:
        self._tx = tx
        self._settle = settle
        self._ring = ring

    def find(self, tenant: str, name: str) -> Channel | None:
        return channels.find(self._tx, tenant, name)

    def declare(self, tenant: str, name: str, settle: Settle[QueueSpec]) -> Channel:
        return channels.declare(self._tx, tenant, name, settle)

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        if all(message.is_simple for message in new):
            return self._run(lambda tx: inserting.insert(tx, new))
        return self._run(lambda tx: self._all_or_none(lambda: inserting.insert(tx, new)))

    def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return self._run(lambda tx: self._settle(tx, settlements))

    def begin_command(self, of: CommandKey) -> tuple[str, bytes | None]:
        return commands.begin(self._tx, of)

    def end_command(self, receipt: CommandReceipt) -> None:
        commands.finish(self._tx, receipt)

    def start_saga(self, new: NewSaga) -> HoldfastError | None:
        return self._run(lambda tx: self._all_or_none(lambda: instances.start(tx, [new])))[0]

    def _all_or_none(self, work: Callable[[], Result]) -> Result:
        """A refusal leaves the transaction as it was: its owner may go on with it, and commit."""
        self._tx.execute("SAVEPOINT holdfast")
        try:
            result = work()
        except BaseException:
            self._tx.execute("ROLLBACK TO SAVEPOINT holdfast")
            raise
        finally:
            self._tx.execute("RELEASE SAVEPOINT holdfast")
        return result

    def _run(self, work: Callable[[Any], Result]) -> Result:
        result = work(self._tx)
        instances.move_on(self._tx)
        counters.write(self._tx)
        if self._tx.rings:
            self._ring(self._tx)
            self._tx.rings.clear()
        return result


def check_schema(tx: Transaction, schema: Migrator) -> None:
    """Migrating inside someone's transaction would hold up everyone, so the tables have to be there."""
    newest = schema.newest
    found = tx.one("schema.version") if tx.one("schema.exists") else None
    version = found[0] if found else 0
    if version > newest and not schema.has_matched:
        raise too_new(version, newest)
    if version < newest:
        raise StoreError(
            f"the database that conn= leads to is at schema {version}, this Holdfast needs {newest}: declare your "
            "queues with hf.queue(…), or run `holdfast migrate`, before the transaction begins"
        )
