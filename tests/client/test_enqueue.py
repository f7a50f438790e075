"""Messages on their way in."""

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast import Holdfast, InvalidInput
from holdfast.client.client import internals
from holdfast.client.compose import EnqueueOptions
from holdfast.core.message import encode_json
from tests.clock import FakeClock
from tests.steps import bodies, claim_one, drain

pytestmark = [pytest.mark.both_engines, pytest.mark.of_queues]

BODIES = [
    None,
    True,
    0,
    -1,
    2**63,
    2**64 - 1,
    -(2**63),
    0.1,
    1e300,
    "",
    "plain",
    "Grüße, 東京, مرحبا",
    "🐙👩‍👩‍👧‍👦",
    "NUL \x00 inside",
    "\x01\x1f\x7f\u2028\ufffe",
    "quote ' double \" back \\ slash / $$ :name ? %s {}",
    [],
    {},
    {"": ""},
    [[], [[]], {"a": {"b": [None, {"c": "d"}]}}],
    {"NUL \x00 key": 1, "ключ": 2},
    "x" * 1_000_000,
]


def test_an_enqueued_message_can_be_claimed_by_another_client(hf: Holdfast, rival: Holdfast) -> None:
    receipt = hf.enqueue("q", {"to": "a@b.c"})
    claim = claim_one(rival)
    assert claim.message.id == receipt.id
    assert claim.message.body == {"to": "a@b.c"}
    assert claim.attempt == 1
    assert receipt.duplicate is False


def test_every_message_has_an_id_of_its_own(hf: Holdfast) -> None:
    receipts = [hf.enqueue("q", 1), hf.enqueue("q", 1), *hf.enqueue_many("q", [1] * 98)]
    assert len({receipt.id for receipt in receipts}) == 100


def test_a_message_knows_when_it_was_enqueued(hf: Holdfast, clock: FakeClock) -> None:
    enqueued_at = clock()
    hf.enqueue("q", "lane")
    hf.enqueue("q", "row", delay=5)
    clock.advance(10)
    assert {claim.message.enqueued_at_us for claim in hf.claim("q", n=2)} == {enqueued_at}


