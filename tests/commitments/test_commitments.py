"""How the checks of commitments went is kept with the message, for as long as someone may ask."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncHoldfast, Claim, CommitmentResult, Holdfast
from holdfast.client import settlements
from holdfast.client.client import internals
from tests.clock import FakeClock
from tests.steps import OpenClient, claim_one

pytestmark = pytest.mark.of_queues

GOOD = CommitmentResult("built", True, 0, "all good")
BAD = CommitmentResult("tested", False, 2, "3 failed\nü")
SLOW = CommitmentResult("slow", False, None, "[timed out]")


def keep(hf: Holdfast, claim: Claim, *results: CommitmentResult) -> bool:
    [settlement] = settlements.acked([claim])
    return internals(hf).store.commitments.keep(settlement, results)


def known(hf: Holdfast, claim: Claim) -> list[tuple[int, str]]:
    return [(one.attempt, one.name) for one in hf.messages.commitments(claim.message.id)]


def test_they_are_kept_in_order_attempt_by_attempt(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", backoff=None)
    hf.enqueue("q", 1)
    first = claim_one(hf)
    keep(hf, first, GOOD, BAD, SLOW)
    first.nack("tested")
    began = clock()
    clock.advance(1)
    second = claim_one(hf)
    keep(hf, second, BAD, GOOD)
    assert hf.messages.commitments(first.message.id) == [
        CommitmentResult("built", True, 0, "all good", 1, began),
        CommitmentResult("tested", False, 2, "3 failed\nü", 1, began),
        CommitmentResult("slow", False, None, "[timed out]", 1, began),
        CommitmentResult("tested", False, 2, "3 failed\nü", 2, began + 1_000_000),
        CommitmentResult("built", True, 0, "all good", 2, began + 1_000_000),
    ]


def test_a_message_without_any_has_none(hf: Holdfast) -> None:
    assert hf.messages.commitments(hf.enqueue("q", 1).id) == []


def test_an_attempt_made_again_replaces_what_it_said(hf: Holdfast, claim: Claim) -> None:
    """What a graceful stop hands back is claimed under the same number."""
    keep(hf, claim, BAD, SLOW)
    claim.release()
    again = claim_one(hf)
    assert again.attempt == claim.attempt
    keep(hf, again, GOOD)
    assert known(hf, again) == [(1, "built")]


def test_what_a_lost_claim_says_is_not_kept(hf: Holdfast, claim: Claim) -> None:
    """Though whoever has the message now makes the attempt of the same number."""
    claim.release()
    again = claim_one(hf)
    assert again.attempt == claim.attempt
    assert keep(hf, again, GOOD)
    assert not keep(hf, claim, BAD, SLOW)
    assert known(hf, again) == [(1, "built")]
    again.ack()
    assert not keep(hf, again, BAD)
    assert known(hf, again) == [(1, "built")]


def test_another_tenant_sees_nothing(client: OpenClient, hf: Holdfast, claim: Claim) -> None:
    keep(hf, claim, GOOD)
    assert client(tenant="other").messages.commitments(claim.message.id) == []


def test_asyncio_reads_the_same(url: str, hf: Holdfast, claim: Claim) -> None:
    keep(hf, claim, GOOD, BAD)

    async def ask() -> list[CommitmentResult]:
        async with AsyncHoldfast(url) as client:
            return await client.messages.commitments(claim.message.id)

    assert asyncio.run(ask()) == hf.messages.commitments(claim.message.id)


# --- how long ---------------------------------------------------------------------------------------------------------


def test_they_go_with_the_messages_history(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=60)
    hf.enqueue("q", 1)
    done = claim_one(hf)
    keep(hf, done, GOOD, BAD)
    done.ack()
    clock.advance(59)
    hf.queues.sweep("q")
    assert len(known(hf, done)) == 2
    clock.advance(1)
    assert hf.queues.sweep("q") > 0
    assert known(hf, done) == []
    assert hf.queues.sweep("q") == 0


def test_they_alone_are_reason_enough_for_a_sweep(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=60)
    hf.enqueue("q", 1)
    done = claim_one(hf)
    keep(hf, done, GOOD)
    hf.queue("q", history=30)
    done.ack()
    clock.advance(30)
    assert hf.queues.sweep("q") > 0
    assert hf.status(done.message.id) is None
    assert len(known(hf, done)) == 1
    clock.advance(30)
    assert hf.queues.sweep("q") == 1
    assert known(hf, done) == []


def test_they_stay_while_the_message_is_in_trouble(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=60, backoff=[5000])
    hf.enqueue("q", 1)
    failed = claim_one(hf)
    keep(hf, failed, BAD)
    failed.nack("tested")
    clock.advance(100)
    hf.queues.sweep("q")
    assert hf.queues.sweep("q") == 0
    assert known(hf, failed) == [(1, "tested")]
    clock.advance(5000)
    again = claim_one(hf)
    keep(hf, again, GOOD)
    again.ack()
    clock.advance(3600)
    hf.queues.sweep("q")
    assert known(hf, again) == []


@pytest.mark.parametrize("history", [0, 60])
def test_they_stay_with_a_dead_letter(hf: Holdfast, clock: FakeClock, history: int) -> None:
    """Someone will ask why."""
    hf.queue("q", history=history, dead_retention="10d")
    hf.enqueue("q", 1)
    dead = claim_one(hf)
    keep(hf, dead, BAD)
    dead.dead_letter("tested")
    for _ in range(9):
        clock.advance(86_400)
        hf.queues.sweep("q")
        assert known(hf, dead) == [(1, "tested")]
    for _ in range(2):
        clock.advance(86_400)
        while hf.queues.sweep("q"):
            pass
    assert known(hf, dead) == []


def test_a_sweep_removes_a_bounded_number(hf: Holdfast, clock: FakeClock) -> None:
    hf.queue("q", history=1)
    claims = []
    for number in range(150):
        hf.enqueue("q", number)
        claims += hf.claim("q")
        keep(hf, claims[-1], GOOD)
    hf.ack(claims)
    clock.advance(1)
    turns = []
    while hf.queues.sweep("q"):
        turns.append(sum(len(known(hf, one)) for one in claims))
    assert turns == [50, 0]
