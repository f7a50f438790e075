"""For the tests of programs that use Holdfast: a clock that you move, a consumer that runs everything, assertions.

>>> clock = FakeClock()
>>> hf = Holdfast("sqlite:///test.db", clock=clock)
>>> receipt = hf.enqueue("emails", {"to": "ada@example.com"}, delay="1h")
>>> [message.body for message in drain(hf, "emails", clock=clock)]
[{'to': 'ada@example.com'}]
>>> hf.close()

With pytest, the fixtures `holdfast` (a client on a new SQLite file) and `holdfast_clock` are there without an import.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from holdfast.client.claim import Claim
from holdfast.client.client import Holdfast, internals
from holdfast.core import times
from holdfast.core.dead_letter import DeadLetterRecord
from holdfast.core.duration import Duration, micros
from holdfast.core.message import Message

ANY: Any = object()
"""A value that an assertion does not look at."""

_MOST_ROUNDS = 100_000


class FakeClock:
    """Stands still until it is moved: `Holdfast(url, clock=FakeClock())`. Shows microseconds since 1970."""

    def __init__(self, now: int = 1_767_225_600_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    @property
    def utc(self) -> datetime:
        """What it shows, as the times of messages are: `message.enqueued_at == clock.utc`."""
        return times.utc(self.now)

    def advance(self, duration: Duration) -> None:
        """Moves it: `advance(90)`, `advance("1h")`; a negative number of seconds moves it back."""
        forward = isinstance(duration, str) or duration >= 0
        self.now += micros(duration) if forward else -micros(-float(duration))


def drain(
    hf: Holdfast, *queues: str, handler: Callable[[Message], Any] | None = None, clock: FakeClock | None = None
) -> list[Message]:
    """Works on everything in these queues, one by one, until nothing is left; the messages, in the order of their acks.

    What `handler` returns is the result of the ack; if it raises, the message is nacked and comes back as its queue
    says.
    With the client's fake `clock`, time jumps to whatever is due next: delays and retries take no time.
    """
    done: list[Message] = []
    for _ in range(_MOST_ROUNDS):
        claims = hf.claim(*queues)
        if not claims and not _jump(hf, queues, clock):
            return done
        done += [claim.message for claim in claims if _work(claim, handler)]
    raise AssertionError(
        f"after {_MOST_ROUNDS:,} messages {', '.join(queues)} still had work: does a handler feed itself?"
    )


def assert_enqueued(
    hf: Holdfast,
    queue: str,
    *,
    body: Any = ANY,
    key: Any = ANY,
    priority: Any = ANY,
    headers: Any = ANY,
    count: int | None = None,
) -> list[Message]:
    """There are messages like this in the queue and due now (exactly `count` of them, if given); those messages."""
    waiting = hf.queues.peek(queue, 100_000)
    wanted = {"body": body, "key": key, "priority": priority, "headers": headers}
    found = [message for message in waiting if _fits(message, wanted)]
    if not found or (count is not None and len(found) != count):
        asked = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not ANY)
        there = "".join(f"\n  {message!r} {message.body!r}" for message in waiting[:10]) or " nothing"
        expected = "a message" if count is None else f"{count} messages"
        raise AssertionError(f"expected {expected} with {asked or 'anything'} in {queue!r}; there is:{there}")
    return found


def assert_empty(hf: Holdfast, *queues: str) -> None:
    """Nothing is pending, waiting or in work."""
    left = {queue: hf.stats(queue) for queue in queues}
    busy = {queue: one for queue, one in left.items() if one.pending or one.waiting or one.processing}
    if busy:
        raise AssertionError(
            "expected nothing, but " + "; ".join(f"{queue!r} has {one}" for queue, one in busy.items())
        )


def assert_dead(hf: Holdfast, queue: str, *, error: str = "", count: int | None = None) -> list[DeadLetterRecord]:
    """There are dead letters whose error contains this text (exactly `count`, if given); those letters."""
    letters = hf.dead_letters.list(queue, n=100_000, error=error or None)
    if not letters or (count is not None and len(letters) != count):
        others = "".join(f"\n  {one.error.splitlines()[0]}" for one in hf.dead_letters.list(queue, n=10)) or " none"
        expected = "a dead letter" if count is None else f"{count} dead letters"
        raise AssertionError(f"expected {expected} with {error!r} in {queue!r}; there are:{others}")
    return letters


def _work(claim: Claim, handler: Callable[[Message], Any] | None) -> bool:
    try:
        result = handler(claim.message) if handler is not None else None
    except Exception as problem:
        claim.nack(problem)
        return False
    claim.ack(result)
    return True


def _jump(hf: Holdfast, queues: tuple[str, ...], clock: FakeClock | None) -> bool:
    """Moves the clock to the next delay, backoff or lease that ends; False if there is none."""
    if clock is None:
        return False
    due = internals(hf).store.reads.next_due([internals(hf).catalog.channel(queue) for queue in queues])
    if due is None:
        return False
    clock.advance(max(due, 0.000001))
    return True


def _fits(message: Message, wanted: dict[str, Any]) -> bool:
    return all(value is ANY or getattr(message, name) == value for name, value in wanted.items())
