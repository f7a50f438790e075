"""Leases, on every store: paused, killed, racing and poisoned workers strand nothing and spoil nothing."""

import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, State
from tests.acceptance.children import Child, Family, dead_ids, resident_kilobytes
from tests.acceptance.effort import effort
from tests.acceptance.history import faults
from tests.acceptance.workers import POISON
from tests.long import size
from tests.waiting import eventually

Connect = Callable[..., Holdfast]

STALE: dict[str, dict[str, Any]] = {
    "ack": {},
    "nack": {"error": "late"},
    "release": {},
    "snooze": {"delay": 1},
    "dead_letter": {"error": "late"},
}
"""Every way to end a claim."""


# --- paused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 0.001], ids=["lane", "row"])
def test_a_worker_paused_past_its_lease_can_change_nothing_afterwards(
    family: Family, url: str, connect: Connect, delay: float
) -> None:
    """L1: stopped like a laptop that sleeps; another one has the message by then, or has finished it."""
    hf = connect(url)
    hf.queue("q", lease=0.3, backoff=None)
    old, new = (family.start("puppet", url=url, queue="q") for _ in range(2))
    old.ask("send", value="work", delay=delay)
    assert old.ask("claim", wait=30) == ["work"]
    old.send(signal.SIGSTOP)
    assert new.ask("claim", wait=30, lease=300) == ["work"]
    old.send(signal.SIGCONT)

    for op, details in STALE.items():
        assert old.ask("settle", op=op, **details) == "LeaseLost", f"{op} while someone else holds it"
    assert old.ask("extend", duration=60) == "LeaseLost"
    assert new.ask("settle", op="ack") == ""
    for op, details in STALE.items():
        assert old.ask("settle", op=op, **details) == "LeaseLost", f"{op} when it is finished"

    (message,) = family.history().sent
    status = hf.status(message)
    assert status is not None
    assert (status.state, status.attempts) == (State.SUCCEEDED, 2)
    assert faults(family.history()) == []


def test_a_run_that_was_paused_is_lost_as_a_whole(family: Family, url: str, connect: Connect) -> None:
    """L1: one lease for many messages: all of them go to others, none of them twice at a time."""
    hf = connect(url)
    hf.queue("q", lease=60, backoff=None, history=0)
    old = family.start("puppet", url=url, queue="q")
    family.start("produce", url=url, queue="q", name="m", count=50, batch=50).finish()
    assert len(old.ask("claim", n=50, lease=0.5)) == 50
    old.send(signal.SIGSTOP)
    family.start("consume", url=url, queue="q", n=50).finish()
    old.send(signal.SIGCONT)

    assert old.ask("settle", op="ack") == "LeaseLost"

    old.finish()
    history = family.history()
    assert faults(history) == []
    assert {grant.attempt for grants in history.grants.values() for grant in grants if grant.settled_as} == {2}


# --- racing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 0.001], ids=["lane", "row"])
def test_an_ack_at_the_very_end_of_a_lease_wins_or_loses_but_never_both(
    family: Family, url: str, connect: Connect, delay: float
) -> None:
    """L3: two holders ack when their leases run out, while two sweepers take back what has run out.

    They find out by themselves what "just in time" is on this machine.
    """
    hf = connect(url)
    hf.queue("q", max_attempts=1)
    together = 15
    count = size(8, 20) * together
    family.start("produce", url=url, queue="q", name="m", count=count, batch=count, delay=delay).finish()
    for _ in range(2):
        family.start("sweeper", url=url, queue="q")
    racers = [family.start("racer", url=url, queue="q", lease=0.1, together=together) for _ in range(2)]
    for racer in racers:
        racer.hear()
    eventually(lambda: hf.stats("q").processing == 0, "every lease has ended")
    family.finish()

    history, dead = family.history(), dead_ids(hf, "q")
    assert faults(history, dead=dead) == []
    assert len(dead) == len(set(dead))
    assert len(history.acked) + len(dead) == count
    assert len(history.acked) > 0, "no ack was in time: nothing was raced"
    assert len(dead) > 0, "no ack was late: nothing was raced"


def test_two_processes_of_one_name_are_told_apart_by_their_tokens(family: Family, url: str, connect: Connect) -> None:
    """L14, L2: a rolling restart in which the old and the new process have the same worker name."""
    hf = connect(url)
    hf.queue("q", lease=0.5, backoff=None, max_attempts=50)
    old, new = (family.start("puppet", url=url, queue="q", worker="same") for _ in range(2))
    new.ask("send", value="its own")
    assert new.ask("claim", n=1, lease=300) == ["its own"]
    new.ask("send", value="both")
    assert old.ask("claim", n=1, lease=1) == ["both"]
    assert new.ask("settle", op="ack") == ""
    assert new.ask("claim", wait=60, lease=300) == ["both"]
    assert old.ask("settle", op="ack") == "LeaseLost"
    assert new.ask("settle", op="ack") == ""

    family.start("produce", url=url, queue="q", name="m", count=size(400, 2000), batch=100).finish()
    workers = [family.start("consume", url=url, queue="q", n=20, worker="same") for _ in range(3)]
    family.wait_for_events(size(12_000, 60_000), "consume", unless=lambda: hf.stats("q").queue_depth == 0)
    workers[0].kill()
    family.finish()

    assert faults(family.history(), left=[]) == []
    assert hf.stats("q").dead == 0


