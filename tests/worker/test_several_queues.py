"""A consumer of several queues: whose turn it is, what is attached while it runs, and what it must be able to do."""

import threading
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput, Message
from holdfast.worker.context import Context
from tests.waiting import eventually, spend
from tests.worker.steps import PATIENCE, Calls

pytestmark = [pytest.mark.of_queues, pytest.mark.above_the_stores]

Connect = Callable[..., Holdfast]


def order_of(hf: Holdfast, queues: dict[str, int], seconds: float = 0.0, **options: Any) -> list[str]:
    """The queues of all messages, in the order in which a consumer has them."""
    seen = Calls()

    @hf.consumer(*queues, **options)
    def handler(message: Message, context: Context) -> None:
        seen.note(context.queue)
        if seconds:
            spend(seconds)

    for queue, count in queues.items():
        hf.enqueue_many(queue, range(count))
    with hf.running():
        return seen.wait(sum(queues.values()))


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers tell of themselves without delay."""
    monkeypatch.setattr("holdfast.worker.heartbeat.BEAT_EVERY", 0.05)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No queue is passed by because SQS is slow: shares can be counted exactly."""
    monkeypatch.setattr("holdfast.sqs.receiver.ANSWERED", PATIENCE)
    monkeypatch.setattr("holdfast.sqs.messages.SOON", 20.0)


