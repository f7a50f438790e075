"""PostgreSQL: who tells sleepers of a message, its own commit or a thread afterwards."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from holdfast.store.postgres.wakeup import Ears

Connect = Callable[..., Holdfast]

RING = "SELECT pg_advisory_lock(hashtextextended('holdfast_ring', 0))"


@contextmanager
def heard_by(url: str) -> Iterator[Callable[[], str]]:
    """Someone who listens, and says what the next notification was and whose session it came from."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN holdfast")

        def next_one() -> str:
            [notice] = connection.notifies(timeout=120, stop_after=1)
            found = connection.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", [notice.pid]).fetchone()
            is_enqueue = found is not None and ("holdfast_message" in found[0] or "holdfast_enqueue_once" in found[0])
            return "the commit" if is_enqueue else "the thread"

        yield next_one


@pytest.fixture
def hf(postgres_url: str, connect: Connect) -> Holdfast:
    """Somebody else has declared the queue, which is told of too."""
    with connect(postgres_url) as another:
        another.queue("q")
    return connect(postgres_url)


@pytest.fixture
def always_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.postgres.wakeup._QUIET", -1.0)


@pytest.mark.usefixtures("always_quiet")
def test_a_lone_message_is_told_of_by_its_own_commit(hf: Holdfast, postgres_url: str) -> None:
    with heard_by(postgres_url) as next_one:
        for _ in range(3):
            hf.enqueue("q", 1)
            assert next_one() == "the commit"


def test_of_many_in_a_row_a_thread_tells(hf: Holdfast, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.postgres.wakeup._QUIET", 3600.0)
    with heard_by(postgres_url) as next_one:
        hf.enqueue("q", 1)
        assert next_one() == "the commit"
        hf.enqueue("q", 2)
        assert next_one() == "the thread"


@pytest.mark.usefixtures("always_quiet")
def test_so_is_one_with_an_idempotency_key(hf: Holdfast, postgres_url: str) -> None:
    with heard_by(postgres_url) as next_one:
        for number in range(3):
            assert not hf.enqueue("q", 1, idempotency_key=str(number)).duplicate
            assert next_one() == "the commit"
        assert hf.enqueue("q", 1, idempotency_key="0").duplicate
        assert internals(hf).store.wakeup._sender is None  # type: ignore[attr-defined]


def test_the_pace_counts_from_where_the_last_one_began(hf: Holdfast, postgres_url: str) -> None:
    """One that takes longer than the pace may be followed by another at once."""
    wakeup = internals(hf).store.wakeup
    now = time.monotonic()
    wakeup.ring([1], now - 1)  # type: ignore[call-arg]
    assert wakeup.is_quiet()  # type: ignore[attr-defined]
    wakeup.ring([1], now + 1)  # type: ignore[call-arg]
    assert not wakeup.is_quiet()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("always_quiet")
def test_nobody_waits_for_another_one_who_notifies(hf: Holdfast, postgres_url: str) -> None:
    """One at a time may notify by its commit; who comes meanwhile is stored at once, and told of afterwards."""
    with heard_by(postgres_url) as next_one, psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(RING)
        hf.enqueue("q", 1)
        assert hf.stats("q").pending == 1
        assert next_one() == "the thread"


@pytest.mark.usefixtures("always_quiet")
def test_a_sleeper_is_woken_by_the_commit(hf: Holdfast, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else is there who could: the thread was never started."""
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)
    got: list[Any] = []
    sleeper = threading.Thread(target=lambda: got.extend(hf.claim("q", wait=60)))
    sleeper.start()
    hf.enqueue("q", "ring")
    sleeper.join()
    assert [claim.message.body for claim in got] == ["ring"]
    assert internals(hf).store.wakeup._sender is None  # type: ignore[attr-defined]


def test_what_came_before_the_server_knew_of_the_sleeper_wakes_it_too(
    hf: Holdfast, connect: Connect, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks, and sleeps, before it listens: a message of that moment is told to nobody."""
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)
    wakeup: Any = internals(hf).store.wakeup
    sleeps, may_listen, connect_now = threading.Event(), threading.Event(), wakeup._connect

    def connect_late() -> Any:
        assert may_listen.wait(60)
        return connect_now()

    def nap_openly(ears: Any, *args: Any, nap: Callable[..., Any] = Ears.wait) -> Any:
        sleeps.set()
        return nap(ears, *args)

    monkeypatch.setattr(wakeup, "_connect", connect_late)
    monkeypatch.setattr(Ears, "wait", nap_openly)
    got: list[Any] = []
    sleeper = threading.Thread(target=lambda: got.extend(hf.claim("q", wait=3600)), daemon=True)
    sleeper.start()
    assert sleeps.wait(60)
    connect(postgres_url).enqueue("q", "unheard")
    may_listen.set()
    sleeper.join(120)
    assert [claim.message.body for claim in got] == ["unheard"]
