"""What only the namespaces of the client have: the same by another way, and what had no verb before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Holdfast, UnknownGroup, UnknownQueue, UnknownTopic
from holdfast.client.client import internals
from tests.steps import OpenClient, bodies, run_of
from tests.stores import NO_QUEUE

pytestmark = pytest.mark.not_through_sqs(NO_QUEUE)


def test_a_message_is_looked_up_and_cancelled_on_the_client_and_on_its_noun(hf: Holdfast) -> None:
    first, second = hf.enqueue("q", 1).id, hf.enqueue("q", 2).id
    assert hf.messages.get(first) == hf.status(first)
    assert (hf.messages.cancel(first), hf.cancel(first), hf.cancel(second)) == (True, False, True)
    assert hf.messages.get(first) == hf.status(first)
    assert hf.stats("q").pending == 0


def test_a_group_is_paused_by_its_names_as_by_its_address(two: Holdfast) -> None:
    two.publish_many("t", range(3))
    two.groups.pause("t", "a")
    assert (two.queues.is_paused("t/a"), two.queues.is_paused("t/b")) == (True, False)
    assert (two.claim("t/a"), bodies(two.claim("t/b", n=5))) == ([], [0, 1, 2])
    two.groups.resume("t", "a")
    assert bodies(two.claim("t/a", n=5)) == [0, 1, 2]
    assert [(one.act, one.queue) for one in two.audit.list()] == [("resume", "t/a"), ("pause", "t/a")]


@pytest.mark.parametrize("verb", ["pause", "resume", "settings"])
def test_a_group_that_is_none_has_no_verbs(two: Holdfast, verb: str) -> None:
    with pytest.raises(UnknownGroup):
        getattr(two.groups, verb)("t", "c")


def test_settings_are_those_of_the_noun(two: Holdfast) -> None:
    two.topic("t", retention="7d")
    two.subscribe("t", "a", lease="2m")
    two.queue("q", lease="3m")
    assert two.topics.settings("t")["retention"] == 7 * 86_400
    assert two.groups.settings("t", "a") == two.queues.settings("t/a")
    assert (two.groups.settings("t", "a")["lease"], two.queues.settings("q")["lease"]) == (120, 180)
    with pytest.raises(UnknownTopic, match=r"hf\.topic\('nowhere'\)"):
        two.topics.settings("nowhere")
    with pytest.raises(UnknownQueue):
        two.queues.settings("nowhere")


def test_a_topic_that_is_a_queue_has_the_settings_of_one(hf: Holdfast) -> None:
    hf.topic("jobs", mode="queue", lease="2m")
    assert hf.topics.settings("jobs")["lease"] == 120


def test_a_schedule_is_found_by_its_name(hf: Holdfast) -> None:
    hf.schedule("a", queue="q", every="1h")
    hf.schedule("b", queue="q", every="2h")
    assert hf.schedules.get("b") == hf.schedules.list()[1]
    assert hf.schedules.get("c") is None


def test_two_clients_of_one_database_share_what_is_stored_only(client: OpenClient) -> None:
    """A namespace has no state of its own, and that of `acting_as` is of the new client."""
    one = client(actor="anna")
    other = one.acting_as("ben", tenant="acme")
    run_of(one, 2)
    assert (other.queues.list(), other.settings.tenant, other.actor) == ([], "acme", "ben")
    assert internals(other).store is internals(one).store
    assert internals(other).transport is internals(one).transport
    assert internals(other).starts is internals(one).starts
    assert internals(other).catalog is not internals(one).catalog
    assert internals(one.acting_as("ben")).catalog is internals(one).catalog


def test_all_of_it_is_awaited(url: str) -> None:
    async def main() -> list[Any]:
        async with AsyncHoldfast(url) as hf:
            await hf.topic("t")
            await hf.subscribe("t", "a", lease="2m")
            await hf.groups.pause("t", "a")
            receipt = await hf.publish("t", 1)
            paused = await hf.claim("t/a")
            await hf.groups.resume("t", "a")
            [claim] = await hf.claim("t/a")
            await claim.ack()
            found = await hf.messages.search(key="nobody's")
            lists = [await hf.topics.list(), await hf.pools.list(), await hf.schedules.get("s"), hf.commands.list()]
            return [
                paused,
                claim.message.id == receipt.id,
                found,
                (await hf.groups.settings("t", "a"))["lease"],
                *lists,
            ]

    assert asyncio.run(main()) == [[], True, [], 120, ["t"], [], None, []]
