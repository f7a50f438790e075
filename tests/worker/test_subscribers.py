"""Subscribers: handlers of what a group of a topic gets, with everything that consumers have."""

import threading
import time
from collections.abc import Callable

import pytest

from holdfast import Cancel, DeadLetter, GroupCanceled, Holdfast, InvalidInput, Message, NotFound, Retry, Snooze
from holdfast.client.client import internals
from holdfast.store.api import Channel
from holdfast.worker.context import Context
from tests.clock import FakeClock
from tests.stores import TOPICS
from tests.topics.publishing import die, done, retain
from tests.waiting import LONGEST, eventually
from tests.worker.steps import Calls

pytestmark = [pytest.mark.not_through_sqs(TOPICS), pytest.mark.above_the_stores]


def test_each_group_gets_what_it_wants(hf: Holdfast) -> None:
    hf.topic("orders")
    emails, everything = Calls(), Calls()

    @hf.subscriber("orders.*.created", group="email")
    def email(message: Message) -> None:
        emails.note((message.topic, message.body))

    @hf.subscriber(topic="orders", group="audit", concurrency=2)
    async def audit(message: Message) -> None:
        everything.note(message.body)

    with hf.running():
        hf.publish("orders.eu.created", 1)
        hf.publish("orders.eu.gone", 2)
        hf.publish("orders.us.created", 3)
        assert emails.wait(2) == [("orders.eu.created", 1), ("orders.us.created", 3)]
        assert sorted(everything.wait(3)) == [1, 2, 3]


def test_middleware_is_around_the_handlers_of_its_group(hf: Holdfast) -> None:
    hf.topic("orders")
    calls = Calls()

    @hf.around_execute
    def all_of_them(context: Context, proceed: Callable[[], object]) -> object:
        calls.note(("all", context.queue))
        return proceed()

    def own(context: Context, proceed: Callable[[], object]) -> object:
        calls.note(("own", context.queue))
        raise DeadLetter("not for us")

    @hf.subscriber("orders.**", group="email", middleware=[own])
    def email(message: Message) -> None:
        calls.note(("handler", "email"))

    @hf.subscriber("orders.**", group="audit")
    def audit(message: Message) -> None:
        calls.note(("handler", "audit"))

    with hf.running():
        hf.publish("orders.new", 1)
        calls.wait(4)
        [letter] = eventually(lambda: hf.dead_letters.list("orders/email"))
    expected = [("all", "orders/email"), ("own", "orders/email"), ("all", "orders/audit"), ("handler", "audit")]
    assert sorted(calls.seen) == sorted(expected)
    assert letter.error == "not for us"


def test_a_failure_is_a_matter_of_one_group(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "shaky", max_attempts=2, backoff=0)
    shaky, steady = Calls(), Calls()

    @hf.subscriber("orders.**", group="shaky")
    def fails(message: Message, context: Context) -> None:
        shaky.note((message.body, context.attempt))
        raise Retry(0, reason="not today")

    @hf.subscriber("orders.**", group="steady")
    def works(message: Message, context: Context) -> None:
        steady.note((message.body, context.attempt))

    with hf.running():
        hf.publish("orders", "a")
        assert shaky.wait(2) == [("a", 1), ("a", 2)]
        assert steady.wait(1) == [("a", 1)]
        [letter] = eventually(lambda: hf.dead_letters.list("orders/shaky"))
    assert (letter.message.body, letter.message.topic, letter.attempts) == ("a", "orders", 2)
    assert hf.dead_letters.list("orders/steady") == []
    assert steady.seen == [("a", 1)]


def test_every_outcome_is_a_matter_of_one_group(hf: Holdfast) -> None:
    hf.topic("orders")
    shaky, steady = Calls(), Calls()
    outcomes = {"snooze": Snooze(0.01), "cancel": Cancel("nobody wants it"), "bury": DeadLetter("no such order")}

    @hf.subscriber("orders.**", group="shaky")
    def ends_in_many_ways(message: Message, context: Context) -> None:
        shaky.note((message.body, context.attempt))
        if message.body != "snooze" or len([one for one in shaky.seen if one[0] == "snooze"]) == 1:
            raise outcomes[message.body]

    @hf.subscriber("orders.**", group="steady")
    def works(message: Message) -> None:
        steady.note(message.body)

    with hf.running():
        sent = {body: hf.publish("orders", body).id for body in outcomes}
        assert sorted(shaky.wait(4)) == [("bury", 1), ("cancel", 1), ("snooze", 1), ("snooze", 1)], "a snooze is no try"
        assert sorted(steady.wait(3)) == sorted(outcomes)
        [letter] = eventually(lambda: hf.dead_letters.list("orders/shaky"))
        eventually(lambda: not any(one.lag or one.in_flight for one in hf.groups.list("orders")))
    assert (letter.message.id, letter.error) == (sent["bury"], "no such order")
    assert hf.dead_letters.list("orders/steady") == []


