"""PostgreSQL: bad plans, late commits, restarts and dead listeners, with real processes."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from holdfast import Claim, Holdfast, State
from holdfast.client.client import internals
from tests.acceptance.children import Family
from tests.acceptance.crowds import assert_each_gets_its_own
from tests.acceptance.history import faults
from tests.acceptance.sessions import is_waiting
from tests.acceptance.working import is_drained
from tests.clock import FakeClock
from tests.long import only_long, size
from tests.servers import PostgresServer
from tests.waiting import eventually, spend

Connect = Callable[..., Holdfast]

JOINS = ["hashjoin", "mergejoin", "sort", "hashagg", "material", "memoize", "incremental_sort"]


def ask(url: str, sql: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(sql).fetchall()


# --- plans ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def badly_planned(postgres_url: str) -> Iterator[str]:
    """A database in which only nested loops are left, and nothing is known about the tables."""
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for way in JOINS:
            connection.execute(f"ALTER DATABASE {name} SET enable_{way} = off")
        yield postgres_url
        connection.execute(f"ALTER DATABASE {name} RESET ALL")


def test_the_worst_plan_claims_no_more_than_was_asked_for(badly_planned: str, connect: Connect) -> None:
    """P4: a LIMIT inside of an UPDATE may be run again for every row; what was picked must stay picked."""
    hf = connect(badly_planned)
    hf.queue("q", history=0, backoff=None)
    hf.enqueue_many("q", range(60), delay=0.001)
    hf.enqueue_many("q", range(60))
    eventually(lambda: hf.stats("q").waiting == 0, "all is due")
    held: list[Claim] = []
    for n in (1, 1, 2, 7, 30, 40):
        claims = hf.claim("q", n=n)
        held += claims
        assert len(claims) == n
        assert hf.stats("q").processing == len(held)

    hf.nack(held[:10])
    hf.ack(held[10:])
    assert (hf.stats("q").processing, hf.stats("q").pending) == (0, 120 - len(held) + 10)
    assert len({claim.message.id for claim in held}) == len(held)


# --- concurrency ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("against", [pytest.param("nack", marks=only_long), "cancel"])
@pytest.mark.parametrize(
    ("ordering", "delay"), [("unordered", 0), ("unordered", 0.001), ("per_key", 0)], ids=["lane", "rows", "keys"]
)
def test_two_who_end_the_same_claims_in_opposite_order_do_not_block_each_other(
    family: Family, postgres_url: str, connect: Connect, ordering: str, delay: float, against: str
) -> None:
    """P6: each claim is ended by one of them, nobody hears of a deadlock, and there is none to wait for."""
    hf = connect(postgres_url)
    rounds, together = size(12, 40), 25
    hf.queue("q", ordering=ordering, backoff=3600)
    for _ in range(2):
        hf.enqueue_many("q", range(rounds * together), delay=delay, key=str)
    eventually(lambda: hf.stats("q").waiting == 0, "all is due")
    before = deadlocks(postgres_url)

    family.start("duelist", url=postgres_url, queue="q", rounds=rounds, size=together, against=against).finish()

    history = family.history()
    assert history.errors() == []
    for id, grants in history.grants.items():
        assert ending(hf, id) in (grants[0].settled_as, "cancel"), f"{id} ended as {ending(hf, id)}: {grants}"
    assert hf.stats("q").processing <= rounds, "what the acking side has claimed meanwhile"
    assert deadlocks(postgres_url) == before


def deadlocks(url: str) -> int:
    """How many the server has broken so far, each after a second of waiting."""
    found: int = ask(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0][0]
    return found


def ending(hf: Holdfast, id: str) -> str:
    status = hf.status(id)
    assert status is not None
    return {State.SUCCEEDED: "ack", State.PENDING: "nack", State.CANCELED: "cancel", State.PROCESSING: ""}[status.state]


def test_a_crowd_of_processes_gets_each_message_once(family: Family, postgres_url: str, connect: Connect) -> None:
    """L15: in runs of all sizes, and claims of a few that end one by one in between."""
    hf = connect(postgres_url)
    hf.queue("q", lease=300, history=0)
    workers = [{"n": n, "fused": fused} for n in (3, 100, 1000) for fused in (False, True)]
    assert_each_gets_its_own(family, postgres_url, workers, senders=2, each=size(10_000, 100_000), batch=1000)
    assert is_drained(hf, "q")


def test_messages_that_commit_late_are_claimed_exactly_once(
    family: Family, postgres_url: str, connect: Connect
) -> None:
    """P1, P2: twelve writers whose transactions wait between xid, insert and commit, and some are rolled back."""
    connect(postgres_url).queue("q", lease=300)
    for n in (1, 7, 100):
        family.start("consume", url=postgres_url, queue="q", n=n, fused=n > 1)
    writers = [
        family.start("late_writer", url=postgres_url, queue="q", writers=4, rounds=50, seed=seed) for seed in range(3)
    ]
    family.start("produce", url=postgres_url, queue="q", name="prompt", count=500, batch=3)
    with psycopg.connect(postgres_url) as elsewhere:
        elsewhere.execute("CREATE TABLE unrelated (id int)")
        for writer in writers:
            writer.finish()
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert history.acked == history.sent.keys()
    assert len(history.sent) > 1500
    assert {grant.attempt for grants in history.grants.values() for grant in grants} == {1}


def test_a_long_transaction_elsewhere_delays_nothing(postgres_url: str, connect: Connect) -> None:
    """P3: neither an idle one that has written, nor an old snapshot, nor an enqueue that is not committed yet."""
    hf, late = connect(postgres_url), connect(postgres_url)
    hf.queue("q")
    with psycopg.connect(postgres_url) as writer, psycopg.connect(postgres_url) as reader:
        writer.execute("CREATE TABLE unrelated (id int)")
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM holdfast_message")
        with internals(late).store.database.connect() as open_insert:  # type: ignore[attr-defined]
            open_insert.execute("BEGIN")
            open_insert.execute(
                "INSERT INTO holdfast_message (lane, id, body, enqueued_at)"
                " SELECT lane, gen_random_uuid(), '\"late\"', 0 FROM holdfast_lane WHERE lane % 4 = 2"
            )
            for start in range(0, 300, 100):
                hf.enqueue_many("q", range(start, start + 100))
                claims = hf.claim("q", n=1000)
                assert [claim.message.body for claim in claims] == list(range(start, start + 100))
                hf.ack(claims)
            open_insert.execute("COMMIT")
        assert [claim.message.body for claim in hf.claim("q", n=1000)] == ["late"]


def test_a_lease_begins_when_it_is_granted(postgres_url: str, connect: Connect) -> None:
    """P11: not when the claim began to wait for its turn; now() stands still inside of a transaction."""
    hf = connect(postgres_url)
    hf.queue("q", lease=1)
    hf.enqueue("q", 1)
    hf.claim("q")
    hf.enqueue("q", 2)
    granted: list[Claim] = []
    claiming = threading.Thread(target=lambda: granted.extend(hf.claim("q")))
    with psycopg.connect(postgres_url) as holder:
        holder.execute("SELECT FROM holdfast_lane FOR UPDATE")
        claiming.start()
        eventually(lambda: is_waiting(postgres_url), "the claim waits for its turn")
        spend(1.5)
        released = time.time_ns() // 1000
    claiming.join()

    assert granted[0].lease.until_us >= released + 1_000_000


def test_a_key_that_is_taken_again_is_not_swept_away(postgres_url: str, connect: Connect) -> None:
    """While a transaction takes a key whose time is over, a sweep passes by it."""
    clock = FakeClock()
    hf = connect(postgres_url, clock=clock)
    hf.queue("q", idempotency_window=60)
    hf.cancel(hf.enqueue("q", "work", idempotency_key="k").id)
    clock.advance(60)
    with psycopg.connect(postgres_url) as conn:
        again = hf.enqueue("q", "work", idempotency_key="k", conn=conn)
        hf.queues.sweep("q")
        conn.commit()
    assert not again.duplicate
    assert hf.enqueue("q", "work", idempotency_key="k").id == again.id


def test_parent_and_children_of_a_fork_have_connections_of_their_own(
    family: Family, postgres_url: str, connect: Connect
) -> None:
    """S8 on PostgreSQL: also while another thread is in the middle of an enqueue."""
    connect(postgres_url).queue("q", history=0)

    family.start("forker", url=postgres_url, queue="q", count=size(1_000, 4_000), way="os", busy=True).finish()

    assert faults(family.history()) == []


def test_a_client_closes_while_a_forked_child_lives_on(postgres_url: str, connect: Connect) -> None:
    """The child has a copy of everything that was open, and none of the threads."""
    hf = connect(postgres_url)
    assert hf.claim("q", wait=0.01) == []
    assert "holdfast-listen" in thread_names()
    holding, released = os.pipe()
    child = os.fork()
    if not child:
        os.close(released)
        os.read(holding, 1)
        os._exit(0)
    hf.close()
    os.close(released)
    os.close(holding)
    os.waitpid(child, 0)
    assert "holdfast-listen" not in thread_names()


def test_a_client_closes_while_its_listener_ends_by_itself(
    postgres_url: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notification may let the thread see that it is over before it is told so."""
    hf, rival = connect(postgres_url), connect(postgres_url)
    assert hf.claim("q", wait=0.01) == []
    listener: Any = internals(hf).store.wakeup._listener  # type: ignore[attr-defined]
    say_so = listener._closed.set

    def notice_first() -> None:
        say_so()
        rival.enqueue("q", 1)
        listener._thread.join()

    monkeypatch.setattr(listener._closed, "set", notice_first)
    hf.close()
    assert not listener._thread.is_alive()


