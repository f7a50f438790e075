"""Processes that run consumers: killed, poisoned, restarted, with a slow database or a wrong clock. Nothing is lost."""

import random
import signal
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from holdfast import Holdfast, State
from holdfast.worker.pace import MOST_AHEAD
from tests.acceptance.children import GUARD, Child, Family
from tests.acceptance.consumers import POISON
from tests.acceptance.history import CLOCK_STEP, faults, read
from tests.long import size
from tests.waiting import eventually, spend
from tests.worker.faults import held_up

Connect = Callable[..., Holdfast]

on_both = pytest.mark.parametrize("url", ["sqlite-apsw", "postgres"], indirect=True)

LEASE = 1.0


@on_both
def test_killed_processes_strand_nothing(family: Family, url: str, connect: Connect) -> None:
    """L6: four processes, kill -9 again and again at random points; everything is done soon after, by itself.

    From what each handler wrote down: every attempt of a message was begun once, and none while another one held it.
    In the end one process of each kind is killed while its handler surely runs.
    """
    hf = connect(url)
    hf.queue("q", lease=LEASE, max_attempts=1000, backoff=None, history=0)
    count, kills = size(1_500, 10_000), size(10, 100)
    sender = family.start("puppet", url=url, queue="q")
    sender.ask("send_many", values=[f"m-{number}" for number in range(count)])
    chance, kinds = random.Random(6), dict[str, str]()

    def start(kind: str = "") -> Child:
        kind, hands = kind or chance.choice(["def", "async def"]), chance.choice([1, 1, 2])
        child = family.start("consumer", url=url, queue="q", pause=0.004, concurrency=hands, kind=kind)
        kinds[child.log.stem] = kind
        return child

    def feed() -> None:
        nonlocal count
        if hf.stats("q").pending < 500:  # Processes start slowly on a busy machine; the others work meanwhile.
            sender.ask("send_many", values=[f"more{count}-{number}" for number in range(500)])
            count += 500

    workers = [start() for _ in range(4)]
    for _ in range(kills):
        feed()
        family.wait_for_events(chance.randint(1, 30_000), "consumer", unless=lambda: is_empty(hf))
        victim = chance.randrange(4)
        workers[victim].kill()
        workers[victim] = start()
    for kind in ("def", "async def"):
        start(kind).kill_at_work(feed)
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert len(history.acked | history.perhaps_acked) == count
    assert (hf.stats("q").processing, hf.stats("q").dead) == (0, 0)
    killed = {
        kinds[earlier.who]
        for grants in history.grants.values()
        for earlier, _ in pairwise(grants)
        if not earlier.settled_as and not earlier.unheard
    }
    assert killed == {"def", "async def"}, "no handler was killed: nothing was tried"


def is_empty(hf: Holdfast) -> bool:
    stats = hf.stats("q")
    return stats.pending + stats.processing == 0


@on_both
def test_a_loop_that_is_blocked_past_its_lease_keeps_its_message(family: Family, url: str, connect: Connect) -> None:
    """L4: an `async def` handler that never awaits, for longer than its lease, beside a process that has nothing to do.

    It is executed once.
    """
    hf = connect(url)
    hf.queue("q", lease=3 * LEASE, backoff=None)
    blocked = family.start("consumer", url=url, queue="q", kind="async def")
    sent = hf.enqueue("q", 5 * LEASE)
    blocked.hear()
    family.start("consumer", url=url, queue="q", kind="async def")
    eventually(lambda: len(hf.consumers.list()) == 2, "someone else wants it")
    eventually(lambda: is_empty(hf), "it is done")
    family.finish()

    history = family.history()
    assert history.errors() == []
    [grant] = history.grants[sent.id]
    assert (grant.who, grant.settled_as, grant.settled_at > grant.until) == ("consumer-0", "ack", True)


@pytest.mark.parametrize("url", ["sqlite-apsw", "sqlite-stdlib", "postgres"], indirect=True)
def test_a_poison_message_dies_alone(family: Family, url: str, connect: Connect) -> None:
    """L7: it kills its process from the middle of a run, twice more alone, and is dead; the others are done."""
    hf = connect(url)
    hf.queue("q", lease=2, max_attempts=3, backoff=None)  # Only the poison's is to end.
    sender = family.start("puppet", url=url, queue="q")
    sender.ask("send_many", values=[f"quick-{number}" for number in range(1500)])
    values = [f"m-{number}" for number in range(200)]
    values[100] = POISON
    sender.ask("send_many", values=values)
    worker, deaths = family.start("consumer", url=url, queue="q"), 0

    def is_over() -> bool:
        nonlocal worker, deaths
        if not worker.is_running:
            assert worker.process.returncode == -signal.SIGKILL, worker.errors()
            worker, deaths = family.start("consumer", url=url, queue="q"), deaths + 1
        return hf.stats("q").dead > 0 and is_empty(hf)

    eventually(is_over, "it died and the others are done")
    family.finish()

    [letter] = hf.dead_letters.list("q")
    history = family.history()
    assert (letter.message.body, letter.attempts, deaths) == (POISON, 3, 3)
    assert faults(history, dead=[letter.message.id]) == []
    assert len(history.acked | history.perhaps_acked) == 1699
    runs = [event["run"] for event in history.events if event["op"] == "poisoned"]
    assert (runs[0] > 1, runs[1:]) == (True, [1, 1]), "in a run with others first, and then alone"
    together = [grants for grants in history.grants.values() if len(grants) > 1 and grants[0].value != POISON]
    assert all(len(grants) <= 3 for grants in together)


