"""Commands under kill -9, in real processes: what one writes on its connection happens once."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, State
from holdfast.client.client import internals
from tests.acceptance.children import GUARD, Child, Family
from tests.long import only_long, size
from tests.waiting import eventually

Connect = Callable[..., Holdfast]

on_both = pytest.mark.parametrize("url", ["sqlite-apsw", "postgres"], indirect=True)
IN_TURN = pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("sqlite-apsw", "def"),
        ("postgres", "async def"),
        pytest.param("sqlite-apsw", "async def", marks=only_long),
        pytest.param("postgres", "def", marks=only_long),
    ],
    indirect=["url"],
)

LEASE = 1.0


@pytest.fixture
def hf(url: str, connect: Connect) -> Holdfast:
    client = connect(url, sweep_every=0)
    client.queue("q", lease=LEASE, max_attempts=100, backoff=None)
    client.queue("sent on")
    with internals(client).store.lend() as conn:
        conn.execute("CREATE TABLE effect (what TEXT)")
    return client


def effects(hf: Holdfast) -> list[str]:
    with internals(hf).store.lend() as conn:
        return [what for (what,) in conn.execute("SELECT what FROM effect").fetchall()]


def sent_on(hf: Holdfast) -> list[Any]:
    return [message.body for message in hf.queues.peek("sent on", 1000)]


@IN_TURN
def test_killed_again_and_again_every_effect_happens_once(family: Family, url: str, hf: Holdfast, kind: str) -> None:
    """Three processes, kill -9 at random points: one effect for each message, and one message sent on."""
    count, kills = size(100, 300), size(8, 25)
    put = hf.enqueue_many("q", [f"m{number}" for number in range(count)])
    chance = random.Random(7)

    def start() -> Child:
        return family.start("commander", url=url, queue="q", kind=kind, pause=0.002)

    workers = [start() for _ in range(3)]
    for _ in range(kills):
        family.wait_for_events(chance.randint(1, 1_500), "commander", unless=lambda: is_empty(hf))
        victim = chance.randrange(3)
        workers[victim].kill()
        workers[victim] = start()
    family.finish()
    assert sorted(effects(hf)) == sorted(f"m{number}" for number in range(count))
    assert sorted(sent_on(hf)) == sorted(effects(hf))
    assert {hf.status(one.id).state for one in put} == {State.SUCCEEDED}


def is_empty(hf: Holdfast) -> bool:
    found = hf.stats("q")
    return not (found.pending or found.waiting or found.processing)


@IN_TURN
@pytest.mark.parametrize(("dies", "left"), [("before the commit", []), ("after the commit", ["a"])])
def test_killed_right_beside_the_commit(
    family: Family, url: str, hf: Holdfast, kind: str, dies: str, left: list[str]
) -> None:
    """On one side of it nothing has happened, on the other everything, the ack too."""
    put = hf.enqueue("q", "a")
    victim = family.start("commander", url=url, queue="q", kind=kind, dies=dies)
    assert victim.process.wait(GUARD) == -9
    assert (effects(hf), sent_on(hf)) == (left, left)
    assert (hf.status(put.id).state is State.SUCCEEDED) == bool(left)
    family.start("commander", url=url, queue="q", kind=kind).finish()
    assert (effects(hf), sent_on(hf)) == (["a"], ["a"])
    assert hf.status(put.id).result == "a"


@on_both
def test_whoever_waits_for_a_key_goes_on_when_its_holder_is_killed(family: Family, url: str, hf: Holdfast) -> None:
    """The first has written, and dies; the second, with the same key, has waited for that and writes."""
    hf.queue("r", lease=LEASE, backoff=None)
    hf.enqueue("q", "a", idempotency_key="k")
    other = hf.enqueue("r", "b", idempotency_key="k")
    holder = family.start("commander", url=url, queue="q", dies="never")
    assert holder.hear() == "holds"
    if url.startswith("postgresql"):  # Where one file is one lock, the other could not even claim.
        rival = family.start("commander", url=url, queue="r")
        eventually(lambda: hf.stats("r").processing == 1, "the rival has its message")
        holder.kill()
        rival.finish()
    else:
        holder.kill()
        family.start("commander", url=url, queue="r").finish()
    assert (effects(hf), hf.status(other.id).result) == (["b"], "b")
    family.start("commander", url=url, queue="q").finish()
    assert (effects(hf), sent_on(hf)) == (["b"], ["b"])