def thread_names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


# --- a server that goes away ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("private_postgres", [{"fsync": "on", "full_page_writes": "on"}], indirect=True)
def test_a_restarting_server_costs_nothing_but_time(
    family: Family, private_postgres: PostgresServer, connect: Connect
) -> None:
    """P12: stopped as by a crash, again and again, under load; no process fails, hangs or needs a restart."""
    url = private_postgres.url()
    hf = connect(url)
    hf.queue("q", lease=3, max_attempts=50, backoff=None)
    senders = [family.start("stream", url=url, queue="q", name=str(b), batch=b, pause=0.005) for b in (1, 20)]
    for ways in ({}, {"n": 10, "fused": True}, {"n": 50, "moody": True}):
        family.start("consume", url=url, queue="q", **ways)
    for _ in range(size(2, 6)):
        family.wait_for_events(20_000, "consume")
        private_postgres.restart("immediate")
    for role in ("stream", "consume"):
        family.wait_for_events(20_000, role)
    for sender in senders:
        sender.finish()
    family.finish()

    history = family.history()
    assert faults(history, left=history.unsure) == []
    assert (hf.stats("q").pending, hf.stats("q").processing, hf.stats("q").dead) == (0, 0, 0)


def test_a_dead_listener_is_replaced(postgres_url: str, connect: Connect) -> None:
    """P9: the next message arrives all the same, and the one after it is announced again."""
    sleeper, sender = connect(postgres_url), connect(postgres_url)
    sleeper.queue("q")
    assert sleeper.claim("q", wait=0.01) == []
    for number in range(3):
        heard: list[Claim] = []
        waiting = threading.Thread(target=lambda heard=heard: heard.extend(sleeper.claim("q", wait=60)))
        waiting.start()
        eventually(lambda: listeners(postgres_url), "it listens")
        ask(postgres_url, f"SELECT pg_terminate_backend(pid) {LISTENERS}")
        sender.enqueue("q", number)
        waiting.join()
        assert [claim.message.body for claim in heard] == [number]
        sleeper.ack(heard)
    eventually(lambda: listeners(postgres_url), "it listens again")


LISTENERS = "FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
"""Other tests listen in the same server, in databases of their own."""


def listeners(url: str) -> list[Any]:
    found: list[Any] = ask(url, f"SELECT pid {LISTENERS}")
    return found
