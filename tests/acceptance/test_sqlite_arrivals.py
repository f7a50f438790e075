"""SQLite: what most enqueues do is one statement, and whatever it cannot do is done step by step."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import Holdfast, StoreFull
from holdfast.client.client import internals
from holdfast.client.compose import EnqueueOptions
from holdfast.errors import Unavailable

ARRIVAL = "INSERT INTO temp.holdfast_arrival"


@pytest.fixture
def hf(sqlite_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{sqlite_path}", patience=0.2) as client:
        client.queue("q", max_size=20_000_000)
        client.enqueue("q", "first")
        client.queues.purge("q")
        yield client


@contextmanager
def noted(hf: Holdfast) -> Iterator[list[str]]:
    """The statements of the connection that writes."""
    seen: list[str] = []

    def note(_: object, sql: str, __: object) -> bool:
        seen.append(sql)
        return True

    driver = internals(hf).store.database._writer.driver  # type: ignore[attr-defined]
    driver.exec_trace = note
    yield seen
    driver.exec_trace = None


def bodies(hf: Holdfast) -> list[Any]:
    return [claim.message.body for claim in hf.claim("q", n=1_000)]


def test_an_enqueue_is_one_statement(hf: Holdfast) -> None:
    with noted(hf) as seen:
        hf.enqueue("q", 1)
        hf.enqueue("q", 2, idempotency_key="a")
        hf.enqueue_many("q", [3, {"4": "ä"}, [5]])
        hf.enqueue_many("q", [6, 7], idempotency_key=str)
    assert [sql[: len(ARRIVAL)] for sql in seen] == [ARRIVAL] * 4
    assert bodies(hf) == [1, 2, 3, {"4": "ä"}, [5], 6, 7]


@pytest.mark.parametrize(
    ("body", "options"),
    [
        (1, {"key": "k"}),
        (1, {"headers": {"a": 1}}),
        (1, {"delay": 60}),
        (1, {"ttl": 60}),
        ("x" * 17_000_000, {}),
    ],
)
def test_what_has_more_than_a_body_is_stored_step_by_step(hf: Holdfast, body: Any, options: dict[str, Any]) -> None:
    with noted(hf) as seen:
        receipt = hf.enqueue("q", body, **options)
    assert seen[0] == "BEGIN IMMEDIATE"
    status = hf.status(receipt.id)
    assert status is not None
    assert status.state == "pending"


def test_a_known_key_is_looked_at_more_closely(hf: Holdfast) -> None:
    first = hf.enqueue("q", 1, idempotency_key="1")
    with noted(hf) as seen:
        receipts = hf.enqueue_many("q", [0, 1, 2], idempotency_key=str)
    assert [sql[: len(ARRIVAL)] for sql in seen[:2]] == [ARRIVAL, "BEGIN IMMEDIATE"]
    assert [receipt.duplicate for receipt in receipts] == [False, True, False]
    assert receipts[1].id == first.id
    assert bodies(hf) == [1, 0, 2], "what the statement had done before it failed is undone"


@pytest.mark.parametrize("keys", [(None, "k"), ("k", None)])
def test_messages_with_and_without_keys_may_come_together(hf: Holdfast, keys: tuple[str | None, str | None]) -> None:
    """As those of two callers do."""
    channel = internals(hf).catalog.channel("q")
    new = [
        message
        for key in keys
        for message in internals(hf).producer.draft(channel, [1], EnqueueOptions(idempotency_key=key))
    ]
    assert internals(hf).store.messages.insert(new) == [None, None]
    assert hf.enqueue("q", 1, idempotency_key="k").duplicate
    assert bodies(hf) == [1, 1]


def test_two_of_one_key_are_one(hf: Holdfast) -> None:
    receipts = hf.enqueue_many("q", [1, 1], idempotency_key=str)
    assert [receipt.duplicate for receipt in receipts] == [False, True]
    assert bodies(hf) == [1]


def test_who_waits_for_the_lock_gets_it_or_hears_why_not(hf: Holdfast, sqlite_path: Path) -> None:
    rival = apsw.Connection(str(sqlite_path))
    rival.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="stayed locked"):
        hf.enqueue("q", 1)
    rival.execute("ROLLBACK")
    rival.close()
    hf.enqueue("q", 2)
    assert bodies(hf) == [2]


def test_a_full_disk_leaves_nothing_behind(hf: Holdfast) -> None:
    internals(hf).store.faults.fill(True)
    with pytest.raises(StoreFull):
        hf.enqueue_many("q", ["x" * 1_000_000] * 10)
    internals(hf).store.faults.fill(False)
    hf.enqueue("q", 1)
    assert bodies(hf) == [1]
