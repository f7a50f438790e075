"""PostgreSQL: single statements go by libpq's own calls, and are none the worse for it."""

import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus

from holdfast import Holdfast, QueueFull
from holdfast.client.client import internals
from holdfast.core.message import MessageId
from holdfast.store.postgres.connection import PostgresConnection, _connect
from holdfast.store.postgres.prepared import MOST_PREPARED, Prepared, numbered
from tests.acceptance.sessions import is_waiting
from tests.waiting import eventually

Connect = Callable[..., Holdfast]


@pytest.fixture
def connection(postgres_url: str) -> Iterator[PostgresConnection]:
    found = _connect(PostgresConnection, postgres_url, ())
    yield found
    found.close()


@pytest.fixture
def prepared(connection: PostgresConnection) -> Prepared:
    return connection.prepared


def is_there(url: str, pid: int) -> bool:
    with psycopg.connect(url) as connection:
        return bool(connection.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchall())


def known(connection: psycopg.Connection[Any]) -> int:
    query = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'holdfast%'"
    found = connection.execute(query, prepare=False).fetchone()
    assert found is not None
    return int(found[0])


def test_parameters_are_numbered_by_their_names() -> None:
    assert numbered(b"SELECT %(b)b, %(a)b, %(b)b LIKE '%%'") == (b"SELECT $1, $2, $1 LIKE '%'", ["b", "a"])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", 2**60),
        ("bigint", None),
        ("bigint[]", [1, None, 3]),
        ("text", "ä%b"),
        ("text[]", ["a", None]),
        ("bytea", b"\0\1"),
        ("boolean", True),
        ("uuid", MessageId(bytes(range(16)))),
    ],
)
def test_values_go_and_come_as_through_a_cursor(connection: PostgresConnection, kind: str, value: object) -> None:
    query = f"SELECT %(value)b::{kind}, 1".encode()
    for _ in range(2):
        found = connection.prepared.execute(query, {"value": value, "more": 1}).fetchall()
        assert found == connection.cursor(binary=True).execute(query, {"value": value}).fetchall() == [(value, 1)]


def test_each_statement_is_prepared_once_for_each_kind_of_its_values(
    connection: PostgresConnection, prepared: Prepared
) -> None:
    for value in [1, 2, None, 3, None]:
        assert prepared.execute(b"SELECT %(value)b::bigint", {"value": value}).fetchone() == (value,)
    assert known(connection) == 2


def test_rows_are_counted_and_sets_come_one_after_the_other(prepared: Prepared) -> None:
    prepared.execute(b"CREATE TEMP TABLE several (n bigint)")
    prepared.executemany(
        b"INSERT INTO several VALUES (%(n)b) RETURNING n", [{"n": 1}, {"n": 2}, {"n": 3}], returning=True
    )
    assert prepared.fetchone() == (1,)
    assert prepared.nextset()
    assert prepared.fetchall() == [(2,)]
    assert prepared.nextset()
    assert not prepared.nextset()
    assert prepared.execute(b"DELETE FROM several WHERE n > %(n)b", {"n": 1}).rowcount == 2
    assert prepared.execute(b"SELECT n FROM several WHERE n > %(n)b", {"n": 1}).fetchone() is None


def test_an_error_is_what_a_cursor_raises_and_the_next_statement_runs(prepared: Prepared) -> None:
    with pytest.raises(errors.DivisionByZero) as caught:
        prepared.execute(b"SELECT 1 / %(n)b::bigint", {"n": 0})
    assert caught.value.sqlstate == "22012"
    with pytest.raises(errors.UndefinedTable):
        prepared.execute(b"SELECT * FROM nowhere")
    assert prepared.execute(b"SELECT 1 / %(n)b::bigint", {"n": 1}).fetchone() == (1,)


def test_no_more_are_kept_than_a_server_should_keep(connection: PostgresConnection, prepared: Prepared) -> None:
    for number in range(MOST_PREPARED + 20):
        assert prepared.execute(b"SELECT %d + %%(n)b::bigint" % number, {"n": 1}).fetchone() == (number + 1,)
    assert known(connection) == MOST_PREPARED
    assert prepared.execute(b"SELECT 0 + %(n)b::bigint", {"n": 2}).fetchone() == (2,)
    connection.execute("DEALLOCATE ALL")
    prepared.execute(b"SELECT 0 + %(n)b::bigint", {"n": 2})
    prepared.execute(b"SELECT %d + %%(n)b::bigint" % MOST_PREPARED, {"n": 2})
    assert known(connection) == 2, "there is room again"


def test_what_the_server_has_forgotten_is_prepared_again(connection: PostgresConnection, prepared: Prepared) -> None:
    assert prepared.execute(b"SELECT %(n)b::bigint", {"n": 1}).fetchone() == (1,)
    connection.execute("DEALLOCATE ALL")
    assert prepared.execute(b"SELECT %(n)b::bigint", {"n": 2}).fetchone() == (2,)
    assert known(connection) == 1


def test_after_a_transaction_that_was_rolled_back_it_goes_on(postgres_url: str, connect: Connect) -> None:
    """psycopg forgets all prepared statements of the connection then."""
    hf = connect(postgres_url)
    hf.queue("small", max_depth=2)
    for number in range(2):
        hf.enqueue("q", number)
        hf.enqueue("small", number)
        with pytest.raises(QueueFull):
            hf.enqueue_many("small", range(5), delay=3)
    hf.enqueue("q", 2)
    assert [claim.message.body for claim in hf.claim("q", n=10)] == [0, 1, 2]


def test_a_connection_that_is_gone_says_so(
    connection: PostgresConnection, prepared: Prepared, postgres_url: str
) -> None:
    prepared.execute(b"SELECT 1")
    pid = connection.info.backend_pid
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    eventually(lambda: not is_there(postgres_url, pid), "the server has ended it")
    with pytest.raises(psycopg.OperationalError):
        prepared.execute(b"SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        prepared.execute(b"SELECT 1")


def test_whoever_is_interrupted_leaves_no_statement_behind(postgres_url: str, connect: Connect) -> None:
    """It is canceled in the server, and the client goes on with a connection that is free."""
    hf = connect(postgres_url)
    hf.enqueue("q", 1)

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    main = threading.main_thread().ident
    assert main is not None
    try:
        with psycopg.connect(postgres_url) as holder:
            holder.execute("LOCK TABLE holdfast_message IN ACCESS EXCLUSIVE MODE")
            waiter = threading.Thread(target=lambda: _signal_when_waiting(postgres_url, main))
            waiter.start()
            with pytest.raises(KeyboardInterrupt):
                hf.enqueue("q", 2)
            waiter.join()
            eventually(lambda: not is_waiting(postgres_url), "it was canceled")
    finally:
        signal.signal(signal.SIGUSR1, before)
    idle = internals(hf).store.database._idle  # type: ignore[attr-defined]
    assert [one.pgconn.transaction_status for one in idle] == [TransactionStatus.IDLE] * len(idle)
    hf.enqueue("q", 3)
    assert [claim.message.body for claim in hf.claim("q", n=10)] == [1, 3]


def _signal_when_waiting(url: str, thread: int) -> None:
    eventually(lambda: is_waiting(url), "the statement waits")
    signal.pthread_kill(thread, signal.SIGUSR1)
