"""Running consumers as they tell of themselves: who is alive, how busy, how far with what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import AsyncHoldfast, Claim, Holdfast, InvalidInput, PoolStatus, Work
from holdfast.client.client import internals
from holdfast.consumers.rules import MOST_WORK
from tests.clock import FakeClock
from tests.steps import OpenClient, beat, claim_one
from tests.stores import NO_QUEUE

pytestmark = pytest.mark.not_through_sqs(NO_QUEUE)

SECOND = 1_000_000


def tell(hf: Holdfast, worker: str = "w1", **told: Any) -> None:
    internals(hf).store.crew.beat("default", beat(worker, **told))


def names(hf: Holdfast, alive: bool = True) -> list[str]:
    return [one.id for one in hf.consumers.list(alive)]


@pytest.fixture(autouse=True)
def _opened(hf: Holdfast) -> None:
    """The store's verbs are for those who have opened the database."""
    hf.queue("q")


def test_all_that_a_consumer_tells_can_be_seen_by_others(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    started, work = clock(), [Work("m1", "q", 2, 5, {"pages": [1, None, "é\0"]}), Work("m2", "r", 1, 7)]
    tell(hf, pool="gpu", labels={"zone": "é", "n": "1"}, queues=["q", "r"], concurrency=4, saturation=0.25, work=work)
    clock.advance(3)
    tell(
        hf,
        pool="gpu",
        labels={"zone": "é", "n": "2"},
        queues=["r"],
        state="draining",
        concurrency=5,
        saturation=0.75,
        handled=9,
        failed=2,
        work=work,
    )
    [found] = rival.consumers.list()
    assert (found.id, found.consumer, found.pool, found.host, found.pid) == ("w1", "mailer", "gpu", "box", 7)
    assert (found.labels, found.queues, found.state) == ({"zone": "é", "n": "2"}, ["r"], "draining")
    assert (found.concurrency, found.saturation, found.handled, found.failed) == (5, 0.75, 9, 2)
    assert (found.started_at_us, found.seen_at_us, found.valid_until_us) == (started, clock(), clock() + 10 * SECOND)
    assert (found.work, found.alive) == (work, True)


def test_pools_are_what_their_running_members_tell(hf: Holdfast, rival: Holdfast, clock: FakeClock) -> None:
    tell(hf, "gone", pool="gpu", handled=1_000)
    clock.advance(60)
    tell(hf, "w1", pool="gpu", saturation=0.25, handled=3, failed=1)
    tell(hf, "w2", pool="gpu", saturation=0.75, handled=4)
    tell(hf, "w3", pool="cpu")
    tell(hf, "w4")
    cpu, gpu = rival.pools.list()
    assert gpu == PoolStatus("gpu", ["mailer"], 2, 0.5, 7, 1)
    assert (cpu.name, cpu.members) == ("cpu", 1)
    assert rival.acting_as(tenant="acme").pools.list() == []


def test_consumers_are_listed_by_name_and_start(hf: Holdfast, clock: FakeClock) -> None:
    for worker, consumer in [("w3", "printer"), ("w2", "mailer"), ("w1", "mailer")]:
        tell(hf, worker, consumer=consumer, valid_for=60)
        clock.advance(1)
    assert names(hf) == ["w2", "w1", "w3"]


def test_who_does_not_tell_again_in_time_is_dead(hf: Holdfast, clock: FakeClock) -> None:
    """By the database's clock, and by what each said itself: one that hibernates tells rarely."""
    tell(hf, "busy", valid_for=10)
    tell(hf, "asleep", valid_for=3600, state="hibernating")
    clock.advance(10 - 1e-6)
    assert names(hf) == ["asleep", "busy"]
    clock.advance(1e-6)
    assert names(hf) == ["asleep"]
    assert [(one.id, one.alive) for one in hf.consumers.list(alive=False)] == [("asleep", True), ("busy", False)]
    tell(hf, "busy")
    assert names(hf) == ["asleep", "busy"]


def test_who_leaves_is_gone_at_once(hf: Holdfast) -> None:
    tell(hf, "w1")
    tell(hf, "w2")
    internals(hf).store.crew.leave("default", "w1")
    internals(hf).store.crew.leave("default", "w1")
    assert names(hf, alive=False) == ["w2"]


def test_the_dead_are_forgotten_after_an_hour_a_few_at_a_time(hf: Holdfast, clock: FakeClock) -> None:
    for number in range(5):
        tell(hf, f"w{number}")
    tell(hf, "asleep", valid_for=3610)
    clock.advance(3610 - 1e-6)
    assert internals(hf).store.crew.forget("default", 100) == 0
    clock.advance(1e-6)
    assert [internals(hf).store.crew.forget("default", 2) for _ in range(4)] == [2, 2, 1, 0]
    assert names(hf, alive=False) == ["asleep"]


def test_maintenance_forgets_them_too(hf: Holdfast, clock: FakeClock) -> None:
    tell(hf)
    clock.advance(3610)
    assert [hf.maintain(), hf.maintain()] == [1, 0]
    assert hf.consumers.list(alive=False) == []


def test_amplification_counts_consumers_that_work_productively(hf: Holdfast, clock: FakeClock) -> None:
    for worker, saturation in {"w1": 0, "w2": 0.49, "w3": 0.5, "w4": 1}.items():
        tell(hf, worker, saturation=saturation)
    assert [hf.consumers.amplification(), hf.consumers.amplification(0.9), hf.consumers.amplification(0)] == [2, 1, 4]
    clock.advance(10)
    assert hf.consumers.amplification(0) == 0


def test_a_beat_tells_of_twenty_messages_at_most(hf: Holdfast) -> None:
    tell(hf, work=[Work(f"m{number}", "q", 1, number) for number in range(500)])
    [found] = hf.consumers.list()
    assert [one.id for one in found.work] == [f"m{number}" for number in range(MOST_WORK)]


def test_a_beat_that_is_no_json_is_refused_and_the_last_one_stays(hf: Holdfast) -> None:
    tell(hf, handled=1)
    for told in ({"labels": {"a": object()}}, {"work": [Work("m", "q", 1, 0, float("nan"))]}):
        with pytest.raises(InvalidInput, match=r"^(labels|work) cannot be written as JSON"):
            tell(hf, handled=2, **told)
    assert [one.handled for one in hf.consumers.list()] == [1]


# --- progress ---------------------------------------------------------------------------------------------------------


def in_hand(claim: Claim, progress: Any = None, attempt: int | None = None) -> Work:
    return Work(claim.message.id, claim.queue, attempt or claim.attempt, claim.lease.since_us, progress)


def progress(hf: Holdfast, claim: Claim) -> Any:
    found = hf.status(claim.message.id)
    assert found is not None
    return found.progress


@pytest.mark.parametrize("value", [0.5, 0, "half", {"pages": [1, 2]}, [], False], ids=str)
def test_the_progress_of_a_message_is_what_its_worker_told(
    hf: Holdfast, rival: Holdfast, claim: Claim, value: Any
) -> None:
    assert progress(rival, claim) is None
    tell(hf, "anna", work=[in_hand(claim)])
    assert progress(rival, claim) is None
    tell(hf, "anna", work=[Work("another", "q", 1, 0, "not this"), in_hand(claim, value)])
    assert progress(rival, claim) == value


def test_a_search_shows_it_too(hf: Holdfast) -> None:
    hf.enqueue_many("q", [1, 2], key="k")
    first, _ = hf.claim("q", n=2)
    tell(hf, "anna", work=[in_hand(first, "half")])
    assert [found.progress for found in hf.messages.search(key="k")] == ["half", None]


def test_another_workers_word_does_not_count(hf: Holdfast, claim: Claim) -> None:
    tell(hf, "ben", work=[in_hand(claim, "mine")])
    assert progress(hf, claim) is None


def test_the_progress_of_an_earlier_attempt_does_not_count(hf: Holdfast, claim: Claim) -> None:
    """The same worker has it again, and has not told of it yet."""
    tell(hf, "anna", work=[in_hand(claim, "nearly done")])
    claim.nack("no", delay=0)
    again = claim_one(hf)
    assert progress(hf, again) is None
    tell(hf, "anna", work=[in_hand(again, "begun")])
    assert progress(hf, again) == "begun"


def test_what_is_not_in_work_has_no_progress(hf: Holdfast, claim: Claim) -> None:
    """Whatever the last beat says: it may be a moment old."""
    tell(hf, "anna", work=[in_hand(claim, "half")])
    claim.release()
    assert progress(hf, claim) is None
    [claim] = hf.claim("q")
    tell(hf, "anna", work=[in_hand(claim, "half")])
    claim.ack()
    assert progress(hf, claim) is None


def test_asyncio_sees_the_same(hf: Holdfast, url: str, clock: FakeClock) -> None:
    tell(hf, saturation=1)

    async def look() -> tuple[Any, ...]:
        async with AsyncHoldfast(url, clock=clock) as ahf:
            await ahf.consumers.attach("mailer", "q", weight=2, empty="poll")
            await ahf.consumers.detach("mailer", "r")
            return (
                await ahf.consumers.list(),
                await ahf.consumers.amplification(),
                await ahf.consumers.attachments("mailer"),
            )

    found, amplification, attachments = asyncio.run(look())
    assert (found, amplification, attachments) == (hf.consumers.list(), 1, hf.consumers.attachments())
    assert [(one.queue, one.attached) for one in attachments] == [("q", True), ("r", False)]


def test_a_tenant_that_never_had_a_consumer(client: OpenClient) -> None:
    hf = client(tenant="empty")
    assert (hf.consumers.list(), hf.consumers.amplification(0), hf.consumers.attachments()) == ([], 0, [])