def test_a_group_goes_on_where_it_was_with_the_settings_it_had(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "slow", max_attempts=7, start="earliest")
    hf.publish("orders.a", 1)
    seen = Calls()

    @hf.subscriber("orders.a", "orders.b", group="slow")
    def handle(message: Message, context: Context) -> None:
        seen.note((message.topic, context.max_attempts))

    with hf.running():
        hf.publish_many("orders.c", range(3))
        hf.publish("orders.b", 2)
        assert seen.wait(2) == [("orders.a", 7), ("orders.b", 7)]


def test_what_cannot_be_subscribed_to_is_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput, match="topic='orders'"):
        hf.subscriber(group="email")
    with pytest.raises(InvalidInput, match="does not begin with 'orders'"):
        hf.subscriber("orders.a", "invoices.b", group="email")

    @hf.subscriber("nowhere.*", group="email")
    def handle(message: Message) -> None: ...

    with pytest.raises(NotFound, match=r"hf\.topic\('nowhere'\)"), hf.running():
        pass


@pytest.fixture
def losing(connect: Callable[..., Holdfast], hf: Holdfast) -> Holdfast:
    """t/b was dead, and has lost a message; nobody has decided about that."""
    clock = FakeClock(time.time_ns() // 1_000)
    other = connect(clock=clock)
    other.topic("t", min_retention=0)
    other.subscribe("t", "a")
    other.subscribe("t", "b", timeout=60)
    other.publish("t", "lost")
    done(other, "a")
    die(other, clock)
    assert retain(other) == 1
    return hf


def beats(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Those of this client, as they come."""
    seen, beat = Calls(), internals(hf).groups.beat

    def noted(channel: Channel) -> int:
        seen.note(channel.name)
        return beat(channel)

    monkeypatch.setattr(internals(hf).groups, "beat", noted)
    return seen


def test_a_group_that_has_lost_something_rests_alone(losing: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    for rest in ("worker.LONGEST_REST", "attachments.REST"):
        monkeypatch.setattr(f"holdfast.worker.{rest}", 3_600.0)
    seen, worked = beats(losing, monkeypatch), Calls()

    @losing.consumer("t/b", "jobs")
    def both(message: Message) -> None:
        worked.note(message.body)

    @losing.consumer("t/b")
    def alone(message: Message) -> None:
        worked.note(message.body)

    with losing.running():
        seen.wait(2)
        for job in range(10):
            losing.enqueue("jobs", job)
            assert worked.wait(job + 1)[-1] == job
    assert seen.seen == ["t/b", "t/b"], "each has asked once, and rests from this group alone"


def test_once_someone_has_decided_its_members_go_on(losing: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.attachments.REST", 0.05)
    seen, worked = beats(losing, monkeypatch), Calls()

    @losing.consumer("t/b")
    def alone(message: Message) -> None:
        worked.note(message.body)

    with losing.running():
        seen.wait(2)
        losing.publish("t", "next")
        assert losing.groups.accept_loss("t", "b") == 1
        assert worked.wait(1) == ["next"]


@pytest.mark.parametrize("end", ["cancel", "remove"])
def test_who_has_no_group_any_more_stops(hf: Holdfast, end: str) -> None:
    hf.topic("orders")
    hf.queue("jobs", empty="poll")
    worked, begun, goes_on = Calls(), threading.Event(), threading.Event()

    @hf.subscriber("orders.**", group="email")
    def email(message: Message) -> None:
        begun.set()
        goes_on.wait(LONGEST)

    @hf.consumer("orders/email", "jobs")
    def both(message: Message) -> None:
        worked.note(message.body)

    runner = hf.running(email)
    with runner:
        hf.publish("orders.a", "in hand")
        eventually(begun.is_set)
        with hf.running(both):  # Who has never seen the group takes it for one that is yet to come.
            hf.enqueue("jobs", "before")
            eventually(lambda: "before" in worked.seen)
            getattr(hf.groups, end)("orders", "email")
            goes_on.set()
            assert runner.wait(100), "it has nothing else to read"
            hf.enqueue("jobs", "still here")
            eventually(lambda: "still here" in worked.seen)
    assert [group.state for group in hf.groups.list("orders")] == ["canceled"] * (end == "cancel")


def test_who_is_started_after_the_end_is_told(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email")
    hf.groups.cancel("orders", "email")

    @hf.subscriber("orders.**", group="email")
    def email(message: Message) -> None: ...

    with pytest.raises(GroupCanceled, match="which is final"):
        hf.running(email).start()
