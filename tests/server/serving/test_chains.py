"""Messages of a spec's queues and groups that are sent on to another queue, by the consumers that the spec makes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast import Holdfast, State
from holdfast.server.serving.declare import declare_staff, has_staff
from holdfast.spec.apply import apply
from holdfast.spec.check import check_reading
from holdfast.spec.reading import read_text
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

SPEC = """app Shop {
  queue orders {
    message_type { id: int, to: json }
    empty: terminate
    delivery { max_attempts: 2, backoff: none }
    %s
    map_to: queue mails { order: id, to: to, subject: "Order " + string(id) }
  }
  topic news {
    group mail { empty: terminate, map_to: queue mails { order: body.id, to: coalesce(key, ""), subject: topic } }
  }
  queue mails {
    message_type { order: int, to: string, subject: string? }
    %s
  }
  %s
}"""


@pytest.fixture
def hf(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as client:
        yield client


def staffed(hf: Holdfast, *, orders: str = "", mails: str = "", more: str = "") -> None:
    reading = read_text(SPEC % (orders, mails, more))
    assert reading.spec is not None
    assert check_reading(reading) == []
    apply(hf, reading.spec)
    assert has_staff(hf, reading.spec)
    declare_staff(hf, reading.spec)


def run_until_dead(hf: Holdfast) -> None:
    """A consumer that ends when its queue is empty may end between two attempts."""
    eventually(lambda: hf.dead_letters.list() or hf.run(), "a message is dead")


@pytest.mark.parametrize("more", ["", "consumer all { queues: [orders, news/mail] }"])
def test_each_message_makes_one_of_the_next_queue(hf: Holdfast, more: str) -> None:
    staffed(hf, more=more)
    first = hf.enqueue("orders", {"id": 1, "to": "ada"}, key="k", priority="high", correlation_id="c")
    hf.publish("news.eu", {"id": 2}, key="bob")
    hf.run()
    found = {claim.message.body["order"]: claim.message for claim in hf.claim("mails", n=9)}
    assert [found[number].body for number in (1, 2)] == [
        {"order": 1, "to": "ada", "subject": "Order 1"},
        {"order": 2, "to": "bob", "subject": "news.eu"},
    ]
    sent = found[1]
    assert (sent.key, sent.priority, sent.correlation_id) == ("k", 1, "c")
    assert hf.status(first.id).state == State.SUCCEEDED


def test_what_does_not_fit_the_next_queue_is_dead_and_nothing_is_sent(hf: Holdfast) -> None:
    staffed(hf)
    hf.enqueue("orders", {"id": 1, "to": 5})
    hf.run()
    [dead] = hf.dead_letters.list()
    assert (dead.queue, dead.attempts) == ("orders", 1)
    assert "to" in dead.error
    assert hf.stats("mails").pending == 0


def test_a_message_is_done_only_if_the_next_one_is_stored(hf: Holdfast) -> None:
    staffed(hf, mails="retention { max_depth: 1 }")
    for number in (1, 2):
        hf.enqueue("orders", {"id": number, "to": "ada"})
    run_until_dead(hf)
    assert hf.stats("mails").pending == 1
    [dead] = hf.dead_letters.list()
    assert (dead.queue, dead.attempts) == ("orders", 2)
    assert "mails" in dead.error


def test_nothing_is_sent_by_an_attempt_that_fails_after_it(hf: Holdfast) -> None:
    staffed(hf, orders='commitment "never" { check: "false" }')
    hf.enqueue("orders", {"id": 1, "to": "ada"})
    run_until_dead(hf)
    [dead] = hf.dead_letters.list()
    assert (dead.queue, dead.attempts) == ("orders", 2)
    assert hf.stats("mails").pending == 0
