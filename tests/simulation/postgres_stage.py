"""Simulations on PostgreSQL: actors give way at every statement, inside of transactions too.

One who waits for a lock in the server lets the others go on until it is free. The statement stays on its way: what it
finds when it wakes up is what a real session would find.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.adapt import adapt
from holdfast.store.postgres.connection import _SESSION, PostgresConnection
from holdfast.store.postgres.prepared import Prepared
from tests.simulation.faults import PATIENCE, Faults
from tests.simulation.scheduler import Actor
from tests.simulation.stage import Stage

LONGEST_WORK = 0.003
"""Seconds after which a statement that has not come back may be waiting for a lock: then the server is asked."""

READ, WRITE = 1, 2


class PostgresStage(Stage):
    """A database of a server that the tests started."""

    tries_again = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.idle: list[Watched] = []
        self._observer = psycopg.connect(url, autocommit=True)
        self.open()
        found = self.rows("SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdfast%' ORDER BY 1")
        self._observer.execute("SET session_replication_role = replica")  # Tables go and come in any order.
        self._reset = ""
        for (table,) in found:
            self._observer.execute(f"CREATE TABLE beginning_{table} AS TABLE {table}")  # type: ignore[call-overload]
            self._reset += f"DELETE FROM {table}; "
            self._reset += f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM beginning_{table}; "
        for (sequence,) in self.rows("SELECT sequencename FROM pg_sequences WHERE sequencename LIKE 'holdfast%'"):
            self._reset += f"SELECT setval('{sequence}', 1000); "

    def restore(self) -> None:
        for connection in self.idle:
            connection.discard()
        self._observer.execute(self._reset)  # type: ignore[call-overload]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._observer.cursor(binary=False) as cursor:
            return [
                tuple(one.bytes if hasattr(one, "bytes") else one for one in row)
                for row in cursor.execute(sql).fetchall()  # type: ignore[call-overload]
            ]

    def run(self, sql: str) -> None:
        """Changes something behind the backs of all."""
        self._observer.execute(sql)  # type: ignore[call-overload]

    def close(self) -> None:
        super().close()
        for connection in self.idle:
            psycopg.Connection.close(connection)
        self._observer.close()

    def open_store(self) -> PostgresStore:
        store = PostgresStore(self.url, clock=self.clock, patience=PATIENCE)
        database = store.database

        def take(_: float) -> PostgresConnection:
            """In no thread beside the actors, and however long it really takes."""
            return database._idle.pop() if database._idle else self._connect()

        database._take = take  # type: ignore[method-assign]
        database.wakeup.ring = lambda channels, were_told=False: None  # type: ignore[method-assign]
        database.wakeup.is_quiet = lambda: False  # type: ignore[method-assign]
        return store

    def is_waiting(self, actor: Actor) -> bool:
        """Asks the server, not the clock: a seed has to replay."""
        if actor.waits_for is None:
            return False
        found = self._observer.execute("SELECT cardinality(pg_blocking_pids(%s))", (actor.waits_for,)).fetchone()
        assert found is not None
        return bool(found[0])

    def _connect(self, **_: Any) -> Watched:
        if self.idle:
            return self.idle.pop()
        connection = Watched.connect(self.url, autocommit=True, prepare_threshold=0, cursor_factory=WatchedCursor)
        for setting in _SESSION:
            connection.execute(setting)
        adapt(connection.adapters)
        connection.stage = self
        return connection


class Watched(PostgresConnection):
    """A connection that never keeps the others from going on. Closed, it waits for the next one who needs one."""

    stage: PostgresStage | None = None

    @cached_property
    def prepared(self) -> WatchedPrepared:
        return WatchedPrepared(self)

    @property
    def faults(self) -> Faults | None:
        return None if self.stage is None else self.stage.faults

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        faults = self.faults
        actor = None if faults is None else faults.scheduler.current
        if self.stage is None or faults is None or actor is None:
            return psycopg.Connection.wait(self, gen, interval)  # Patience is counted by the actors' clock.
        descriptor = self.fileno()
        try:
            state = next(gen)
            while True:
                reads = [descriptor] if state & READ else []
                writes = [descriptor] if state & WRITE else []
                readable, writable, _ = select.select(reads, writes, [], LONGEST_WORK)
                if readable or writable:
                    state = gen.send((READ if readable else 0) | (WRITE if writable else 0))
                    continue
                actor.waits_for = self.info.backend_pid
                if self.stage.is_waiting(actor):
                    faults.counts["waited"] += 1
                    faults.scheduler.step()
                actor.waits_for = None
        except StopIteration as end:
            return end.value
        finally:
            actor.waits_for = None

    def close(self) -> None:
        if self.stage is None or self.pgconn.transaction_status == TransactionStatus.ACTIVE:
            super().close()
            return
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            psycopg.Connection.wait(self, self._rollback_gen())
        self.stage.idle.append(self)

    def discard(self) -> None:
        """What the session has in hand of a sequence that starts again."""
        if not self.closed:
            self.execute("DISCARD SEQUENCES")


class WatchedCursor(psycopg.Cursor[Any]):
    """Asks before each statement."""

    def execute(
        self, query: Any, params: Any = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Any:
        text = query if isinstance(query, str) else bytes(query).decode()
        return _watched(
            self._conn, text, lambda: super(WatchedCursor, self).execute(query, params, prepare=prepare, binary=binary)
        )

    def executemany(self, query: Any, params_seq: Any, *, returning: bool = False) -> None:
        run = super().executemany
        _watched(self._conn, "", lambda: run(query, params_seq, returning=returning))


class WatchedPrepared(Prepared):
    """The same for single statements."""

    def execute(self, query: bytes, parameters: Any = None, /, **options: Any) -> WatchedPrepared:
        return _watched(self._connection, "", lambda: super(WatchedPrepared, self).execute(query, parameters))

    def executemany(self, query: bytes, parameters: Iterable[Any], /, *, returning: bool = False) -> None:
        _watched(self._connection, "", lambda: super(WatchedPrepared, self).executemany(query, parameters))


def _watched(connection: Any, text: str, run: Callable[[], Any]) -> Any:
    faults: Faults | None = getattr(connection, "faults", None)
    if faults is None or text.startswith(("ROLLBACK", "SET ")):
        return run()
    if text.startswith("BEGIN"):
        return faults.begin(run, _away)
    if text == "COMMIT":
        return faults.commit(run, _away)
    if connection.pgconn.transaction_status == TransactionStatus.IDLE:
        return faults.begin(lambda: faults.commit(run, _away), _away)
    return faults.within(run, _conflict)


def _away() -> Exception:
    return psycopg.OperationalError("the connection is lost")


def _conflict() -> Exception:
    return errors.DeadlockDetected("someone else goes first")
