"""The pool of connections, the transactions on them, and what happens when the server goes away.

A call that finds the server gone tries again, with new connections, until its patience ends. What it does must bear
being run twice: inserts are recognised by their ids, settlements by their tokens (see `Transaction.again`).

Patience also bounds calls that get no answer: because another session holds a lock, the server stands still or the
network swallows packets. The deadline is watched here, on the client's side, because nothing else covers all of these:
`lock_timeout` counts anew for each lock, and behind a pooler it would cost every transaction a setting. A statement
that is overdue is canceled, and its connection closed: a cancellation that comes late must not hit the next one's work.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg.abc import PQGen

from holdfast.core.redaction import discreet
from holdfast.errors import Unavailable
from holdfast.sagas.steps import instances
from holdfast.sagas.steps.step_ends import Happening
from holdfast.store import fork_safety, patience
from holdfast.store.engine import counters
from holdfast.store.interrupt_shield import shielded
from holdfast.store.postgres import claim, driver
from holdfast.store.postgres.adapt import adapt
from holdfast.store.postgres.address import read_address
from holdfast.store.postgres.errors import DriverError, ServerTimeout, is_away, is_conflict, is_doubtful, translated
from holdfast.store.postgres.statements import QUERIES, TOGETHER, Together
from holdfast.store.postgres.wait import NO_CONNECTION, give_up, open_within, until
from holdfast.store.postgres.wakeup import CHANNEL, PostgresWakeup, payload

if TYPE_CHECKING:
    from holdfast.store.postgres.prepared import Prepared  # At run time only with a driver that is known.

Result = TypeVar("Result")
Clock = Callable[[], int]
Row = tuple[Any, ...]

MOST_CONNECTIONS = 20
"""How many calls of one client are at the server at the same time; others wait for their turn."""

# Without these a connection whose server vanished without a word would hang for hours.
_ENDINGS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}

_FOR_OTHERS = {**_ENDINGS, "autocommit": True, "prepare_threshold": None}
"""Their transaction is begun by a block around them, in which the driver refuses commits of their own."""

# Every query finds its rows by an index. The planner does not know that a table which is empty now fills up within
# seconds: left to itself it reads such a table whole, or thinks again at each call for longer than the call takes.
_PLANNING = ("enable_seqscan = off", "enable_bitmapscan = off", "plan_cache_mode = force_generic_plan")

_SESSION = (
    # Claims rely on every statement seeing what was committed before it, whatever the server's default is.
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
    *(f"SET {setting}" for setting in _PLANNING),
)

_BEGIN = "BEGIN"
_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_LOCALLY = "".join(f"; SET LOCAL {setting}" for setting in _PLANNING)
"""Behind a pooler the same, said in every transaction for that transaction, in the round trip that begins it."""


_LOCKS_WITHIN = "SET LOCAL lock_timeout = {}"
"""For work that may take longer than patience: then the server bounds each wait for a lock, in milliseconds."""

_FOREVER = ("SET LOCAL statement_timeout = 0", "SET LOCAL idle_in_transaction_session_timeout = 0")
_PATIENT = ("SET statement_timeout = 0", "SET lock_timeout = 0")
_WITHIN = "statement_timeout = {}"
"""With a driver that is not known, the server bounds each statement, in milliseconds."""

# The last part of patience, which is kept for canceling what is overdue.
_TO_CANCEL, _MOST_TO_CANCEL = 0.2, 0.5

# How often a connection that waits looks at its deadline.
_LOOK_EVERY, _LOOKS = 0.1, 20


class PlainConnection(psycopg.Connection[Row]):
    """One of ours, by a driver that is not known: see `driver`."""

    deadline: float = math.inf
    look_every: float = _LOOK_EVERY

    def single(self) -> DatabaseCursor:
        """A cursor for a single statement."""
        return self.cursor(binary=True)


Ours = TypeVar("Ours", bound=PlainConnection)


class PostgresConnection(PlainConnection):
    """One of ours. From its `deadline` on, it does not wait for the server any more and raises `Overdue`."""

    @cached_property
    def prepared(self) -> Prepared:
        """For single statements."""
        from holdfast.store.postgres.prepared import Prepared

        return Prepared(self)

    def single(self) -> DatabaseCursor:
        """The same by libpq's own calls."""
        return self.prepared

    def wait(self, gen: PQGen[Result], interval: float = _LOOK_EVERY, timeout: float | None = None) -> Result:
        """Every answer of the server is waited for here, also by cursors and by `Prepared`."""
        bounded = until(gen, lambda: self.deadline)
        if timeout is None:  # Which older versions of psycopg do not know.
            return super().wait(bounded, self.look_every)
        return super().wait(bounded, self.look_every, timeout)


