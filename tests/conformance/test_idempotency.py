"""Enqueueing once: the same key leads to the same message, whoever is first."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, IdempotencyConflict, InvalidInput, State
from holdfast.core.message import DeliveryKey
from tests.clock import FakeClock
from tests.conformance.steps import OpenClient, bodies, claim_one, drain

KINDS = pytest.mark.parametrize("options", [{}, {"delay": 1}], ids=["in a lane", "as a row"])


@KINDS
def test_the_same_key_is_the_same_message(hf: Holdfast, rival: Holdfast, options: dict[str, object]) -> None:
    first = hf.enqueue("q", {"to": "ada"}, idempotency_key="welcome-42", **options)
    second = rival.enqueue("q", {"to": "ada"}, idempotency_key="welcome-42", **options)
    assert (first.duplicate, second.duplicate, second.id) == (False, True, first.id)
    assert hf.stats("q").pending + hf.stats("q").waiting == 1


def test_another_key_another_queue_and_another_tenant_are_others(hf: Holdfast, client: OpenClient) -> None:
    acme = client(tenant="acme")
    receipts = [
        hf.enqueue("q", 1, idempotency_key="a"),
        hf.enqueue("q", 1, idempotency_key="b"),
        hf.enqueue("p", 1, idempotency_key="a"),
        acme.enqueue("q", 1, idempotency_key="a"),
    ]
    assert not any(receipt.duplicate for receipt in receipts)
    assert len({receipt.id for receipt in receipts}) == 4


def test_another_body_under_the_same_key_is_refused(hf: Holdfast) -> None:
    hf.enqueue("q", {"amount": 1}, idempotency_key="pay-1")
    with pytest.raises(IdempotencyConflict, match="'pay-1' was used before for another body"):
        hf.enqueue("q", {"amount": 2}, idempotency_key="pay-1")
    assert hf.stats("q").pending == 1


@pytest.mark.parametrize("end", ["ack", "dead_letter", "cancel"])
def test_the_key_is_remembered_after_the_end(hf: Holdfast, clock: FakeClock, end: str) -> None:
    hf.queue("q", history=0)
    first = hf.enqueue("q", "work", idempotency_key="k")
    if end == "cancel":
        hf.cancel(first.id)
    else:
        getattr(claim_one(hf), end)(*(["no"] if end == "dead_letter" else []))
    clock.advance(24 * 3600 - 1)
    hf.sweep("q")
    assert hf.enqueue("q", "work", idempotency_key="k").duplicate


def test_after_the_window_the_key_is_free_again(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window="1h")
    first = hf.enqueue("q", "work", idempotency_key="k")
    clock.advance(3600)
    second = hf.enqueue("q", "other work", idempotency_key="k")
    assert not second.duplicate
    assert second.id != first.id
    assert hf.enqueue("q", "other work", idempotency_key="k").id == second.id


def test_outdated_keys_are_swept(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window=10, history=0)
    hf.enqueue_many("q", range(150), idempotency_key=str)
    hf.ack(hf.claim("q", n=200))
    clock.advance(10)
    assert [hf.sweep("q") for _ in range(3)] == [100, 50, 0]


@KINDS
def test_a_duplicate_comes_with_the_result(hf: Holdfast, clock: FakeClock, options: dict[str, object]) -> None:
    hf.enqueue("q", "work", idempotency_key="k", **options)
    assert hf.enqueue("q", "work", idempotency_key="k", **options).result is None
    clock.advance(1)
    claim_one(hf).ack(result={"sum": 42})
    clock.advance(4000)
    hf.sweep("q")
    again = hf.enqueue("q", "work", idempotency_key="k", **options)
    assert (again.duplicate, again.result) == (True, {"sum": 42})


@KINDS
def test_a_result_can_be_looked_up(hf: Holdfast, clock: FakeClock, options: dict[str, object]) -> None:
    ids = [receipt.id for receipt in hf.enqueue_many("q", range(3), **options)]
    clock.advance(1)
    first, *others = hf.claim("q", n=3)
    first.ack(result=[0])
    hf.ack(others, result="both")
    found = [hf.status(message_id) for message_id in ids]
    assert [status and (status.state, status.result) for status in found] == [
        (State.SUCCEEDED, [0]),
        (State.SUCCEEDED, "both"),
        (State.SUCCEEDED, "both"),
    ]


def test_a_lost_claim_leaves_no_result(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    receipt = hf.enqueue("q", "work")
    old = claim_one(hf)
    clock.advance(31)
    new = claim_one(rival)
    with pytest.raises(Exception, match="no longer yours"):
        old.ack(result="old")
    new.ack(result="new")
    status = hf.status(receipt.id)
    assert status is not None
    assert status.result == "new"


def test_of_a_batch_the_known_ones_are_left_out(hf: Holdfast) -> None:
    known = hf.enqueue("q", 2, idempotency_key="2")
    receipts = hf.enqueue_many("q", [1, 2, 3, 3], idempotency_key=str)
    assert [receipt.duplicate for receipt in receipts] == [False, True, False, True]
    assert receipts[1].id == known.id
    assert receipts[3].id == receipts[2].id
    assert drain(hf) == [2, 1, 3]


def test_a_function_may_leave_some_without_a_key(hf: Holdfast) -> None:
    receipts = hf.enqueue_many("q", [1, 1], idempotency_key=lambda body: None)
    assert [receipt.duplicate for receipt in receipts] == [False, False]


def test_one_key_for_many_is_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="lambda body"):
        hf.enqueue_many("q", [1, 2], idempotency_key="k")


def test_a_batch_that_fails_leaves_no_key_behind(hf: Holdfast) -> None:
    """P14: whoever lost the race may still win it when the winner is rolled back."""
    hf.enqueue("q", "taken", idempotency_key="b")
    with pytest.raises(IdempotencyConflict):
        hf.enqueue_many("q", ["a", "b"], idempotency_key=str)
    assert not hf.enqueue("q", "a", idempotency_key="a").duplicate
    assert bodies(hf.claim("q", n=10)) == ["taken", "a"]


@pytest.mark.parametrize("key", ["", "x" * 500, "é😀 'quoted' %s :key"])
def test_any_text_is_a_key(hf: Holdfast, key: str) -> None:
    hf.enqueue("q", 1, idempotency_key=key)
    assert hf.enqueue("q", 1, idempotency_key=key).duplicate


@pytest.mark.parametrize("key", ["x" * 501, "a\0", "\ud800", 7])
def test_what_is_no_text_is_refused(hf: Holdfast, key: object) -> None:
    with pytest.raises(InvalidInput, match="idempotency_key"):
        hf.enqueue("q", 1, idempotency_key=key)


def test_racing_callers_get_one_message(client: OpenClient) -> None:
    clients = [client() for _ in range(4)]
    for hf in clients:
        hf.queues()
    with ThreadPoolExecutor(16) as pool:
        calls = [
            pool.submit(hf.enqueue, "q", number % 25, idempotency_key=str(number % 25))
            for number in range(100)
            for hf in clients
        ]
        receipts = [call.result() for call in calls]
    assert len({receipt.id for receipt in receipts}) == 25
    assert sum(not receipt.duplicate for receipt in receipts) == 25
    assert clients[0].stats("q").pending == 25


def test_rivals_with_many_keys_in_any_order_do_not_block_each_other(client: OpenClient) -> None:
    clients = [client(), client()]
    orders = [list(range(50)), list(range(49, -1, -1))]
    with ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(hf.enqueue_many, "q", [f"{turn}-{n}" for n in order], idempotency_key=str)
            for turn in range(10)
            for hf, order in zip(clients, orders, strict=True)
        ]
        for call in calls:
            call.result()
    assert clients[0].stats("q").pending == 500


def test_a_try_whose_answer_got_lost_is_not_stored_again(hf: Holdfast) -> None:
    """Even if the message was worked on and forgotten in the meantime."""
    hf.queue("q", history=0)
    new = hf._draft(hf._book.channel("q"), ["work"], (2, None, 0, None, None, None, None, "k"))
    assert hf.store.messages.insert(new) == [None]
    assert drain(hf) == ["work"]
    assert hf.store.messages.insert(new) == [None]
    assert drain(hf) == []


def test_the_key_of_a_delivery_does_not_look_at_the_body(hf: Holdfast) -> None:
    first = hf.enqueue("q", {"received_at": 1}, idempotency_key=DeliveryKey("hook:1", b"a" * 16))
    second = hf.enqueue("q", {"received_at": 2}, idempotency_key=DeliveryKey("hook:1", b"a" * 16))
    assert (second.duplicate, second.id) == (True, first.id)
    with pytest.raises(IdempotencyConflict):
        hf.enqueue("q", {"received_at": 1}, idempotency_key="hook:1")


def test_a_key_can_be_looked_up_as_long_as_it_is_remembered(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window=60)
    channel = hf._book.channel("q")
    assert hf.store.reads.known(channel, "a") is None
    receipt = hf.enqueue("q", 1, idempotency_key="a")
    known = hf.store.reads.known(channel, "a")
    assert known is not None
    assert (known.id, known.result) == (receipt.raw_id, None)
    claim_one(hf, "q").ack({"done": 1})
    known = hf.store.reads.known(channel, "a")
    assert known is not None
    assert known.result == b'{"done":1}'
    clock.advance(60)
    assert hf.store.reads.known(channel, "a") is None
