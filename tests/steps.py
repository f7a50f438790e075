"""Short words for what nearly every test of this suite does."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from holdfast import Claim, Holdfast, Notice, Schedule, State
from holdfast.client.client import internals
from holdfast.consumers.rules import Beat
from holdfast.store.api import Waiter
from tests.waiting import eventually

OpenClient = Callable[..., Holdfast]


def bodies(claims: Iterable[Claim]) -> list[Any]:
    return [claim.message.body for claim in claims]


def listening(bell: Waiter, channel: int) -> Waiter:
    """A bell that hears what is rung, and has heard all that its own beginning had to say.

    Until a session of PostgreSQL has begun to listen, a sleeper is woken once for nothing. How long that takes depends
    on the machine, so silence alone does not tell.
    """
    listener = getattr(bell, "_listener", None)
    if type(listener).__name__ == "Listener":
        eventually(lambda: listener._everyone, "the server knows of the listener")
    while bell.wait([channel], 0.1):
        pass
    return bell


def claim_one(hf: Holdfast, queue: str = "q", **options: Any) -> Claim:
    """The one message that can be claimed now."""
    [claim] = hf.claim(queue, n=10, **options)
    return claim


def drain(hf: Holdfast, queue: str = "q") -> list[Any]:
    """Claims and acks one by one until nothing is left; the bodies, in order."""
    found = []
    while claims := hf.claim(queue):
        found += bodies(claims)
        hf.ack(claims)
    return found


class Counts(NamedTuple):
    """How many messages are where."""

    pending: int
    waiting: int
    processing: int
    dead: int


def counts(hf: Holdfast, queue: str = "q") -> Counts:
    """The four counts of a queue's stats."""
    found = hf.stats(queue)
    return Counts(found.pending, found.waiting, found.processing, found.dead)


def state(hf: Holdfast, message_id: str) -> State | None:
    """Where a message is; None if it is unknown."""
    found = hf.status(message_id)
    return found and found.state


def states(hf: Holdfast, claims: Iterable[Claim]) -> list[str]:
    """Where the messages of claims are."""
    return [hf.status(claim.message.id).state.value for claim in claims]


def run_of(hf: Holdfast, size: int) -> list[Claim]:
    """A run of numbered messages under one lease."""
    hf.enqueue_many("q", range(size))
    claims = hf.claim("q", n=size)
    assert len({claim.lease.token for claim in claims}) == 1
    return claims


def row(hf: Holdfast, body: object = "row") -> Claim:
    """A claim of a message that has a state of its own."""
    hf.enqueue("q", body)
    hf.release(hf.claim("q"))
    return claim_one(hf)


def kill(hf: Holdfast, body: Any = "doomed", queue: str = "q", **options: Any) -> str:
    """Enqueues a message and lets its first attempt be its last; the id of the dead letter."""
    hf.enqueue(queue, body, **options)
    [claim] = hf.claim(queue)
    claim.dead_letter("boom")
    return hf.dead_letters.list(queue)[-1].id


def beat(worker: str = "w1", **told: Any) -> Beat:
    """What a consumer tells; it holds for ten seconds unless said otherwise."""
    usual = {"consumer": "mailer", "host": "box", "pid": 7, "queues": ["q"], "state": "working", "valid_for": 10}
    return Beat(id=worker, **{**usual, **told})


def the_schedule(hf: Holdfast) -> Schedule:
    """The only one that there is."""
    [found] = hf.schedules.list()
    return found


class NoticedBell:
    """A bell that tells when its sleeper lies down."""

    def __init__(self, bell: Waiter, asleep: threading.Semaphore) -> None:
        self._bell, self._asleep = bell, asleep
        self.close, self.poke = bell.close, bell.poke

    def wait(self, channels: Sequence[int], timeout: float) -> bool:
        self._asleep.release()
        return self._bell.wait(channels, timeout)


def sleepers(hf: Holdfast) -> threading.Semaphore:
    """Goes up by one whenever a claim of this client has found nothing and goes to sleep."""
    asleep, bell = threading.Semaphore(0), internals(hf).store.wakeup.bell
    internals(hf).store.wakeup.bell = lambda: NoticedBell(bell(), asleep)
    return asleep


def together(work: Callable[[Any], object], wishes: Iterable[Any]) -> None:
    """Runs them in threads of their own; the first error is raised."""
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(work, wishes))


def inbox(hf: Holdfast, name: str = "mia.inbox") -> list[Any]:
    """What waits for an owner, in the order of claiming."""
    return [message.body for message in hf.queues.peek(name, 100)]


def one_notice(hf: Holdfast, **options: Any) -> Notice:
    """The only notice there is."""
    (notice,) = hf.notices.list(**options)
    return notice
