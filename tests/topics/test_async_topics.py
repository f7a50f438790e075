"""Topics with AsyncHoldfast: the same flows, awaited."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import psycopg
import pytest

from holdfast import AsyncHoldfast, InvalidInput, NoSubscribers, UnknownGroup, UnknownTopic
from holdfast.client.async_client import async_internals
from tests.client.test_conn import commit, of_the_driver, roll_back
from tests.clock import FakeClock
from tests.stores import TOPICS

pytestmark = pytest.mark.not_through_sqs(TOPICS)

Run = Callable[[Callable[[AsyncHoldfast], Awaitable[Any]]], Any]


@pytest.fixture
def run(url: str, clock: FakeClock) -> Run:
    """Runs a coroutine with a client that has a topic with two groups; one that hangs fails."""

    def run_with(work: Callable[[AsyncHoldfast], Coroutine[Any, Any, Any]]) -> Any:
        async def main() -> Any:
            async with AsyncHoldfast(url, clock=clock, sweep_every=0) as hf:
                await hf.topic("t")
                await hf.subscribe("t", "a")
                await hf.subscribe("t", "b", patterns="t.b")
                return await asyncio.wait_for(work(hf), 30)

        return asyncio.run(main())

    return run_with


async def read_all(hf: AsyncHoldfast, group: str) -> list[Any]:
    claims = await hf.claim("t", group=group, n=2_000)
    await hf.ack(claims)
    return [claim.message.body for claim in claims]


def test_every_group_gets_what_it_wants(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        receipt = await hf.publish("t.a", 1, key="k", headers={"h": 1})
        await hf.publish_many("t.b", [2, 3])
        [claim] = await hf.claim("t/a")
        message = claim.message
        assert (message.id, message.body, message.topic, message.key) == (receipt.id, 1, "t.a", "k")
        await claim.dead_letter("no")
        assert [letter.queue for letter in await hf.dead_letters.list("t/a")] == ["t/a"]
        assert (await read_all(hf, "a"), await read_all(hf, "b")) == ([2, 3], [2, 3])
        assert await hf.topics.list() == ["t"]
        assert await hf.groups.remove("t", "a") is True
        with pytest.raises(UnknownGroup):
            await hf.claim("t", group="a")

    run(work)


def test_a_thousand_at_once_share_few_commits(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.publish("t", -1)
        calls = []
        inserts = async_internals(hf).parts.inserts
        call_each = inserts.call_each
        monkeypatch.setattr(
            async_internals(hf).parts.inserts,
            "call_each",
            lambda them, *more: calls.append(len(them)) or call_each(them, *more),
        )
        await asyncio.gather(*(hf.publish("t.x", n) for n in range(1_000)))
        assert sum(calls) == 1_000
        assert len(calls) < 100
        assert sorted(await read_all(hf, "a")) == list(range(-1, 1_000))

    run(work)


def test_a_name_of_nobodys_is_refused_unless_it_is_that_of_a_queue(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        with pytest.raises(UnknownTopic, match=r"hf\.topic\('x'\)"):
            await hf.publish("x.y", 1)
        assert await hf.queues.list() == []
        await hf.queue("x.y")
        await hf.publish("x.y", 1)
        await hf.topic("jobs", mode="queue")
        await hf.publish_many("jobs.resize", [2])
        found = [(claim.message.body, claim.message.topic) for claim in await hf.claim("x.y", "jobs", n=5)]
        assert found == [(1, "x.y"), (2, "jobs.resize")]
        with pytest.raises(InvalidInput, match="is a topic"):
            await hf.enqueue("t", 1)

    run(work)


def test_nobody_there(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.topic("alarms", no_subscribers="refuse")
        with pytest.raises(NoSubscribers):
            await hf.publish("alarms.fire", 1)

    run(work)


@pytest.mark.parametrize("name", ["t.x", "fresh"], ids=["a topic", "a queue"])
def test_what_is_published_in_a_transaction_comes_with_it(run: Run, url: str, name: str) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        if name == "fresh":
            await hf.queue(name)
        with of_the_driver(url) as conn:
            await hf.publish(name, "kept", conn=conn)
            commit(conn)
        with of_the_driver(url) as conn:
            await hf.publish_many(name, ["lost"], conn=conn)
            roll_back(conn)
        claims = await hf.claim("t/a" if name == "t.x" else name, n=5)
        assert [claim.message.body for claim in claims] == ["kept"]

    run(work)


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_a_connection_that_is_awaited(run: Run, url: str) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        async with await psycopg.AsyncConnection.connect(url) as conn:
            await hf.publish("t.x", "kept", conn=conn)
            assert await read_all(hf, "a") == []
        assert await read_all(hf, "a") == ["kept"]

    run(work)


def test_middleware_is_awaited(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        @hf.around_enqueue
        async def stamp(outgoing: Any, proceed: Any) -> Any:
            outgoing.headers = {"to": outgoing.queue}
            return await proceed()

        await hf.publish("t.x", 1)
        [claim] = await hf.claim("t/a")
        assert claim.message.headers == {"to": "t.x"}

    run(work)