# --- killed -----------------------------------------------------------------------------------------------------------


def test_killed_workers_strand_nothing(family: Family, url: str, connect: Connect) -> None:
    """L6: four workers, one of them killed again and again at random points; no sweep or repair by hand.

    Some also nack, release and snooze, or forget what they hold.
    """
    hf = connect(url)
    hf.queue("q", lease=0.5, max_attempts=100, history=0)
    chance, count, kills = random.Random(6), size(2_000, 10_000), size(8, 30)
    family.start("produce", url=url, queue="q", name="m", count=count, batch=500).finish()

    def worker() -> Child:
        ways = chance.choice([{"fused": True}, {"fused": False}, {"moody": True}])
        return family.start("consume", url=url, queue="q", n=chance.choice([1, 10, 40]), **ways)

    workers = [worker() for _ in range(4)]
    for _ in range(kills):
        family.wait_for_events(chance.randint(1_000, 4 * count), unless=lambda: hf.stats("q").pending == 0)
        victim = chance.randrange(4)
        workers[victim].kill()
        workers[victim] = worker()
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert len(history.acked | history.perhaps_acked) == count
    assert (hf.stats("q").processing, hf.stats("q").dead) == (0, 0)


def test_a_poison_message_kills_its_workers_and_nothing_else(family: Family, url: str, connect: Connect) -> None:
    """L7: it dies after its attempts; the others of its run of 200, and what is claimed meanwhile, are done soon."""
    hf = connect(url)
    hf.queue("q", lease=2, max_attempts=3, backoff=None)  # Of those who live none may end: each claim is counted.
    values = [f"m-{number}" for number in range(400)]
    values[100] = POISON
    sender = family.start("puppet", url=url, queue="q")
    sender.ask("send_many", values=values)
    workers = [family.start("consume", url=url, queue="q", n=200) for _ in range(2)]
    deaths = 0

    def is_over() -> bool:
        nonlocal deaths
        is_dead = hf.stats("q").dead > 0  # Asked first: the worker that it killed last is found below then.
        for place, worker in enumerate(workers):
            if not worker.is_running:
                assert worker.process.returncode == -signal.SIGKILL, worker.errors()
                deaths += 1
                sender.ask("send_many", values=[f"urgent-{deaths}-{number}" for number in range(30)], priority="urgent")
                workers[place] = family.start("consume", url=url, queue="q", n=200)
        return is_dead

    eventually(is_over, "it died")
    family.finish()

    (letter,) = hf.dead_letters.list("q")
    history = family.history()
    assert letter.message.body == POISON
    assert (letter.attempts, deaths) == (3, 3)
    assert faults(history, dead=[letter.message.id]) == []
    assert len(history.acked) == 399 + 90
    for grants in history.grants.values():
        if grants[0].value != POISON:
            assert len(grants) <= 2, f"a neighbour was hurt again: {grants}"
        if str(grants[0].value).startswith("urgent"):
            assert len(grants) == 1, f"claimed together with the poison: {grants}"


# --- many -------------------------------------------------------------------------------------------------------------


def test_a_claim_costs_the_same_whatever_the_backlog(family: Family, empty_url: str, connect: Connect) -> None:
    """L16: in what the database reads, with a long backlog and after as many claims; no process grows."""
    hf = connect(empty_url)
    hf.queue("q", history=0)
    worker = family.start("puppet", url=empty_url, queue="q")
    hf.enqueue_many("q", range(1_000))
    worker.ask("take", count=300)
    memory = resident_kilobytes(worker.pid)
    worker.ask("close")
    small = effort(empty_url, hf, lambda: claim_some(hf))

    backlog = size(40_000, 200_000)
    for start in range(0, backlog, 20_000):
        hf.enqueue_many("q", range(start, start + 20_000))
    large = effort(empty_url, hf, lambda: claim_some(hf))
    worker.ask("take", count=300)
    worker.ask("close")
    assert hf.stats("q").pending == backlog + 1_000 - 800

    claimed, done = 800, hf.claim("q", n=1_000)
    while done:
        claimed, done = claimed + len(done), hf.claim("q", n=1_000, ack=done)
    hf.enqueue_many("q", range(1_000))
    late = effort(empty_url, hf, lambda: claim_some(hf))

    assert claimed == backlog + 1_000
    assert large < 2 * small, "a long queue makes a claim dearer"
    assert late < 2 * small, "what was claimed before makes a claim dearer"
    assert resident_kilobytes(worker.pid) < memory + 10_000


def claim_some(hf: Holdfast) -> None:
    for _ in range(100):
        hf.ack(hf.claim("q"))
