"""AsyncHoldfast: the same flows, awaited."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from holdfast import AsyncClaim, AsyncHoldfast, Claim, Holdfast, InvalidInput, LeaseLost, UnknownQueue
from holdfast.client.async_client import async_internals
from holdfast.store.api import ClaimRequest, ClaimResult, Make
from tests.clock import FakeClock
from tests.steps import claim_one, sleepers

pytestmark = [pytest.mark.both_engines, pytest.mark.of_queues]

Run = Callable[[Callable[[AsyncHoldfast], Awaitable[Any]]], Any]


@pytest.fixture
def run(url: str, clock: FakeClock) -> Run:
    """Runs a coroutine with a client of the test's database; one that hangs fails."""

    def run_with(work: Callable[[AsyncHoldfast], Coroutine[Any, Any, Any]], **settings: Any) -> Any:
        async def main() -> Any:
            options = {"clock": clock, "sweep_every": 0, "worker": "anna", **settings}
            async with AsyncHoldfast(url, **options) as hf:
                return await asyncio.wait_for(work(hf), 30)

        return asyncio.run(main())

    return run_with


def bodies(claims: list[AsyncClaim]) -> list[Any]:
    return [claim.message.body for claim in claims]


def test_a_message_goes_all_the_way(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.queue("q", lease=45)
        receipt = await hf.enqueue("q", {"a": 1}, headers={"h": 1}, key="k", priority="high")
        [claim] = await hf.claim("q", n=10)
        assert (claim.message.id, claim.attempt, claim.queue) == (receipt.id, 1, "q")
        assert (claim.message.body, claim.message.headers, claim.message.key) == ({"a": 1}, {"h": 1}, "k")
        assert claim.lease.worker == hf.worker == "anna"
        found = await hf.status(receipt.id)
        assert (found.claimed_at, found.session) == (claim.lease.since, None)
        await claim.ack()
        assert (await hf.status(receipt.id)).state == "succeeded"
        assert await hf.queues.list() == ["q"]

    run(work)


def test_claims_end_in_every_way(run: Run, clock: FakeClock) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue_many("q", range(6))
        acked, nacked, released, snoozed, dead, canceled = await hf.claim("q", n=6)
        await acked.ack()
        await nacked.nack("no", delay=10)
        await released.release()
        await snoozed.snooze(20)
        await dead.dead_letter("hopeless")
        assert await hf.cancel(canceled.message.id)
        assert bodies(await hf.claim("q", n=10)) == [2]
        stats = await hf.stats("q")
        assert (stats.pending, stats.waiting, stats.processing, stats.dead) == (0, 2, 1, 1)
        [letter] = await hf.dead_letters.list("q")
        assert (letter.message.body, letter.error) == (4, "hopeless")
        with pytest.raises(LeaseLost):
            await canceled.ack()

    run(work)


def test_many_claims_end_in_one_call(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue_many("q", range(8))
        claims = await hf.claim("q", n=8)
        await hf.ack(claims[:2])
        await hf.nack(claims[2:4], "no", delay=60)
        await hf.snooze(claims[4:6], 60)
        await hf.dead_letter(claims[6:7], "no")
        await hf.release(claims[7])
        stats = await hf.stats("q")
        assert (stats.pending, stats.waiting, stats.processing, stats.dead) == (1, 4, 0, 1)

    run(work)


def test_ack_and_claim_share_a_call(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue_many("q", range(4))
        first = await hf.claim("q", n=2)
        assert bodies(await hf.claim("q", n=2, ack=first)) == [2, 3]
        assert (await hf.status(first[0].message.id)).state == "succeeded"

    run(work)


def test_a_lease_is_extended_and_ends(run: Run, clock: FakeClock) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue("q", 1)
        [claim] = await hf.claim("q")
        await claim.extend(60)
        assert claim.lease.until_us == clock() + 60_000_000
        clock.advance(60)
        assert await hf.queues.sweep("q") == 1
        with pytest.raises(LeaseLost):
            await claim.extend()
        [again] = await hf.claim("q")
        assert again.attempt == 2

    run(work)


def test_a_dead_letter_is_replayed(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue("q", "doomed")
        [claim] = await hf.claim("q")
        await claim.dead_letter("boom")
        [dead] = await hf.dead_letters.list()
        receipt = await hf.dead_letters.replay(dead.id)
        [again] = await hf.claim("q")
        assert (again.message.id, again.message.body) == (receipt.id, "doomed")

    run(work)


def test_a_queue_is_peeked_at_and_purged(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue_many("q", range(3))
        assert [message.body for message in await hf.queues.peek("q", 2)] == [0, 1]
        assert await hf.queues.purge("q") == 3
        assert await hf.claim("q") == []

    run(work)


def test_errors_are_the_same_as_without_await(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        with pytest.raises(UnknownQueue):
            await hf.enqueue("never", 1)
        await hf.queue("q")
        with pytest.raises(InvalidInput):
            await hf.enqueue("q", object())
        with pytest.raises(InvalidInput):
            await hf.claim("q", n=0)
        assert await hf.enqueue_many("q", []) == []

    run(work, strict=True)


def test_both_clients_see_the_same_queue(run: Run, hf: Holdfast) -> None:
    async def work(other: AsyncHoldfast) -> None:
        await other.enqueue("q", "from a coroutine")

    run(work)
    assert claim_one(hf).message.body == "from a coroutine"


def test_two_hundred_enqueues_at_once_arrive_once_each(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        receipts = await asyncio.gather(*(hf.enqueue("q", number) for number in range(200)))
        claims = await hf.claim("q", n=1000)
        assert sorted(bodies(claims)) == list(range(200))
        by_id = {claim.message.id: claim.message.body for claim in claims}
        assert [by_id[receipt.id] for receipt in receipts] == list(range(200))

    run(work)


def test_two_hundred_acks_at_once_all_count(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue_many("q", range(200))
        claims = await hf.claim("q", n=200)
        await asyncio.gather(*(claim.ack() for claim in claims))
        stats = await hf.stats("q")
        assert (stats.pending, stats.processing) == (0, 0)

    run(work)


def test_one_lost_claim_among_many_fails_alone(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue_many("q", range(20))
        claims = await hf.claim("q", n=20)
        await hf.cancel(claims[7].message.id)
        outcomes = await asyncio.gather(*(claim.ack() for claim in claims), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes].count(LeaseLost) == 1
        assert isinstance(outcomes[7], LeaseLost)
        assert (await hf.stats("q")).processing == 0

    run(work)


def test_cancelled_tasks_do_not_break_those_beside_them(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.queue("q")
        tasks = [asyncio.create_task(hf.enqueue("q", number)) for number in range(40)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        kept = [number for number in range(40) if number % 2]
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
        arrived = bodies(await hf.claim("q", n=100))
        assert set(kept) <= set(arrived)
        assert len(arrived) == len(set(arrived))
        await hf.enqueue("q", "afterwards")
        assert bodies(await hf.claim("q")) == ["afterwards"]

    run(work)


def test_a_waiting_claim_is_woken_by_another_task(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.client.claim_loop.LONGEST_NAP", 3600.0)  # Only a ring wakes it.

    async def work(hf: AsyncHoldfast) -> None:
        asleep = sleepers(async_internals(hf).hf)
        waiting = asyncio.create_task(hf.claim("q", wait=600))
        assert await asyncio.to_thread(asleep.acquire, timeout=60)
        await hf.enqueue("q", "wake up")
        claims = await asyncio.wait_for(waiting, 100)
        assert bodies(claims) == ["wake up"]

    run(work, clock=None)


def test_many_waiting_claims_do_not_hold_up_an_enqueue(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        asleep = sleepers(async_internals(hf).hf)
        waiting = [asyncio.create_task(hf.claim("q", wait=60)) for _ in range(40)]
        for _ in waiting:
            assert await asyncio.to_thread(asleep.acquire, timeout=30)
        await asyncio.wait_for(hf.enqueue_many("q", range(40)), 30)
        found = [body for claims in await asyncio.gather(*waiting) for body in bodies(claims)]
        assert sorted(found) == list(range(40))

    run(work, clock=None, sweep_every=1)


def test_a_cancelled_claim_does_not_keep_a_message_from_others(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.enqueue("q", "for someone who listens")
        messages = async_internals(hf).parts.transport.messages
        claim, entered, may_go_on, claimed = messages.claim, *(threading.Event() for _ in range(3))

        def slow(request: ClaimRequest, make: Make[Claim]) -> ClaimResult[Claim]:
            entered.set()
            may_go_on.wait(100)
            try:
                return claim(request, make)
            finally:
                claimed.set()

        messages.claim = slow
        abandoned = asyncio.create_task(hf.claim("q"))
        await asyncio.to_thread(entered.wait, 100)
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        messages.claim = claim
        may_go_on.set()
        await asyncio.to_thread(claimed.wait, 100)
        [found] = await hf.claim("q", wait=5)
        assert (found.message.body, found.attempt) == ("for someone who listens", 1)

    run(work, clock=None)


def test_the_event_loop_runs_on_while_a_claim_waits(run: Run) -> None:
    async def work(hf: AsyncHoldfast) -> None:
        await hf.queue("q")
        asleep = sleepers(async_internals(hf).hf)
        waiting = asyncio.create_task(hf.claim("q", wait=60))
        assert await asyncio.to_thread(asleep.acquire, timeout=30)
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert not waiting.done()
        await hf.enqueue("q", "wake up")
        assert bodies(await waiting) == ["wake up"]

    run(work, clock=None)


def test_a_closed_client_answers_or_refuses_but_never_hangs(url: str) -> None:
    async def main() -> None:
        hf = AsyncHoldfast(url)
        await hf.enqueue("q", 1)
        await hf.close()
        try:
            await asyncio.wait_for(hf.enqueue("q", 2), 100)
        except TimeoutError:
            raise AssertionError("it hangs") from None
        except Exception:
            return
        assert len(await hf.claim("q", n=10)) == 2
        await hf.close()

    asyncio.run(main())


def test_a_client_may_be_used_by_one_event_loop_after_the_other(url: str) -> None:
    hf = AsyncHoldfast(url)

    async def enqueue(number: int) -> None:
        await asyncio.wait_for(hf.enqueue("q", number), 10)

    async def give_up() -> None:
        task = asyncio.create_task(hf.enqueue("q", "given up"))
        await asyncio.sleep(0)
        task.cancel()

    async def drain() -> list[Any]:
        found = bodies(await hf.claim("q", n=10))
        await hf.close()
        return found

    asyncio.run(enqueue(1))
    asyncio.run(give_up())
    asyncio.run(enqueue(2))
    assert {1, 2} <= set(asyncio.run(drain()))