class DatabaseCursor(Protocol):
    """What a transaction needs of a cursor."""

    @property
    def rowcount(self) -> int: ...
    def execute(
        self, query: Any, parameters: Any = None, /, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Any: ...
    def executemany(self, query: Any, parameters: Any, /, *, returning: bool = False) -> None: ...
    def fetchall(self) -> list[Row]: ...
    def fetchone(self) -> Row | None: ...
    def nextset(self) -> bool | None: ...


class PostgresTransaction:
    """Named queries on a connection. `again` says that an earlier try of the same work had an unknown outcome.

    `rings_inside`: work of one statement, which may wake sleepers itself; `has_rung` if it did.
    """

    __slots__ = (
        "_clock",
        "_cursor",
        "_prepare",
        "_rings_inside",
        "again",
        "ended_keys",
        "endings",
        "has_rung",
        "overdue",
        "rings",
        "tallies",
    )

    insert = claim.insert

    def __init__(
        self,
        cursor: DatabaseCursor,
        clock: Clock | None,
        again: bool = False,
        prepare: bool | None = True,
        rings_inside: bool = False,
    ) -> None:
        self._cursor = cursor
        self._clock = clock
        self._prepare = prepare
        self._rings_inside = rings_inside
        self.has_rung = False
        self.again = again
        self.rings: set[int] = set()
        self.tallies: dict[int, dict[str, int]] = {}
        self.endings: list[Happening] = []
        self.ended_keys: set[tuple[int, str]] = set()
        self.overdue: set[int] = set()

    def all(self, query: str, **parameters: Any) -> list[Row]:
        self._execute(query, parameters)
        return self._cursor.fetchall()

    def one(self, query: str, **parameters: Any) -> Row | None:
        self._execute(query, parameters)
        return self._cursor.fetchone()

    def run(self, query: str, **parameters: Any) -> int:
        self._execute(query, parameters)
        return self._cursor.rowcount

    def each(self, query: str, parameters: Sequence[dict[str, Any]]) -> list[Row | None]:
        if not parameters:
            return []
        if len(parameters) > 1 and (together := TOGETHER.get(query)):
            return self._together(together, parameters)
        now = self._given_now()
        self._cursor.executemany(QUERIES[query], [{**one, "now": now} for one in parameters], returning=True)
        found = [self._cursor.fetchone()]
        while self._cursor.nextset():
            found.append(self._cursor.fetchone())
        return found

    def _together(self, together: Together, parameters: Sequence[dict[str, Any]]) -> list[Row | None]:
        """One statement for all of them."""
        columns = {name: pack([one[name] for one in parameters]) for name, pack in together.columns.items()}
        width, first = len(together.keys), dict[Row, Row]()
        for row in self.all(together.query, **columns):
            first.setdefault(row[:width], row[width:])
        return [first.get(tuple([one[key] for key in together.keys])) for one in parameters]

    def execute(self, statement: str) -> None:
        """Text without parameters: of a migration, or the border of a transaction. Only as text may it be several."""
        self._cursor.execute(statement.encode(), binary=False)

    def bell(self) -> dict[str, str | None]:
        """Whom a statement shall wake when it commits, if it may."""
        return {"bell": CHANNEL, "payload": payload(self.rings) if self._rings_inside else None}

    def clock(self) -> int:
        found = self.one("clock.now")
        assert found is not None, "a clock always shows a time"
        return found[0]  # type: ignore[no-any-return]

    def _execute(self, query: str, parameters: dict[str, Any]) -> None:
        parameters["now"] = self._given_now()
        self._cursor.execute(QUERIES[query], parameters, prepare=self._prepare)

    def _given_now(self) -> int | None:
        return None if self._clock is None else self._clock()


class PostgresDatabase(fork_safety.Guarded):
    """One PostgreSQL database, shared by all threads of this process."""

    def __init__(self, url: str, clock: Clock | None, patience: float) -> None:
        self.address = read_address(url)
        self.wakeup = PostgresWakeup(self.connect_to_tell, self.address.listens, patience)
        self.clock = clock
        self.unheard = 0
        """How many answers were lost, and asked for again."""
        self._patience = patience
        self._is_known = driver.is_known()
        self._to_cancel = min(_TO_CANCEL * patience, _MOST_TO_CANCEL)
        self._idle: list[PlainConnection] = []
        self._lock = threading.Lock()
        self._slots = _slots()
        fork_safety.guard(self)

    def write(self, work: Callable[[PostgresTransaction], Result]) -> Result:
        """Runs `work` in a transaction: all of it happens, durably, or nothing."""
        return self._keep_trying(self._within(_BEGIN, work))

    def write_at_length(self, work: Callable[[PostgresTransaction], Result], lock_wait: float | None = None) -> Result:
        """The same for work that may well take longer than patience: only its waits for locks are bounded.

        After waiting `lock_wait` seconds for a lock it is rolled back, and tried again until patience ends.
        """
        milliseconds = self._milliseconds() if lock_wait is None else min(self._milliseconds(), round(1e3 * lock_wait))

        def bounded(tx: PostgresTransaction) -> Result:
            tx.execute(_LOCKS_WITHIN.format(milliseconds))
            for setting in _FOREVER:
                tx.execute(setting)
            return work(tx)

        return self._keep_trying(self._within(_BEGIN, bounded), is_long=True)

    def run_outside(self, statements: Sequence[str]) -> None:
        """Runs statements that PostgreSQL refuses inside of a transaction, on a connection of their own."""
        connection = self.connect()
        try:
            if not self.address.pooled:
                for setting in _PATIENT:
                    connection.execute(setting)
            for statement in statements:
                connection.execute(statement.encode(), prepare=False)
        finally:
            connection.close()

    def accept(self, work: Callable[[PostgresTransaction], Result]) -> Result:
        """The same for work that stores new messages: a full disk is the server's affair."""
        return self.write(work)

    def read(self, work: Callable[[PostgresTransaction], Result]) -> Result:
        """Runs `work` on one consistent picture of the database."""
        return self._keep_trying(self._within(_BEGIN_READING, work))

    def glance(self, work: Callable[[PostgresTransaction], Result]) -> Result:
        """The same, for a single statement."""
        return self.single(work)

    def single(self, work: Callable[[PostgresTransaction], Result]) -> Result:
        """Runs work of one statement, which is a transaction by itself and costs one round trip."""
        if self.address.pooled:
            return self._keep_trying(self._within(_BEGIN, work))
        return self._keep_trying(work, is_single=True)

    @shielded
    def _keep_trying(
        self, work: Callable[[PostgresTransaction], Result], is_single: bool = False, is_long: bool = False
    ) -> Result:
        deadline = patience.deadline(self._patience) - self._to_cancel
        self._take_slot(deadline)
        began = time.monotonic()
        try:
            transaction, result = self._persist(work, is_single, deadline, is_long)
        finally:
            self._slots.put(None)
        if transaction.rings:
            self.wakeup.ring(sorted(transaction.rings), began if transaction.has_rung else None)
        return result

    def _take_slot(self, deadline: float) -> None:
        try:
            self._slots.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            raise Unavailable(
                f"nothing was asked of the database: all {MOST_CONNECTIONS} connections of this client were in use "
                f"for as long as its patience lasts ({self._patience:g} s)"
            ) from None

    def _persist(
        self, work: Callable[[PostgresTransaction], Result], is_single: bool, deadline: float, is_long: bool
    ) -> tuple[PostgresTransaction, Result]:
        pause, again = 0.02, patience.is_again()
        rings_inside = is_single and self.wakeup.is_quiet()
        while True:
            connection: PlainConnection | None = None
            try:
                connection = self._take(deadline)
                connection.deadline = math.inf if is_long else deadline
                cursor = connection.single() if is_single else connection.cursor(binary=True)
                prepare = not self.address.pooled
                transaction = PostgresTransaction(cursor, self.clock, again, prepare, rings_inside)
                result = work(transaction)
                self._put_back(connection)
                return transaction, result
            except DriverError as problem:
                if connection is not None and is_doubtful(problem):
                    again = True
                    self.unheard += 1
                self._put_away(connection, problem)
                may_pass = is_conflict(problem) or is_doubtful(problem)
                if not may_pass or isinstance(problem, ServerTimeout) or time.monotonic() > deadline:
                    raise translated(problem) from problem
            except BaseException:
                self._put_away(connection, None)
                raise
            time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
            pause = min(pause * 2, 1.0)

    def connect(self) -> PlainConnection:
        """A new connection with our types on it."""
        settings = () if self.address.pooled else (*_SESSION, *(f"SET {setting}" for setting in self._timeouts()))
        return _connect(self._kind(), self.address.url, settings, not self.address.pooled)

    def connect_to_tell(self) -> PlainConnection:
        """One for notifications. It does not wait for the disk where it has a session to say so in."""
        if not self.address.listens:
            return self.connect()
        return _connect(self._kind(), self.address.direct or self.address.url, ("SET synchronous_commit = off",))

    def _kind(self) -> type[PlainConnection]:
        return PostgresConnection if self._is_known else PlainConnection

    def _timeouts(self) -> list[str]:
        return [] if self._is_known else [_WITHIN.format(self._milliseconds())]

    def _milliseconds(self) -> int:
        return max(1, round(self._patience * 1_000))

    def _within(
        self, begin: str, work: Callable[[PostgresTransaction], Result]
    ) -> Callable[[PostgresTransaction], Result]:
        if self.address.pooled:
            level = "" if begin == _BEGIN_READING else " ISOLATION LEVEL READ COMMITTED"
            begin = "; SET LOCAL ".join([f"{begin}{level}{_LOCALLY}", *self._timeouts()])

        def in_transaction(tx: PostgresTransaction) -> Result:
            tx.execute(begin)
            result = work(tx)
            instances.move_on(tx)
            counters.write(tx)
            tx.execute("COMMIT")
            return result

        return in_transaction

    @shielded
    def connect_for_others(self) -> psycopg.Connection[Row]:
        """A new connection as the driver makes them, for code that is not ours."""
        try:
            connect = partial(psycopg.connect, self.address.url, **_FOR_OTHERS)
            return open_within(connect, patience.deadline(self._patience))
        except DriverError as problem:
            refusal = translated(type(problem)(discreet(str(problem), self.address.url)))
        raise refusal

    async def connect_for_others_on_loop(self) -> psycopg.AsyncConnection[Row]:
        """The same for asyncio."""
        try:
            async with asyncio.timeout(self._patience):
                return await psycopg.AsyncConnection.connect(self.address.url, **_FOR_OTHERS)
        except TimeoutError:
            refusal = translated(ServerTimeout(NO_CONNECTION))
        except DriverError as problem:
            refusal = translated(type(problem)(discreet(str(problem), self.address.url)))
        raise refusal

    @shielded
    def close(self) -> None:
        """Closes every connection that is not in use; the next call opens new ones."""
        self.wakeup.close()
        self._close_idle()

    def after_fork_in_child(self) -> None:
        """The sockets belong to the parent; closing them here would end its sessions (psycopg does not, by pid)."""
        self._idle = []
        self._lock = threading.Lock()
        self._slots = _slots()
        self.wakeup.after_fork_in_child()

    def _take(self, deadline: float) -> PlainConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        made = open_within(self.connect, deadline)
        made.look_every = min(_LOOK_EVERY, self._patience / _LOOKS)
        return made

    def _put_back(self, connection: PlainConnection) -> None:
        with self._lock:
            self._idle.append(connection)

    def _put_away(self, connection: PlainConnection | None, problem: BaseException | None) -> None:
        """After a failure: an unbroken connection is rolled back and kept, and if one broke the others are suspect."""
        if connection is None:
            return
        if isinstance(problem, ServerTimeout):
            give_up(connection, self._to_cancel)
            return
        away = problem is not None and is_away(problem)
        with suppress(*DriverError):
            if not away and not connection.closed:
                connection.rollback()
                self._put_back(connection)
                return
        connection.close()
        if away:
            self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def _slots() -> SimpleQueue[None]:
    """A semaphore that takes and gives in one step each: the one of the standard library takes sixteen."""
    slots: SimpleQueue[None] = SimpleQueue()
    for _ in range(MOST_CONNECTIONS):
        slots.put(None)
    return slots


def _connect(kind: type[Ours], url: str, settings: Sequence[str], prepared: bool = True) -> Ours:
    try:
        connection = kind.connect(url, autocommit=True, prepare_threshold=0 if prepared else None, **_ENDINGS)
        connection.deadline = time.monotonic() + _ENDINGS["connect_timeout"]
        for setting in settings:
            connection.execute(setting)
        connection.deadline = math.inf
        adapt(connection.adapters)
        return connection
    except DriverError as problem:
        refusal = type(problem)(discreet(str(problem), url))
    # Not inside the except: the driver's own error, which may quote the password, must not come along.
    raise refusal
