"""Rows that another transaction holds for a moment, on PostgreSQL: they are neither waited for by locks nor taken for
something that cannot be had."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.sqs.fake_sqs import FakeSQS
from tests.sqs.steps import Seen, hand_over

pytestmark = [pytest.mark.on_postgres, pytest.mark.above_the_stores]

MINUTE = 60_000_000


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody gives up before the other's transaction has ended, however slow the machine is."""
    monkeypatch.setattr("holdfast.sqs.messages.HELD_FOR", 60.0)


@pytest.fixture
def hf(postgres_url: str, sqs: FakeSQS) -> Iterator[Holdfast]:
    with Holdfast(postgres_url, delivery="sqs", sqs_create=True) as hf:
        yield hf


@pytest.fixture
def other(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Who is in the middle of a transaction: one that hands over, say, or notes what SQS has confirmed."""
    with psycopg.connect(postgres_url) as other:
        yield other


def hold(other: psycopg.Connection[Any], state: str = "enqueued") -> None:
    other.execute("SELECT 1 FROM holdfast_row WHERE state = %s FOR UPDATE", [state])


def test_what_another_is_handing_over_is_on_its_way(hf: Holdfast, other: psycopg.Connection[Any]) -> None:
    hf.enqueue("q", 1)
    hold(other, "pending")
    handed = internals(hf).store.deliveries.hand_over(internals(hf).catalog.channel("q"), 10, MINUTE)
    assert (handed.pointers, handed.is_out, handed.is_coming) == ([], True, True)


def end_before_second_claim(hf: Holdfast, other: psycopg.Connection[Any]) -> list[None]:
    """The other's transaction ends after somebody has come with a pointer, in vain. How often anybody came."""
    claim, times = internals(hf).store.deliveries.claim, list[None]()

    def counted(*given: Any) -> Any:
        times.append(None)
        if len(times) > 1:
            other.rollback()
        return claim(*given)

    internals(hf).store.deliveries.claim = counted  # type: ignore[method-assign]
    return times


def test_what_another_holds_for_a_moment_is_claimed_by_hand(hf: Holdfast, other: psycopg.Connection[Any]) -> None:
    hf.enqueue("q", 1)
    hand_over(hf)
    hold(other)
    times = end_before_second_claim(hf, other)
    assert [claim.message.body for claim in hf.claim("q")] == [1]
    assert len(times) == 2


def test_a_consumer_does_not_leave_it_for_another_queue(hf: Holdfast, other: psycopg.Connection[Any]) -> None:
    for queue in ("first", "second"):
        hf.enqueue(queue, queue)
    hand_over(hf, "first")
    hold(other)
    end_before_second_claim(hf, other)
    seen = Seen()
    hf.consumer("first", "second", policy="strict")(seen.note)
    with hf.running():
        seen.wait(2)
    assert seen.bodies == ["first", "second"]


def test_what_another_holds_for_long_is_given_back(
    hf: Holdfast, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sqs.messages.HELD_FOR", 0.05)
    hf.enqueue("q", 1)
    hand_over(hf)
    hold(other)
    assert hf.claim("q") == []
    other.rollback()
    assert [claim.message.body for claim in hf.claim("q")] == [1]