@on_both
def test_no_ack_is_kept_in_memory(family: Family, url: str, connect: Connect) -> None:
    """L11: killed while the database does not answer. Whatever was told as done is done and never run again.

    What was finished and could not be stored is no more than one claim's worth: nothing is fetched on top of it.
    """
    hf = connect(url)
    hf.queue("q", lease=LEASE, max_attempts=1000, backoff=None)
    count = 30_000
    family.start("produce", url=url, queue="q", name="m", count=count, batch=1000).finish()
    told: set[str] = set()
    for _ in range(size(1, 3)):
        worker = family.start("consumer", url=url, queue="q", concurrency=2)
        family.wait_for_events(60_000, "consumer")
        with held_up(url):
            eventually(
                lambda worker=worker: silence(family) or unstored(worker), "something is done and cannot be stored"
            )
            worker.kill()
        history = family.history()
        told = set(history.acked)
        states = {state_of(hf, id) for id in told}
        assert states == {State.SUCCEEDED}
        assert 0 < unstored(worker) <= 2 + MOST_AHEAD
    family.start("consumer", url=url, queue="q")
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert len(history.acked | history.perhaps_acked) == count
    for id in told:
        assert history.grants[id][-1].settled_as == "ack", f"run again after it was told as done: {history.grants[id]}"


def unstored(worker: Child) -> int:
    """How many it has finished without hearing that this is stored."""
    grants = read([worker.log]).grants.values()
    return sum(bool(grant.unheard) for several in grants for grant in several)


def silence(family: Family) -> None:
    """Until nobody writes anything any more: all hands wait for the database."""
    size = -1
    while size != family.events("consumer"):
        size = family.events("consumer")
        spend(0.1)


def state_of(hf: Holdfast, message_id: str) -> State | None:
    status = hf.status(message_id)
    return None if status is None else status.state


@on_both
def test_a_rolling_restart_under_one_name(family: Family, url: str, connect: Connect) -> None:
    """L14: the old process and the new one have the same host and the same name; one stops, one is killed."""
    hf = connect(url)
    hf.queue("q", lease=LEASE, max_attempts=50, backoff=None, history=0)
    count = size(2_000, 4_000)
    family.start("produce", url=url, queue="q", name="m", count=count, batch=500).finish()
    old = [family.start("consumer", url=url, queue="q", worker="same") for _ in range(2)]
    eventually(lambda: len(hf.consumers.list()) == 2, "both are seen")
    ids = {one.id for one in hf.consumers.list()}
    assert len(ids) == 2
    new = family.start("consumer", url=url, queue="q", worker="same")
    eventually(lambda: len({one.id for one in hf.consumers.list()} - ids) == 1, "the new one has an id of its own")
    old[0].send(signal.SIGTERM)
    old[1].kill()
    assert old[0].process.wait(GUARD) == 0
    new.finish()

    history = family.history()
    assert faults(history) == []
    assert len(history.acked | history.perhaps_acked) == count
    assert (hf.stats("q").processing, hf.stats("q").dead) == (0, 0)
    assert {one.id for one in hf.consumers.list()} <= ids, "only who was killed could not say good-bye"


def test_workers_with_wrong_clocks(family: Family, url: str, connect: Connect) -> None:
    """T1: one is an hour ahead, one an hour behind: nothing is begun before it is due, and nothing is held twice."""
    hf = connect(url)
    hf.queue("q", lease=3 * LEASE, max_attempts=3)
    for shift in (3600.0, -3600.0):
        family.start("consumer", url=url, queue="q", shift=shift)
    eventually(lambda: len(hf.consumers.list()) == 2, "both are at work")
    long = [hf.enqueue("q", 4.0) for _ in range(2)]
    sent = time.time_ns() // 1000
    delayed = hf.enqueue_many("q", [f"m-{number}" for number in range(20)], delay=3.0)
    eventually(lambda: is_empty(hf) and hf.stats("q").waiting == 0, "all is done")
    family.finish()

    history = family.history()
    assert history.errors() == []
    assert {len(history.grants[one.id]) for one in (*long, *delayed)} == {1}
    assert {history.grants[one.id][0].who for one in long} == {"consumer-0", "consumer-1"}, "each had one"
    begun = [history.grants[one.id][0].at - sent for one in delayed]
    assert min(begun) >= 3_000_000 - CLOCK_STEP
    assert max(begun) < 1_800_000_000, "one who waits for its own clock is an hour late"
