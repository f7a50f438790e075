"""A client in another name, or for another tenant, over the same connections; and whose name stands in the audit."""

import asyncio

import pytest

from holdfast import AsyncHoldfast, Holdfast
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, kill

pytestmark = pytest.mark.of_queues


def acts(hf: Holdfast) -> list[tuple[str, str, str | None, int]]:
    return [(line.actor, line.act, line.queue, line.count) for line in reversed(hf.audit.list())]


def test_the_audit_names_who_acted(client: OpenClient) -> None:
    hf = client(actor="anna")
    hf.queue("q")
    hf.enqueue_many("q", range(3))
    hf.acting_as("ben").queues.pause("q")
    hf.queues.resume("q")
    hf.acting_as("cleo").queues.purge("q")
    assert acts(hf) == [("ben", "pause", "q", 1), ("anna", "resume", "q", 1), ("cleo", "purge", "q", 3)]


def test_the_end_of_a_group_is_in_the_audit_once(two: Holdfast) -> None:
    assert [two.acting_as("ben").groups.remove("t", "a") for _ in range(2)] == [True, False]
    assert acts(two) == [("ben", "unsubscribe", "t/a", 1)]


def test_another_tenant_is_a_world_of_its_own(hf: Holdfast) -> None:
    other = hf.acting_as(tenant="acme")
    hf.enqueue("q", "ours")
    other.enqueue("q", "theirs")
    assert internals(other).store is internals(hf).store, "no connection of its own"
    assert [[one.body for one in each.queues.peek("q")] for each in (hf, other)] == [["ours"], ["theirs"]]
    assert (other.settings.tenant, other.acting_as("ben").settings.tenant, hf.settings.tenant) == (
        "acme",
        "acme",
        "default",
    )


def test_one_dead_letter_is_found_and_deleted(hf: Holdfast) -> None:
    hf.queue("q")
    ids = [kill(hf, number) for number in range(3)]
    found = hf.dead_letters.get(ids[1])
    assert found is not None
    assert (found.id, found.message.body) == (ids[1], 1)
    assert [hf.dead_letters.delete(ids[1]) for _ in range(2)] == [True, False]
    assert hf.dead_letters.get(ids[1]) is None
    assert [one.id for one in hf.dead_letters.list()] == [ids[0], ids[2]]
    assert hf.stats("q").dead == 2
    [line] = hf.audit.list()
    assert (line.act, line.about, line.count) == ("delete", {"id": ids[1]}, 1)


def test_the_first_of_all_ids_is_nobody(hf: Holdfast) -> None:
    nobody = "00000000-0000-0000-0000-000000000000"
    assert (hf.dead_letters.get(nobody), hf.dead_letters.delete(nobody)) == (None, False)


def test_asyncio_acts_in_the_same_names(url: str, clock: FakeClock) -> None:
    async def main() -> None:
        async with AsyncHoldfast(url, clock=clock, actor="anna") as hf:
            await hf.queue("q")
            await hf.acting_as("ben").queues.pause("q")
            assert [line.actor for line in await hf.audit.list()] == ["ben"]
            assert await hf.acting_as(tenant="acme").queues.list() == []

    asyncio.run(main())
