"""Feeding on PostgreSQL beside transactions that are not committed yet."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast import Claim, Holdfast
from holdfast.client.client import internals
from tests.acceptance.sessions import is_waiting
from tests.waiting import eventually

EMAIL = "orders/email"


@pytest.fixture
def hf(postgres_url: str, connect: Callable[..., Holdfast]) -> Holdfast:
    hf = connect(postgres_url)
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key")
    return hf


def publish(hf: Holdfast, *bodies: str) -> None:
    hf.publish_many("orders", bodies, key=lambda body: body[0])


def bodies(claims: list[Claim]) -> list[str]:
    return [claim.message.body for claim in claims]


def test_an_arrival_and_the_end_of_the_head_do_not_miss_each_other(hf: Holdfast, postgres_url: str) -> None:
    """While an ack is not committed, nobody can say whether the next of its key is the head."""
    publish(hf, "a1")
    [a1] = hf.claim(EMAIL)
    with psycopg.connect(postgres_url) as conn:
        a1.ack(conn=conn)
        publish(hf, "b1", "a2", "c1")
        assert bodies(hf.claim(EMAIL, n=10)) == ["b1"], "what is before it comes at once"
    assert bodies(hf.claim(EMAIL, n=10)) == ["a2", "c1"]


def test_two_that_feed_at_once_take_turns(hf: Holdfast, postgres_url: str) -> None:
    publish(hf, "a1", "a2", "b1")
    group = internals(hf).store.channels.find("default", EMAIL)
    assert group is not None
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(postgres_url) as first:
            fed = first.execute(
                "SELECT copied FROM holdfast_feed(%s, %s, 200, holdfast_now(NULL), false, 200, false, 10000, NULL)",
                [group.group, group.lane(2)],
            )
            assert fed.fetchall() == [(3,)]
            second = pool.submit(hf.claim, EMAIL, n=10)
            eventually(lambda: is_waiting(postgres_url), "the second one waits")
        assert bodies(second.result()) == ["a1", "b1"]