@pytest.fixture
def one_by_one(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is claimed ahead."""
    monkeypatch.setattr("holdfast.worker.pace.MOST_AHEAD", 0)


SECONDS = pytest.mark.parametrize("seconds", [0.0, 0.001, 0.01])
"""What a handler takes: of quick ones, hundreds of messages are claimed ahead."""


@SECONDS
@pytest.mark.usefixtures("patient")
def test_round_robin_gives_every_queue_its_turn(hf: Holdfast, seconds: float) -> None:
    count = 60 if seconds else 400
    order = order_of(hf, {"a": count, "b": count, "c": count}, seconds)
    for start in range(0, 3 * count, 3):
        assert sorted(order[start : start + 3]) == ["a", "b", "c"]


@SECONDS
@pytest.mark.usefixtures("patient")
def test_weights_hold_within_every_cycle(hf: Holdfast, seconds: float) -> None:
    count = 30 if seconds else 300
    order = order_of(hf, {"a": 3 * count, "b": count}, seconds, policy="weighted", weights={"a": 3})
    for start in range(0, 4 * count, 4):
        assert Counter(order[start : start + 4]) == {"a": 3, "b": 1}


@pytest.mark.usefixtures("patient")
def test_turns_hold_if_handlers_become_slow_and_messages_are_handed_back(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many lie ready when a handler takes its time; they go back for others, and are claimed again."""
    monkeypatch.setattr("holdfast.worker.worker.HOARDED", 0.1)
    seen, slow, gone = Calls(), threading.Event(), threading.Event()

    @hf.consumer("a", "b", name="handler")
    def handler(message: Message, context: Context) -> None:
        seen.note(context.queue)
        if len(seen.seen) == 301:
            slow.set()
            gone.wait(PATIENCE)

    for queue in ("a", "b"):
        hf.enqueue_many(queue, range(500))
    with hf.running() as runner:
        assert slow.wait(PATIENCE)
        eventually(lambda: not len(runner.workers[0].shelf), "they are handed back")
        gone.set()
        order = seen.wait(1000)
    for start in range(0, 1000, 2):
        assert sorted(order[start : start + 2]) == ["a", "b"]


def test_a_queue_that_gets_work_has_every_second_turn_from_then_on(hf: Holdfast) -> None:
    """It was empty when the others were claimed ahead."""
    seen, begun = Calls(), threading.Event()

    @hf.consumer("a", "b", name="handler")
    def handler(message: Message, context: Context) -> None:
        seen.note(context.queue)
        if context.queue == "a" and len(seen.seen) == 500:
            hf.enqueue_many("b", range(200))
            begun.set()

    hf.enqueue_many("a", range(3000))
    with hf.running():
        assert begun.wait(PATIENCE)
        order = seen.wait(3200)
    first = order.index("b")
    assert set(order[first : first + 400 : 2]) == {"b"}
    assert set(order[first + 1 : first + 400 : 2]) == {"a"}


@pytest.mark.usefixtures("one_by_one")
def test_strict_finishes_the_first_queue_first(hf: Holdfast) -> None:
    assert order_of(hf, {"a": 100, "b": 100}, policy="strict") == ["a"] * 100 + ["b"] * 100


@pytest.mark.usefixtures("patient")
def test_random_draws_for_every_message(hf: Holdfast) -> None:
    order = order_of(hf, {"a": 300, "b": 300}, policy="random")[:300]
    assert 90 <= Counter(order)["a"] <= 210
    changes = sum(one != other for one, other in pairwise(order))
    assert 90 <= changes <= 210, "as often as not"


@pytest.mark.parametrize("policy", ["round_robin", "weighted"])
def test_a_small_queue_beside_a_long_one_does_not_starve(hf: Holdfast, policy: str) -> None:
    """With as much claimed ahead as the pace allows: every second claim begins with it, and the first are short."""
    order = order_of(hf, {"long": 3000, "small": 5}, policy=policy)
    assert max(place for place, queue in enumerate(order) if queue == "small") < 50


# --- while it runs ----------------------------------------------------------------------------------------------------


def declare(hf: Holdfast, *queues: str, **options: Any) -> Calls:
    seen = Calls()

    @hf.consumer(*queues, name="handler", **options)
    def handler(message: Message, context: Context) -> None:
        seen.note((context.queue, message.body))

    return seen


def test_queues_are_attached_and_detached_while_it_runs(hf: Holdfast, connect: Connect) -> None:
    other, seen = connect(), declare(hf, "a")
    other.enqueue("b", 1)
    with hf.running() as runner:
        other.enqueue("a", 1)
        assert seen.wait(1) == [("a", 1)]
        other.consumers.attach("handler", "b")
        assert seen.wait(2)[1:] == [("b", 1)]
        other.consumers.detach("handler", "a")
        assert queues_seen(hf) == ["b"]
        eventually(lambda: runner.workers[0].attachments.queues == ["b"], "it has noticed")
        other.enqueue("a", 2)
        other.enqueue("b", 2)
        assert seen.wait(3)[2:] == [("b", 2)]
    assert hf.stats("a").pending == 1


def queues_seen(hf: Holdfast) -> list[str]:
    return [queue for one in hf.consumers.list() for queue in one.queues]


@pytest.mark.usefixtures("one_by_one")
def test_an_attached_weight_is_a_share(hf: Holdfast) -> None:
    """Of a consumer whose code knows no weights."""
    hf.queue("a")
    hf.consumers.attach("handler", "a", weight=3)
    order = order_of(hf, {"a": 90, "b": 30}, name="handler")
    assert 74 <= Counter(order[:100])["a"] <= 76


def test_what_was_attached_outlives_a_restart(hf: Holdfast, connect: Connect) -> None:
    declare(hf, "a")
    with hf.running():
        hf.consumers.attach("handler", "b")
        hf.consumers.detach("handler", "a")
    again = connect()
    seen = declare(again, "a")
    again.enqueue("a", 1)
    again.enqueue("b", 1)
    with again.running():
        assert seen.wait(1) == [("b", 1)]
    assert again.stats("a").pending == 1


@pytest.mark.parametrize("queues", [["a"], []], ids=["one", "none"])
def test_a_hibernating_consumer_is_woken_by_an_attachment(hf: Holdfast, connect: Connect, queues: list[str]) -> None:
    other = connect()
    seen = declare(hf, *queues, empty="hibernate" if queues else None)
    other.enqueue("b", 1)
    with hf.running() as runner:
        eventually(lambda: runner.workers[0].state == "hibernating")
        other.consumers.attach("handler", "b")
        assert seen.wait(1) == [("b", 1)]


# --- labels -----------------------------------------------------------------------------------------------------------


def test_who_lacks_a_label_does_not_start(hf: Holdfast) -> None:
    hf.queue("gpu", requires={"gpu": "yes"})
    declare(hf, "gpu", labels={"gpu": "no"})
    with pytest.raises(InvalidInput, match="requires gpu=yes"), hf.running():
        pass


def test_a_queue_that_requires_more_is_left_alone(hf: Holdfast, connect: Connect) -> None:
    """Attached later, to a consumer that lacks the label; one that has it takes the message."""
    hf.queue("gpu", requires={"gpu": "yes"})
    seen = declare(hf, "a")
    hf.enqueue("gpu", 1)
    with hf.running() as runner:
        hf.consumers.attach("handler", "gpu")
        eventually(lambda: "gpu" in runner.workers[0].attachments.queues, "it has noticed")
        hf.enqueue("a", 1)
        assert seen.wait(1) == [("a", 1)]
        assert hf.stats("gpu").pending == 1
        other = connect()
        able = declare(other, "a", labels={"gpu": "yes"})
        with other.running():
            assert able.wait(1) == [("gpu", 1)]
            eventually(lambda: sorted(queues_seen(hf)) == ["a", "a", "gpu"], "only who takes from it is seen to")
    assert seen.seen == [("a", 1)]


def test_a_label_that_is_required_later_counts(hf: Holdfast) -> None:
    seen = declare(hf, "a", "b")
    with hf.running():
        hf.enqueue("b", 1)
        seen.wait(1)
        hf.queue("a", requires={"gpu": "yes"})
        hf.enqueue("b", 2)
        seen.wait(2)  # A claim that was on its way then does not count.
        hf.enqueue("a", 1)
        hf.enqueue("b", 3)
        assert seen.wait(3)[2] == ("b", 3)
        eventually(lambda: queues_seen(hf) == ["b"], "what it leaves alone is not told as one of its queues")
    assert seen.seen == [("b", 1), ("b", 2), ("b", 3)]
