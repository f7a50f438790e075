"""Messages found by what they carry, wherever they are."""

from typing import Any

import pytest

from holdfast import Holdfast, State
from holdfast.errors import InvalidInput
from tests.clock import FakeClock
from tests.steps import OpenClient

pytestmark = pytest.mark.of_queues


@pytest.fixture
def scattered(hf: Holdfast, clock: FakeClock) -> dict[State, str]:
    """One message in each state, all of one customer."""
    hf.queue("q", max_attempts=1)
    hf.queue("retry", backoff=[600])
    carried: dict[str, Any] = {"key": "ada", "correlation_id": "order-42", "headers": {"trace": "t1", "n": 1}}
    found = {}
    for state in (State.SUCCEEDED, State.DEAD, State.PROCESSING):
        found[state] = hf.enqueue("q", state.value, **carried).id
        (claim,) = hf.claim("q")
        if state is State.SUCCEEDED:
            claim.ack({"mail": 7})
        elif state is State.DEAD:
            claim.dead_letter("no such user")
    found[State.CANCELED] = hf.enqueue("q", "canceled", **carried).id
    hf.cancel(found[State.CANCELED])
    found[State.EXPIRED] = hf.enqueue("q", "expired", ttl=1, **carried).id
    clock.advance(1)
    hf.queues.sweep("q")
    found[State.PENDING] = hf.enqueue("q", "pending", **carried).id
    hf.enqueue_many("q", range(3), key="bob", headers={"trace": "t2"})
    hf.enqueue("q", "nothing at all")
    return found


@pytest.mark.parametrize(
    "wanted",
    [
        {"key": "ada"},
        {"correlation_id": "order-42"},
        {"headers": {"trace": "t1"}},
        {"headers": {"n": 1, "trace": "t1"}},
        {"key": "ada", "correlation_id": "order-42", "headers": {"n": 1}},
    ],
    ids=str,
)
def test_all_states_are_found(hf: Holdfast, scattered: dict[State, str], wanted: dict[str, Any]) -> None:
    found = hf.messages.search(**wanted)
    assert {one.state: one.id for one in found} == scattered
    assert [one.id for one in found] == sorted(scattered.values())
    assert [one.id for one in hf.messages.search("q", **wanted)] == [one.id for one in found]
    assert hf.messages.search("other", **wanted) == []


@pytest.mark.parametrize(
    "wanted",
    [
        {"key": "ad"},
        {"key": "ada", "correlation_id": "order-43"},
        {"key": "ada", "headers": {"trace": "t2"}},
        {"headers": {"trace": "t"}},
        {"headers": {"trace": "t1", "n": 2}},
        {"headers": {"n": None}},
    ],
    ids=str,
)
def test_nothing_else_is_found(hf: Holdfast, scattered: dict[State, str], wanted: dict[str, Any]) -> None:
    assert hf.messages.search(**wanted) == []


def test_a_header_inside_a_header_is_not_meant(hf: Holdfast) -> None:
    inside = {"outer": {"trace": "t1"}, "text": '"trace":"t1"'}
    hf.enqueue_many("q", range(5), headers=inside)
    meant = hf.enqueue("q", "meant", headers={"trace": "t1"}).id
    assert [one.id for one in hf.messages.search(headers={"trace": "t1"}, n=1)] == [meant]


def test_page_after_page(hf: Holdfast) -> None:
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(7), key="k")]
    ids += [receipt.id for receipt in hf.enqueue_many("q", range(3), key="k", delay=5)]
    found: list[str] = []
    while page := hf.messages.search(key="k", n=3, after=found[-1] if found else None):
        found += [one.id for one in page]
    assert found == ids


def test_what_was_replayed_is_found_twice(hf: Holdfast) -> None:
    first = hf.enqueue("q", "work", key="k").id
    (claim,) = hf.claim("q")
    claim.dead_letter("boom")
    second = hf.dead_letters.replay(hf.dead_letters.list()[0].id).id
    assert [(one.id, one.state) for one in hf.messages.search(key="k")] == [
        (first, State.DEAD),
        (second, State.PENDING),
    ]


def test_a_status_tells_what_happened(hf: Holdfast, scattered: dict[State, str], clock: FakeClock) -> None:
    told = {state: hf.status(message_id) for state, message_id in scattered.items()}
    for state, found in told.items():
        assert found is not None
        assert found.message is not None
        assert (found.message.body, found.message.key, found.state) == (state.value, "ada", state)
    working, dead, done = told[State.PROCESSING], told[State.DEAD], told[State.SUCCEEDED]
    assert working is not None
    assert dead is not None
    assert done is not None
    assert (working.worker, working.until_us) == ("anna", clock() - 1_000_000 + 30_000_000)
    assert [(one.attempt, one.worker, one.error) for one in dead.history] == [(1, "anna", "no such user")]
    assert dead.finished_at_us == clock() - 1_000_000
    assert done.result == {"mail": 7}


def test_a_status_tells_of_every_failed_attempt(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", backoff=[1])
    message_id = hf.enqueue("q", "work").id
    for error in ("first", "second"):
        hf.claim("q")[0].nack(error)
        clock.advance(1)
    found = hf.status(message_id)
    assert found is not None
    assert [(one.attempt, one.error) for one in found.history] == [(1, "first"), (2, "second")]
    assert (found.state, found.attempts, found.worker, found.until_us) == (State.PENDING, 2, None, None)
    (claim,) = hf.claim("q")
    held = hf.status(message_id)
    assert held is not None
    assert (held.state, held.worker, held.until_us) == (State.PROCESSING, "anna", claim.lease.until_us)


def test_tenants_are_apart(client: OpenClient, scattered: dict[State, str]) -> None:
    other = client(tenant="acme")
    assert other.messages.search(key="ada") == []
    assert [other.status(message_id) for message_id in scattered.values()] == [None] * 6


@pytest.mark.parametrize(
    "wanted",
    [{}, {"headers": {}}, {"key": 7}, {"key": "a\0"}, {"headers": [1]}, {"headers": {1: 1}}, {"key": "k", "n": 0}],
    ids=str,
)
def test_a_search_that_makes_no_sense_is_refused(hf: Holdfast, wanted: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        hf.messages.search(**wanted)
