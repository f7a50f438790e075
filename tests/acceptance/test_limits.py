"""Limits, kept by several processes at once, of which one is killed while it holds something."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

import pytest

from holdfast import Holdfast
from tests.acceptance.children import Family
from tests.acceptance.effort import effort
from tests.acceptance.history import CLOCK_STEP, Grant, History, faults
from tests.long import size
from tests.waiting import eventually

Connect = Callable[..., Holdfast]

KEYS = 5


@pytest.mark.parametrize("fused", [False, True], ids=["moody", "fused"])
def test_four_processes_never_hold_more_than_the_queue_allows(
    family: Family, url: str, connect: Connect, fused: bool
) -> None:
    """One is killed with its hands full: its slots come back with its lease, and no others do."""
    hf = connect(url)
    hf.queue("q", concurrency=6, lease=1, backoff=None, max_attempts=100)
    killed = family.start("puppet", url=url, queue="q")
    family.start("produce", url=url, queue="q", name="m", count=size(160, 400), batch=100).finish()
    # Long enough to be noted before it ends, or nobody would be seen to hold six.
    assert len(killed.ask("claim", n=100, lease=2)) == 6
    others = [family.start("consume", url=url, queue="q", n=4, moody=not fused, fused=fused) for _ in range(3)]
    killed.kill()
    family.wait_for_events(size(6_000, 20_000), "consume", unless=lambda: hf.stats("q").queue_depth == 0)
    others[0].kill()
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert most_held(grants_of(history)) == 6
    assert hf.stats("q").processing == 0


def test_four_processes_never_hold_more_of_a_key_than_allowed(family: Family, url: str, connect: Connect) -> None:
    """All places of all keys are taken until all four have begun; then one holder lets go, and the other is killed."""
    hf = connect(url)
    hf.queue("q", key_concurrency=2, lease=1, backoff=None, max_attempts=100)
    holder, killed = (family.start("puppet", url=url, queue="q") for _ in range(2))
    count = size(25, 60)
    for key in range(KEYS):
        family.start("produce", url=url, queue="q", name=f"key{key}", count=count, batch=60, key=f"key{key}").finish()
    assert len(holder.ask("claim", n=KEYS, lease=300)) == KEYS
    assert len(killed.ask("claim", n=100)) == KEYS, "two of each key are in someone's hands, and no more"
    consumers = [family.start("consume", url=url, queue="q", n=4, moody=True) for _ in range(4)]
    eventually(lambda: all(one.log.exists() for one in consumers), "all have begun")
    killed.kill()
    assert holder.ask("settle", op="release") == ""
    family.wait_for_events(size(6_000, 20_000), "consume", unless=lambda: hf.stats("q").queue_depth == 0)
    consumers[0].kill()
    family.finish()

    history = family.history()
    assert faults(history) == []
    by_key: dict[str, list[Grant]] = defaultdict(list)
    for grant in grants_of(history):
        by_key[grant.value.split("-")[0]].append(grant)
    assert len(by_key) == KEYS
    assert max(map(most_held, by_key.values())) == 2
    assert most_held(grants_of(history)) > 2


def test_four_processes_never_claim_more_often_than_the_rate(family: Family, url: str, connect: Connect) -> None:
    hf = connect(url)
    hf.queue("q", rate="30/300ms", lease=5)
    count = size(150, 300)
    family.start("produce", url=url, queue="q", name="m", count=count, batch=100).finish()
    for _ in range(4):
        family.start("consume", url=url, queue="q", n=7)
    eventually(lambda: hf.stats("q").queue_depth == 0, "all is done")
    family.finish()

    history = family.history()
    assert faults(history) == []
    starts = sorted(grant.until - 5_000_000 for grant in grants_of(history))
    assert len(starts) == count
    assert all(late - early >= 300_000 for early, late in zip(starts, starts[30:], strict=False))


def test_running_consumers_keep_a_limit_and_follow_a_new_one(family: Family, url: str, connect: Connect) -> None:
    """Two processes with `hf.run()`. One takes only what it can begin, and leaves the other place to the other one."""
    hf = connect(url)
    hf.queue("q", concurrency=2, lease=30)
    sender = family.start("puppet", url=url, queue="q")
    sender.ask("send_many", values=[f"quick-{number}" for number in range(20)] + ["wait"] * 40)
    small = family.start("consumer", url=url, queue="q", pause=0.005)
    small.hear()
    assert hf.stats("q").processing == 1, "nothing is claimed ahead where others wait for the places"
    large = family.start("consumer", url=url, queue="q", pause=0.005, concurrency=6)
    large.hear()
    assert hf.stats("q").processing == 2
    before = [grant for grant in grants_of(family.history()) if grant.value == "wait"]
    hf.queue("q", concurrency=4, lease=30)
    for _ in range(2):
        large.hear()
    family.finish()

    history = family.history()
    assert faults(history) == []
    assert (len(before), {grant.who for grant in before}) == (2, {"consumer-1", "consumer-2"})
    assert most_held(grants_of(history)) == 4


def grants_of(history: History) -> list[Grant]:
    return [grant for grants in history.grants.values() for grant in grants]


def most_held(grants: Iterable[Grant]) -> int:
    """How many were in someone's hands at the same moment, counted from when its holder knew to when it let go."""
    moments = []
    for grant in grants:
        if grant.held_to - CLOCK_STEP > grant.at:
            moments += [(grant.at, 1), (grant.held_to - CLOCK_STEP, -1)]
    held = most = 0
    for _, change in sorted(moments):
        held += change
        most = max(most, held)
    return most


# --- what it costs ----------------------------------------------------------------------------------------------------


def test_a_claim_past_a_full_key_costs_the_same_however_much_that_has(empty_url: str) -> None:
    """L16, O2: the messages of full keys are not gone through."""
    with Holdfast(empty_url) as hf:
        hf.queue("q", key_concurrency=1, lease=600)
        hf.enqueue_many("q", range(500), key="full")
        hf.enqueue_many("q", range(100), key=lambda body: f"other-{body}")
        assert len(hf.claim("q")) == 1
        few = effort(empty_url, hf, partial(hf.claim, "q"))
        hf.enqueue_many("q", range(5_000), key="full", priority="high")
        assert len(hf.claim("q", n=2)) == 2
        many = effort(empty_url, hf, partial(hf.claim, "q"))

    # One row of each of them would be 5,000 more. PostgreSQL was seen to read 700 more on a very busy machine.
    assert many < max(3 * few, few + 2_500), (few, many)


def test_a_claim_costs_the_same_however_many_keys_there_are(empty_url: str) -> None:
    with Holdfast(empty_url) as hf:
        hf.queue("q", key_concurrency=1, lease=600)
        hf.enqueue_many("q", range(300), key="full")
        hf.enqueue_many("q", range(100), key=lambda body: f"other-{body}")
        assert len(hf.claim("q")) == 1
        few = effort(empty_url, hf, partial(hf.claim, "q"))
        hf.enqueue_many("q", range(100, 5_000), key=lambda body: f"other-{body}")
        many = effort(empty_url, hf, partial(hf.claim, "q"))

    assert many < 2 * few
