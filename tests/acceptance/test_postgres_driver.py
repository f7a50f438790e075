"""psycopg is used past its public interface only in versions that are known; any other works without that."""

import logging
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, Unavailable
from holdfast.store.postgres import driver
from holdfast.store.postgres.connection import PlainConnection, PostgresConnection
from holdfast.store.postgres.prepared import Prepared
from tests.client.test_patience import LONGEST, locked, outcomes

UNKNOWN = "3.99.1"


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A psycopg of the future, of which nothing but the public interface is as it was."""

    def gone(*_: Any, **__: Any) -> Any:
        raise AssertionError("this is not part of psycopg's public interface")

    monkeypatch.setattr(psycopg, "__version__", UNKNOWN)
    monkeypatch.setattr(Prepared, "__init__", gone)
    monkeypatch.setattr(PostgresConnection, "wait", gone)


def test_the_installed_psycopg_is_known() -> None:
    assert driver.is_known(), (
        f"psycopg {psycopg.__version__} is installed, and Holdfast knows {', '.join(driver.KNOWN)}. It works with this "
        "one, but more slowly: it uses cursors and statement_timeout in place of psycopg's generators. Run "
        "all tests with its version in "
        "holdfast.store.postgres.driver.KNOWN; if they pass, leave it there, otherwise pin psycopg in pyproject.toml"
    )


@pytest.mark.parametrize(
    ("version", "is_known"),
    [
        ("3.3", True),
        ("3.3.8", True),
        ("3.3.0.dev1", True),
        ("3.2.13", False),
        ("3.4.0", False),
        ("3.20.1", False),
        ("4.0", False),
    ],
)
def test_a_version_is_known_by_its_first_two_numbers(version: str, is_known: bool) -> None:
    assert driver.is_known(version) == is_known


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("pooler", ["", "?pooler=transaction"])
def test_an_unknown_psycopg_is_used_by_its_public_interface(
    postgres_url: str, caplog: pytest.LogCaptureFixture, pooler: str
) -> None:
    driver._tell.cache_clear()  # It is told once in a process.
    with caplog.at_level(logging.WARNING), Holdfast(postgres_url + pooler) as hf:
        hf.queue("q", max_attempts=2, backoff=0)
        hf.topic("t")
        hf.subscribe("t", group="g")
        one = hf.enqueue("q", {"n": 1}, idempotency_key="k")
        assert hf.enqueue("q", {"n": 1}, idempotency_key="k").id == one.id
        hf.enqueue_many("q", range(50))
        hf.publish("t", "published")
        first, *others = hf.claim("q", n=51)
        first.nack("why")
        hf.ack(others)
        [again] = hf.claim("q", wait=30)
        assert (again.message.body, again.attempt) == ({"n": 1}, 2)
        again.dead_letter("enough")
        [claim] = hf.claim("t", group="g", wait=30)
        claim.ack()
        assert hf.stats("q").dead == 1
        assert not hf.claim("q")
    told = [record.getMessage() for record in caplog.records if record.name == "holdfast.postgres"]
    assert len(told) == 1
    assert UNKNOWN in told[0]


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("pooler", ["", "?pooler=transaction"])
def test_with_an_unknown_psycopg_the_server_keeps_the_time(postgres_url: str, pooler: str) -> None:
    with Holdfast(postgres_url + pooler, patience=1) as hf:
        hf.queue("q")
        hf.enqueue("q", 1)
        [held] = hf.claim("q")
        with locked(postgres_url):
            found = outcomes(
                [lambda: hf.enqueue("q", 2), lambda: hf.claim("q"), held.ack, lambda: hf.queues.pause("q")]
            )
        assert [type(problem) for problem in found] == [Unavailable] * 4
        held.ack()
        hf.enqueue("q", 3)
        assert hf.claim("q")


def test_an_unknown_psycopg_may_lack_what_is_private(postgres_url: str) -> None:
    program = f"""
import sys, psycopg
psycopg.__version__ = {UNKNOWN!r}
from holdfast import Holdfast
with Holdfast({postgres_url!r}) as hf:
    hf.enqueue("q", 1)
    hf.claim("q")[0].ack()
assert "holdfast.store.postgres.prepared" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LONGEST)
    assert done.returncode == 0, done.stderr


def test_a_known_psycopg_is_used_past_it(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    answer = Prepared._answer

    def note(self: Prepared, query: bytes, parameters: Any) -> Any:
        asked.append(query)
        return answer(self, query, parameters)

    monkeypatch.setattr(Prepared, "_answer", note)
    with Holdfast(postgres_url) as hf:
        hf.enqueue("q", 1)
    assert asked
    assert PostgresConnection.single is not PlainConnection.single
