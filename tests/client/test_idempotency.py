"""Enqueueing once: the same key leads to the same message, whoever is first."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import Holdfast, IdempotencyConflict, InvalidInput, State
from holdfast.client.client import internals
from holdfast.client.compose import EnqueueOptions
from holdfast.core.message import DeliveryKey
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, claim_one, drain
from tests.stores import TOPICS

pytestmark = pytest.mark.of_queues

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
    hf.queues.sweep("q")
    assert hf.enqueue("q", "work", idempotency_key="k").duplicate


WINDOW = 3600


def ack(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    claim_one(hf).ack()


def ack_later(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    claim_one(hf).nack("not now", delay=WINDOW / 8)
    clock.advance(WINDOW / 8)
    claim_one(hf).ack()


def ack_one_of_a_run(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    hf.enqueue("q", "another")
    claims = hf.claim("q", n=2)
    next(claim for claim in claims if claim.message.id == message_id).ack()


def bury(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    claim_one(hf).dead_letter("no")


def cancel(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    assert hf.cancel(message_id)


def expire(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    clock.advance(WINDOW)
    hf.queues.sweep("q")
    assert hf.queues.peek("q") == []


def purge(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    assert hf.queues.purge("q") == 1


def replay(hf: Holdfast, clock: FakeClock, message_id: str) -> None:
    """The end of the last replay counts."""
    for _ in range(2):
        claim_one(hf).dead_letter("no")
        [dead] = [one for one in hf.dead_letters.list("q") if one.replayed_as is None]
        hf.dead_letters.replay(dead.id)
        pass_windows(hf, clock, 2)
    claim_one(hf).ack()


ENDS = pytest.mark.parametrize("end", [ack, ack_later, ack_one_of_a_run, bury, cancel, expire, purge, replay])


def pass_windows(hf: Holdfast, clock: FakeClock, windows: float) -> None:
    """As time goes by where someone maintains the queue."""
    for _ in range(round(windows * 16)):
        clock.advance(WINDOW / 16)
        hf.queues.sweep("q")


@ENDS
@KINDS
@pytest.mark.parametrize("history", [0, 60, WINDOW * 50], ids=["forgotten", "history", "long history"])
def test_the_window_starts_at_the_end_of_the_message(
    hf: Holdfast, clock: FakeClock, options: dict[str, object], end: Callable[..., None], history: float
) -> None:
    """However long it had waited: never early, and at most a quarter of the wait or of the window late."""
    settings: dict[str, object] = {"max_age": WINDOW * 4} if end is expire else {}
    hf.queue("q", idempotency_window=WINDOW, history=history, lease=WINDOW * 50, **settings)
    first = hf.enqueue("q", "work", idempotency_key="k", **options)
    pass_windows(hf, clock, 3)
    assert hf.enqueue("q", "work", idempotency_key="k", **options).id == first.id, "it is still waiting"
    end(hf, clock, first.id)
    clock.advance(WINDOW / 2)
    hf.queues.sweep("q")
    clock.advance(WINDOW / 2 - 0.001)
    assert hf.enqueue("q", "work", idempotency_key="k", **options).duplicate
    pass_windows(hf, clock, 1.75 if end is replay else 1)
    again = hf.enqueue("q", "other work", idempotency_key="k", **options)
    assert not again.duplicate
    assert hf.enqueue("q", "other work", idempotency_key="k", **options).id == again.id


def test_the_key_of_a_message_that_waits_for_longer_than_the_window(hf: Holdfast, clock: FakeClock) -> None:
    first = hf.enqueue("q", "work", delay="48h", idempotency_key="k")
    for _ in range(48):
        assert hf.enqueue("q", "work", delay="48h", idempotency_key="k").id == first.id
        clock.advance(3600)
        hf.queues.sweep("q")
    assert drain(hf) == ["work"]


def test_the_key_of_a_message_that_is_worked_on_for_longer_than_the_window(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window=WINDOW, lease=WINDOW * 9)
    first = hf.enqueue("q", "work", idempotency_key="k")
    hf.enqueue("q", "neighbour")
    claims = hf.claim("q", n=2)
    claims[1].ack()
    pass_windows(hf, clock, 8)
    assert hf.enqueue("q", "work", idempotency_key="k").id == first.id


def test_without_a_sweep_the_next_enqueue_looks(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window=WINDOW)
    first = hf.enqueue("q", "work", idempotency_key="k")
    hf.cancel(first.id)
    clock.advance(WINDOW - 0.001)
    assert hf.enqueue("q", "work", idempotency_key="k").duplicate
    clock.advance(0.001)
    assert not hf.enqueue("q", "work", idempotency_key="k").duplicate


@pytest.mark.not_through_sqs(TOPICS)
def test_a_topic_remembers_a_key_as_long_as_it_keeps_the_message(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", idempotency_window=60, retention="1h", min_retention=0)
    hf.subscribe("t", group="slow")
    first = hf.publish("t", "news", idempotency_key="k")
    for _ in range(10):
        clock.advance(60)
        hf.maintain()
        assert hf.publish("t", "news", idempotency_key="k").id == first.id
    hf.ack(hf.claim("t", group="slow"))
    hf.maintain()
    clock.advance(59.999)
    assert hf.publish("t", "news", idempotency_key="k").id == first.id
    for _ in range(16):
        clock.advance(15)
        hf.maintain()
    assert not hf.publish("t", "news", idempotency_key="k").duplicate


@pytest.mark.not_through_sqs(TOPICS)
def test_a_topic_remembers_a_key_while_a_group_replays_the_message(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("t", idempotency_window=60, min_retention=0)
    hf.subscribe("t", group="g")
    first = hf.publish("t", "news", idempotency_key="k")
    for _ in range(2):
        hf.claim("t", group="g")[0].dead_letter("no")
        [dead] = [one for one in hf.dead_letters.list("t/g") if one.replayed_as is None]
        hf.dead_letters.replay(dead.id)
        for _ in range(10):
            clock.advance(60)
            hf.maintain()
        assert hf.publish("t", "news", idempotency_key="k").id == first.id


def test_outdated_keys_are_swept(hf: Holdfast, clock: FakeClock) -> None:
    """First a look that finds their messages gone, then, a window later, the keys go."""
    hf.queue("q", idempotency_window=12, history=0)
    hf.enqueue_many("q", range(150), idempotency_key=str)
    hf.ack(hf.claim("q", n=200))
    clock.advance(2.9)
    assert hf.queues.sweep("q") == 0
    clock.advance(0.1)
    assert [hf.queues.sweep("q") for _ in range(3)] == [100, 50, 0]
    clock.advance(11.9)
    assert hf.queues.sweep("q") == 0
    clock.advance(0.1)
    assert [hf.queues.sweep("q") for _ in range(3)] == [100, 50, 0]


def test_a_result_lasts_as_long_as_the_key(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window=WINDOW, history=0)
    hf.enqueue("q", "work", delay=WINDOW * 5, idempotency_key="k")
    pass_windows(hf, clock, 5)
    claim_one(hf).ack(result="done")
    for _ in range(40):
        again = hf.enqueue("q", "work", delay=WINDOW * 5, idempotency_key="k")
        if not again.duplicate:
            return
        assert again.result == "done"
        pass_windows(hf, clock, 1 / 16)
    raise AssertionError("the key is never forgotten")


@KINDS
def test_a_duplicate_comes_with_the_result(hf: Holdfast, clock: FakeClock, options: dict[str, object]) -> None:
    hf.enqueue("q", "work", idempotency_key="k", **options)
    assert hf.enqueue("q", "work", idempotency_key="k", **options).result is None
    clock.advance(1)
    claim_one(hf).ack(result={"sum": 42})
    clock.advance(4000)
    hf.queues.sweep("q")
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
        hf.queues.list()
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
    new = internals(hf).producer.draft(
        internals(hf).catalog.channel("q"), ["work"], EnqueueOptions(idempotency_key="k")
    )
    assert internals(hf).store.messages.insert(new) == [None]
    assert drain(hf) == ["work"]
    assert internals(hf).store.messages.insert(new) == [None]
    assert drain(hf) == []


def test_the_key_of_a_delivery_does_not_look_at_the_body(hf: Holdfast) -> None:
    first = hf.enqueue("q", {"received_at": 1}, idempotency_key=DeliveryKey("hook:1", b"a" * 16))
    second = hf.enqueue("q", {"received_at": 2}, idempotency_key=DeliveryKey("hook:1", b"a" * 16))
    assert (second.duplicate, second.id) == (True, first.id)
    with pytest.raises(IdempotencyConflict):
        hf.enqueue("q", {"received_at": 1}, idempotency_key="hook:1")


def test_a_key_can_be_looked_up_as_long_as_it_is_remembered(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window=60)
    channel = internals(hf).catalog.channel("q")
    assert internals(hf).store.reads.known(channel, "a") is None
    receipt = hf.enqueue("q", 1, idempotency_key="a")
    known = internals(hf).store.reads.known(channel, "a")
    assert known is not None
    assert (known.id, known.result) == (receipt.raw_id, None)
    claim_one(hf, "q").ack({"done": 1})
    known = internals(hf).store.reads.known(channel, "a")
    assert known is not None
    assert known.result == b'{"done":1}'
    clock.advance(15)
    hf.queues.sweep("q")
    clock.advance(44.999)
    assert internals(hf).store.reads.known(channel, "a") is not None
    clock.advance(15.001)
    assert internals(hf).store.reads.known(channel, "a") is None


def test_a_lookup_sees_the_end_of_a_message_before_a_sweep_does(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", idempotency_window=60)
    hf.cancel(hf.enqueue("q", 1, idempotency_key="a").id)
    clock.advance(59.999)
    assert internals(hf).store.reads.known(internals(hf).catalog.channel("q"), "a") is not None
    clock.advance(0.001)
    assert internals(hf).store.reads.known(internals(hf).catalog.channel("q"), "a") is None
