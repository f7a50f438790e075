"""A group is put elsewhere in its topic, or past one message; no other group notices."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from holdfast import Holdfast, InvalidInput, LeaseLost, NotFound, UnknownGroup
from holdfast.client.async_client import AsyncHoldfast
from tests.clock import FakeClock
from tests.steps import OpenClient, bodies, drain
from tests.stores import TOPICS

pytestmark = pytest.mark.not_through_sqs(TOPICS)

EMAIL, AUDIT = "orders/email", "orders/audit"


@pytest.fixture(params=["unordered", "per_key"])
def log(hf: Holdfast, clock: FakeClock, request: pytest.FixtureRequest) -> list[str]:
    """a1 a2 b1 b2, a second apart, for a group that may be ordered and one that is not; the ids."""
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering=request.param, backoff=None, max_attempts=3)
    hf.subscribe("orders", "audit")
    return [publish(hf, clock, body) for body in ("a1", "a2", "b1", "b2")]


def publish(hf: Holdfast, clock: FakeClock, body: str, **options: object) -> str:
    """Its key is its first letter."""
    clock.advance(1)
    return hf.publish("orders", body, key=body[0], **options).id  # type: ignore[arg-type]


def everything(hf: Holdfast, group: str = EMAIL) -> list[str]:
    return sorted(drain(hf, group))


# --- seek -------------------------------------------------------------------------------------------------------------


def test_back_to_the_earliest(hf: Holdfast, log: list[str]) -> None:
    assert everything(hf) == ["a1", "a2", "b1", "b2"]
    hf.groups.seek("email", "earliest")
    assert everything(hf) == ["a1", "a2", "b1", "b2"]
    assert everything(hf) == []


def test_forward_to_the_latest(hf: Holdfast, clock: FakeClock, log: list[str]) -> None:
    hf.groups.seek("email", "latest")
    publish(hf, clock, "c1")
    assert everything(hf) == ["c1"]
    assert everything(hf, AUDIT) == ["a1", "a2", "b1", "b2", "c1"]


@pytest.mark.parametrize("read_first", [True, False])
def test_to_a_time(hf: Holdfast, clock: FakeClock, log: list[str], read_first: bool) -> None:
    if read_first:
        drain(hf, EMAIL)
    at = hf.status(log[2]).enqueued_at_us / 1_000_000
    for to in (at, datetime.fromtimestamp(at, UTC)):
        hf.groups.seek("email", to)
        assert everything(hf) == ["b1", "b2"]


@pytest.mark.parametrize("read_first", [True, False])
def test_to_a_message(hf: Holdfast, log: list[str], read_first: bool) -> None:
    if read_first:
        drain(hf, EMAIL)
    hf.groups.seek("email", log[1])
    assert everything(hf) == ["a2", "b1", "b2"]


def test_to_a_message_with_other_priorities(hf: Holdfast, clock: FakeClock, log: list[str]) -> None:
    publish(hf, clock, "x1", priority="high")
    place = publish(hf, clock, "y1")
    publish(hf, clock, "z1", priority="high")
    hf.groups.seek("email", place)
    assert everything(hf) == ["y1", "z1"]


def test_claims_that_are_held_are_lost(hf: Holdfast, rival: Holdfast, log: list[str]) -> None:
    held = hf.claim(EMAIL, n=10)
    rival.groups.seek("email", "earliest")
    again = rival.claim(EMAIL, n=10)
    assert bodies(again) == bodies(held)
    for claim in held:
        with pytest.raises(LeaseLost):
            claim.ack()
    rival.ack(again)


def test_a_retry_does_not_come_twice(hf: Holdfast, log: list[str]) -> None:
    [first] = hf.claim(EMAIL)
    first.nack()
    hf.groups.seek("email", "earliest")
    assert everything(hf) == ["a1", "a2", "b1", "b2"]


def test_before_the_place_everything_counts_as_done(hf: Holdfast, log: list[str]) -> None:
    [first] = hf.claim(EMAIL)
    first.nack()
    hf.groups.seek("email", log[3])
    assert everything(hf) == ["b2"]


def test_a_message_that_comes_again_has_all_its_attempts(hf: Holdfast, log: list[str]) -> None:
    for _ in range(2):
        [claim] = hf.claim(EMAIL)
        claim.nack()
    hf.groups.seek("email", "earliest")
    assert [claim.attempt for claim in hf.claim(EMAIL)] == [1]


def test_dead_letters_and_their_replays_stay(hf: Holdfast, log: list[str]) -> None:
    for _ in range(3):
        for claim in hf.claim(EMAIL, n=10):
            if claim.message.body == "a1":
                claim.nack()
            else:
                claim.release()
    [letter] = hf.dead_letters.list(EMAIL)
    hf.dead_letters.replay(letter.id)
    hf.groups.seek("email", "latest")
    assert everything(hf) == ["a1"]
    assert [one.replay_state for one in hf.dead_letters.list(EMAIL)] == ["succeeded"]


def test_blocked_keys_are_free(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", on_dead="block", max_attempts=1)
    publish(hf, clock, "a1")
    publish(hf, clock, "a2")
    hf.nack(hf.claim(EMAIL))
    hf.groups.seek("email", "earliest")
    assert (drain(hf, EMAIL), hf.queues.blocked(EMAIL)) == (["a1", "a2"], [])


def test_a_replay_that_waited_behind_its_key_is_not_forgotten(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key", max_attempts=1)
    for body in ("a1", "a2", "a3"):
        publish(hf, clock, body)
    hf.nack(hf.claim(EMAIL))
    [letter] = hf.dead_letters.list(EMAIL)
    hf.claim(EMAIL)
    hf.dead_letters.replay(letter.id)
    hf.groups.seek("email", "latest")
    assert drain(hf, EMAIL) == ["a1"]


def test_no_other_group_notices(hf: Holdfast, rival: Holdfast, log: list[str]) -> None:
    first, second = hf.claim(AUDIT, n=2)
    first.nack(delay=0)
    for place in ("earliest", "latest", log[2]):
        rival.groups.seek("email", place)
    second.ack()
    assert everything(hf, AUDIT) == ["a1", "b1", "b2"]


def test_a_seek_wakes_a_sleeping_member(client: OpenClient) -> None:
    hf = client(clock=None)
    hf.topic("orders")
    hf.subscribe("orders", "email")
    hf.publish("orders", "a1")
    assert drain(hf, EMAIL) == ["a1"]

    async def main() -> list[str]:
        waiting = asyncio.create_task(asyncio.to_thread(client(clock=None).claim, EMAIL, wait=20))
        await asyncio.to_thread(hf.groups.seek, "email", "earliest")
        return bodies(await waiting)

    assert asyncio.run(main()) == ["a1"]


def test_a_message_of_another_topic_is_no_place(hf: Holdfast, log: list[str]) -> None:
    hf.topic("others")
    strange = hf.publish("others", 1).id
    [held] = hf.claim(EMAIL)
    with pytest.raises(NotFound, match="not in this topic"):
        hf.groups.seek("email", strange)
    held.ack()
    assert everything(hf) == ["a2", "b1", "b2"], "nothing was forgotten"


def test_a_group_that_several_topics_have_is_named_with_its_topic(hf: Holdfast, log: list[str]) -> None:
    hf.topic("bills")
    hf.subscribe("bills", "email")
    with pytest.raises(InvalidInput, match="bills/email, orders/email"):
        hf.groups.seek("email", "latest")
    hf.groups.seek("email", "latest", topic="orders")
    assert everything(hf) == []


def test_a_group_that_nobody_has(hf: Holdfast, log: list[str]) -> None:
    for seek in (lambda: hf.groups.seek("sms", "latest"), lambda: hf.groups.seek("sms", "latest", topic="orders")):
        with pytest.raises(UnknownGroup, match="sms"):
            seek()
    with pytest.raises(UnknownGroup, match="sms"):
        hf.groups.skip("orders", "sms", log[0])


def test_the_audit_knows_who_moved_a_group(client: OpenClient, log: list[str]) -> None:
    hf = client(actor="mia")
    hf.groups.seek("email", "latest")
    hf.groups.seek("email", log[1])
    hf.groups.skip("orders", "email", log[2])
    lines = [(line.act, line.actor, line.queue, line.about) for line in hf.audit.list()]
    assert lines == [
        ("skip", "mia", EMAIL, {"id": log[2]}),
        ("seek", "mia", EMAIL, {"to": log[1]}),
        ("seek", "mia", EMAIL, {"to": "latest"}),
    ]


# --- skip -------------------------------------------------------------------------------------------------------------


def test_a_message_that_was_not_delivered_yet(hf: Holdfast, log: list[str]) -> None:
    assert hf.groups.skip("orders", "email", log[1])
    assert everything(hf) == ["a1", "b1", "b2"]
    assert everything(hf, AUDIT) == ["a1", "a2", "b1", "b2"]


def test_what_is_skipped_is_not_counted_nor_shown(hf: Holdfast, log: list[str]) -> None:
    hf.groups.skip("orders", "email", log[1])
    assert hf.stats(EMAIL).pending == 3
    assert [message.body for message in hf.queues.peek(EMAIL)] == ["a1", "b1", "b2"]
    assert hf.queues.purge(EMAIL) == 3
    hf.groups.seek("email", log[0])
    assert hf.stats(EMAIL).pending == 4


def test_the_first_the_last_and_all(hf: Holdfast, log: list[str]) -> None:
    for message_id in (log[0], log[3]):
        assert hf.groups.skip("orders", "email", message_id)
    assert bodies(hf.claim(EMAIL, n=1)) == ["a2"]
    hf.groups.skip("orders", "email", log[2])
    hf.groups.seek("email", "earliest")
    for message_id in log:
        assert hf.groups.skip("orders", "email", message_id)
    assert everything(hf) == []


def test_a_run_with_a_skipped_member_can_be_acked_whole(hf: Holdfast, log: list[str]) -> None:
    hf.groups.skip("orders", "email", log[1])
    hf.ack(hf.claim(EMAIL, n=10))
    hf.ack(hf.claim(EMAIL, n=10))
    assert everything(hf) == []


def test_a_message_that_waits_for_another_attempt(hf: Holdfast, clock: FakeClock, log: list[str]) -> None:
    [first] = hf.claim(EMAIL)
    first.nack(delay=60)
    assert hf.groups.skip("orders", "email", log[0])
    assert everything(hf) == ["a2", "b1", "b2"]
    clock.advance(61)
    assert everything(hf) == []


def test_a_claim_of_a_skipped_message_is_lost(hf: Holdfast, rival: Holdfast, log: list[str]) -> None:
    held = {claim.message.body: claim for claim in hf.claim(EMAIL, n=10)}
    assert rival.groups.skip("orders", "email", log[0])
    with pytest.raises(LeaseLost):
        held.pop("a1").ack()
    for claim in held.values():
        claim.ack()
    assert everything(rival) == sorted({"a2", "b1", "b2"} - held.keys())


def test_the_next_of_its_key_may_go(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", ordering="per_key")
    ids = [publish(hf, clock, body) for body in ("a1", "a2", "a3")]
    hf.claim(EMAIL)
    assert hf.groups.skip("orders", "email", ids[1])
    assert hf.groups.skip("orders", "email", ids[0])
    assert drain(hf, EMAIL) == ["a3"]


def test_what_is_not_owed_cannot_be_skipped(hf: Holdfast, clock: FakeClock, log: list[str]) -> None:
    hf.topic("others")
    hf.subscribe("others", "email")
    [first] = hf.claim(EMAIL)
    first.ack()
    hf.groups.skip("orders", "email", log[1])
    strange = hf.publish("others", 1).id
    missing = "00000000-0000-7000-8000-000000000000"
    for message_id in (log[0], log[1], strange, missing):
        assert not hf.groups.skip("orders", "email", message_id)
    assert drain(hf, "others/email") == [1]


def test_what_the_group_does_not_want_is_not_owed(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email", patterns="orders.paid")
    unwanted = hf.publish("orders.created", 1).id
    assert not hf.groups.skip("orders", "email", unwanted)
    wanted = [hf.publish("orders.paid", n).id for n in (2, 3)]
    assert hf.groups.skip("orders", "email", wanted[0])
    assert drain(hf, EMAIL) == [3]


def test_what_it_holds_can_be_skipped_though_it_wants_it_no_more(hf: Holdfast) -> None:
    hf.topic("orders")
    hf.subscribe("orders", "email")
    ids = [hf.publish("orders.created", n).id for n in (1, 2)]
    [first, second] = hf.claim(EMAIL, n=2)
    hf.subscribe("orders", "email", patterns="orders.paid")
    assert hf.groups.skip("orders", "email", ids[0])
    assert not hf.groups.skip("orders", "email", ids[0])
    with pytest.raises(LeaseLost):
        first.ack()
    second.ack()


def test_a_seek_makes_skips_void(hf: Holdfast, log: list[str]) -> None:
    hf.groups.skip("orders", "email", log[1])
    hf.groups.seek("email", "earliest")
    assert everything(hf) == ["a1", "a2", "b1", "b2"]


def test_a_group_that_comes_back_has_forgotten_its_skips_and_blocks(hf: Holdfast, clock: FakeClock) -> None:
    hf.topic("orders")
    settings = {"ordering": "per_key", "on_dead": "block", "max_attempts": 1}
    hf.subscribe("orders", "email", **settings)
    ids = [publish(hf, clock, body) for body in ("a1", "a2", "b1")]
    hf.nack(hf.claim(EMAIL))
    hf.groups.skip("orders", "email", ids[2])
    hf.groups.remove("orders", "email")
    hf.subscribe("orders", "email", start="earliest", **settings)
    assert everything(hf) == ["a1", "a2", "b1"]


def test_the_asyncio_client_can_do_it_too(hf: Holdfast, url: str, log: list[str]) -> None:
    async def main() -> bool:
        async with AsyncHoldfast(url) as client:
            await client.groups.seek("email", "latest", topic="orders")
            await client.groups.seek("email", "earliest")
            return await client.groups.skip("orders", "email", log[0])

    assert asyncio.run(main())
    assert everything(hf) == ["a2", "b1", "b2"]