@pytest.mark.parametrize("delay", [0, 1])
def test_bodies_come_back_byte_for_byte(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.enqueue_many("q", BODIES, delay=delay)
    clock.advance(delay)
    messages = [claim.message for claim in hf.claim("q", n=100)]
    assert [message.raw_body for message in messages] == [encode_json(body) for body in BODIES]
    assert [message.body for message in messages] == BODIES


def test_a_body_survives_the_way_from_the_lane_into_a_row(hf: Holdfast) -> None:
    hf.enqueue("q", BODIES, headers={"n": "\x00🐙"}, key="k 🐙", correlation_id="c 🐙")
    claim_one(hf).nack("again", delay=0)
    message = claim_one(hf).message
    assert message.raw_body == encode_json(BODIES)
    assert (message.headers, message.key, message.correlation_id) == ({"n": "\x00🐙"}, "k 🐙", "c 🐙")


@pytest.mark.parametrize("delay", [0, 1])
def test_headers_key_and_correlation_id_come_back(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    headers = {"trace": "00-ab", "n": 1, "nested": {"a": [None, "\x00"]}, "": "🐙"}
    hf.enqueue("q", 1, headers=headers, key="Kunde ' 7", correlation_id="c-1 ✓", delay=delay)
    clock.advance(delay)
    message = claim_one(hf).message
    assert message.headers == headers
    assert message.key == "Kunde ' 7"
    assert message.correlation_id == "c-1 ✓"


@pytest.mark.parametrize("delay", [0, 1])
def test_what_was_not_given_stays_empty(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    hf.enqueue("q", 1, delay=delay)
    clock.advance(delay)
    message = claim_one(hf).message
    assert (message.headers, message.key, message.correlation_id, message.priority) == ({}, None, None, 2)


def test_an_empty_key_is_not_the_same_as_none(hf: Holdfast) -> None:
    hf.enqueue("q", 1, key="", correlation_id="")
    message = claim_one(hf).message
    assert (message.key, message.correlation_id) == ("", "")


@pytest.mark.not_through_sqs("five hundred by one claim, which has twenty seconds for it: on a busy machine too few")
def test_many_are_stored_in_their_order(hf: Holdfast) -> None:
    receipts = hf.enqueue_many("q", range(500), headers={"h": 1}, key="k", correlation_id="c")
    claims = hf.claim("q", n=500)
    assert bodies(claims) == list(range(500))
    assert [claim.message.id for claim in claims] == [receipt.id for receipt in receipts]
    assert {(claim.message.headers["h"], claim.message.key) for claim in claims} == {(1, "k")}


@pytest.mark.not_through_sqs("ten thousand messages, by tens, through an emulator that takes 7 ms a call")
def test_many_can_be_more_than_a_statement_has_room_for_and_nobody_sees_a_part_of_them(
    hf: Holdfast, rival: Holdfast
) -> None:
    seen, stored = {0}, threading.Event()

    def watch() -> None:
        while not stored.is_set():
            seen.add(rival.stats("q").pending)

    with ThreadPoolExecutor(1) as threads:
        watching = threads.submit(watch)
        hf.enqueue_many("q", range(12_000))
        stored.set()
        watching.result(30)
    assert seen <= {0, 12_000}
    assert bodies(hf.claim("q", n=20_000)) == list(range(12_000))


def test_many_delayed_ones_are_stored_in_their_order(hf: Holdfast, clock: FakeClock) -> None:
    hf.enqueue_many("q", range(50), delay=1)
    assert hf.claim("q", n=100) == []
    clock.advance(1)
    assert bodies(hf.claim("q", n=100)) == list(range(50))


def test_none_are_as_good_as_nothing(hf: Holdfast) -> None:
    assert hf.enqueue_many("q", []) == []
    assert hf.claim("q") == []


def test_many_are_stored_all_or_none(hf: Holdfast) -> None:
    with pytest.raises(InvalidInput):
        hf.enqueue_many("q", [1, 2, object(), 4])
    assert hf.stats("q").pending == 0


def test_a_source_that_breaks_off_stores_nothing(hf: Holdfast) -> None:
    def source() -> Iterator[int]:
        yield 1
        raise RuntimeError("the file ended")

    with pytest.raises(RuntimeError, match="the file ended"):
        hf.enqueue_many("q", source())
    assert hf.stats("q").pending == 0


def test_oldest_come_first(hf: Holdfast, rival: Holdfast) -> None:
    for number in range(10):
        (hf if number % 2 else rival).enqueue("q", number)
    assert drain(hf) == list(range(10))


@pytest.mark.parametrize("delay", [0, 1])
def test_a_message_has_the_priority_it_was_given(hf: Holdfast, clock: FakeClock, delay: int) -> None:
    for priority in ("urgent", 0, "high", 1, "normal", 2, "low", 3):
        hf.enqueue("q", priority, priority=priority, delay=delay)
    clock.advance(delay)
    assert [(claim.message.body, claim.message.priority) for claim in hf.claim("q", n=10)] == [
        ("urgent", 0),
        (0, 0),
        ("high", 1),
        (1, 1),
        ("normal", 2),
        (2, 2),
        ("low", 3),
        (3, 3),
    ]


@pytest.mark.parametrize("delay", [10, "250ms", 0.001])
def test_a_delayed_message_is_due_at_its_time_and_not_before(
    hf: Holdfast, clock: FakeClock, delay: float | str
) -> None:
    hf.enqueue("q", "later", delay=delay)
    due_at = hf.status(hf.enqueue("other", 1, delay=delay).id).due_at_us
    clock.now = due_at - 1
    assert hf.claim("q") == []
    clock.now = due_at
    assert bodies(hf.claim("q")) == ["later"]


def test_a_delay_is_counted_in_microseconds(hf: Holdfast, clock: FakeClock) -> None:
    receipt = hf.enqueue("q", 1, delay=1.000_001)
    assert hf.status(receipt.id).due_at_us == clock() + 1_000_001


def test_delayed_messages_come_in_the_order_of_their_times(hf: Holdfast, clock: FakeClock) -> None:
    for delay in (30, 10, 20):
        hf.enqueue("q", delay, delay=delay)
    clock.advance(60)
    assert drain(hf) == [10, 20, 30]


def test_a_delay_does_not_hold_up_the_others(hf: Holdfast) -> None:
    hf.enqueue("q", "later", delay=60)
    hf.enqueue("q", "now")
    assert bodies(hf.claim("q", n=10)) == ["now"]


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("body", [object(), "\ud800", {"\udfff": 1}, math.nan, [math.inf]]),
        ("priority", [4, -1, "asap", None, True, 2.0]),
        ("delay", [-1, "soon", math.nan, None, 10**12]),
        ("headers", [{1: 2}, [1], [], "", "text", {"a": object()}, {"a": "\ud800"}, {"a": math.nan}]),
        ("key", [5, b"bytes", "\ud800", "a\x00b"]),
        ("correlation_id", [5, b"bytes", "\ud800", "a\x00b"]),
    ],
    ids=["body", "priority", "delay", "headers", "key", "correlation_id"],
)
def test_bad_input_is_refused_and_the_store_works_on(hf: Holdfast, name: str, refused: list[Any]) -> None:
    for value in refused:
        with pytest.raises(InvalidInput):
            hf.enqueue("q", **{"body": 1, name: value})
        with pytest.raises(InvalidInput):
            hf.enqueue("q", **{"body": 1, "delay": 1, name: value})
    hf.enqueue("q", "good")
    assert drain(hf) == ["good"]


@pytest.mark.parametrize("ordering", ["unordered", "per_key"])
def test_a_very_long_key_either_works_or_is_refused(hf: Holdfast, ordering: str) -> None:
    key = "".join(f"{number * 7919 % 65_536:04x}" for number in range(4_000))
    hf.queue("q", ordering=ordering)
    try:
        hf.enqueue("q", "long key", key=key)
    except InvalidInput:
        assert hf.claim("q") == []
    else:
        assert claim_one(hf).message.key == key


def test_a_body_that_was_changed_after_enqueue_is_stored_as_it_was(hf: Holdfast) -> None:
    body = {"n": 1}
    hf.enqueue("q", body)
    body["n"] = 2
    assert drain(hf) == [{"n": 1}]


def test_messages_of_several_priorities_are_stored_together_each_in_its_own(hf: Holdfast) -> None:
    """As when several threads enqueue at the same moment."""
    hf.enqueue("q", "first")
    options = {"low": "late", 0: "urgent", "normal": "usual"}
    new = [
        one
        for level, body in options.items()
        for one in internals(hf).producer.drafted("q", [body], EnqueueOptions(priority=level))
    ]
    assert internals(hf).transport.messages.insert(new) == [None] * 3
    assert bodies(hf.claim("q", n=10)) == ["urgent", "first", "usual", "late"]
