"""Producers: messages of every kind, to queues and topics, and sagas; what they are not told of, they send again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from holdfast.client.client import Holdfast, internals
from holdfast.errors import HoldfastError, StoreError
from holdfast.torture.control_channel import Strings
from holdfast.torture.history import INVOKE, OK, SEND, START_SAGA, Item, Sink
from holdfast.torture.plan import KEYS, NEWS, ORDERED, PLAIN, SAGA, TICKS, URGENT, TortureJob
from holdfast.torture.recording import outcome_of

LONGEST_BATCH = 20
PATIENCE = 1.0
"""Seconds: a producer often gives up while the database is away, and does not know what became of its message."""


class TortureProducer:
    """Sends until it is told to stop."""

    def __init__(self, hf: Holdfast, job: TortureJob, sink: Sink, strings: Strings) -> None:
        self._hf = hf
        self._sink = sink
        self._strings = strings
        self._chance = random.Random(f"{job.plan.seed} {job.name}")  # noqa: S311
        self._name = job.name
        self._pace = job.plan.rate / max(1, job.plan.workers // 2)
        self._count = 0

    def work(self) -> None:
        started, sent = time.monotonic(), 0
        while not self._strings.over:
            sent += self._once()
            owed = started + sent / self._pace - time.monotonic()
            if owed < -1.0:  # Whoever was stopped for a while does not make up for it with a flood.
                started, sent = time.monotonic(), 0
            self._strings.wait(max(0.0, owed))

    def _once(self) -> int:
        kind = self._chance.choices(
            [self._send_plain, self._send_ordered, self._send_urgent, self._publish, self._tick, self._start_saga],
            [12, 10, 4, 6, 6, 3],
        )[0]
        return kind()

    def _send_plain(self) -> int:
        """A batch; now and then late, or of another priority."""
        bodies = self._values(self._chance.randint(1, LONGEST_BATCH))
        priority = self._chance.choice([0, 1, 2, 2, 2, 3])
        delay = self._chance.choice([0, 0, 0, 0.2, 1.0])
        if self._chance.random() < 0.3:
            return self._insist(
                lambda: self._hf.enqueue_many(PLAIN, bodies, priority=priority, idempotency_key=lambda body: body),
                len(bodies),
            )
        return self._try(lambda: self._hf.enqueue_many(PLAIN, bodies, priority=priority, delay=delay), len(bodies))

    def _send_ordered(self) -> int:
        key = f"k{self._chance.randrange(KEYS)}"
        bodies = self._values(self._chance.randint(1, 4))
        for body in bodies:
            if self._chance.random() < 0.5:
                self._try(lambda body=body: self._hf.enqueue(ORDERED, body, key=key))  # type: ignore[misc]
            else:
                self._insist(lambda body=body: self._hf.enqueue(ORDERED, body, key=key, idempotency_key=body))  # type: ignore[misc]
        return len(bodies)

    def _send_urgent(self) -> int:
        """Each with a key of its own under which it may be sent twice, on purpose."""
        [body] = self._values(1)
        done = self._insist(lambda: self._hf.enqueue(URGENT, body, priority=0, idempotency_key=body))
        if self._chance.random() < 0.3:
            self._insist(lambda: self._hf.enqueue(URGENT, body, priority=0, idempotency_key=body))
        return done

    def _publish(self) -> int:
        key = f"k{self._chance.randrange(KEYS)}"
        bodies = self._values(self._chance.randint(1, 5))
        return self._try(lambda: self._hf.publish_many(NEWS, bodies, key=key), len(bodies))

    def _tick(self) -> int:
        bodies = self._values(self._chance.randint(1, LONGEST_BATCH))
        return self._insist(
            lambda: self._hf.publish_many(TICKS, bodies, idempotency_key=lambda body: body), len(bodies)
        )

    def _start_saga(self) -> int:
        [saga] = self._values(1)
        call = self._sink.call()
        self._sink.note(START_SAGA, INVOKE, [Item(saga)], call=call)
        try:
            self._hf.start_saga(SAGA, {"trip": saga}, id=saga)
        except HoldfastError as problem:
            self._sink.note(START_SAGA, outcome_of(problem), [Item(saga)], call=call)
            self._strings.wait(0.05)
        else:
            self._sink.note(START_SAGA, OK, [Item(saga)], call=call)
        return 8

    def _values(self, count: int) -> list[str]:
        self._count += count
        return [f"{self._name}-{number}" for number in range(self._count - count, self._count)]

    def _try(self, send: Callable[[], object], count: int = 1) -> int:
        """Once. What became of it stands in the history."""
        try:
            send()
        except StoreError:
            self._strings.wait(0.05)
        return count

    def _insist(self, send: Callable[[], object], count: int = 1) -> int:
        """Until it is stored: with a key, that is safe."""
        while not self._strings.over:
            try:
                send()
                break
            except StoreError:
                self._strings.wait(0.05)
        return count


def send_late(hf: Holdfast, sink: Sink, values: tuple[str, str], wait: Callable[[float], object], span: float) -> None:
    """Two messages in a transaction that stays open for a while: others overtake them, and none may be passed by.

    Their ids are known once they are in the transaction, and nobody sees them before its commit. By then they have
    their place, before what others publish meanwhile: they count as sent since the transaction began.
    """
    items: list[Item] = []
    call, began = sink.call(), sink.now()
    try:
        with internals(hf).store.lend() as connection:
            items.append(Item(hf.enqueue(PLAIN, values[0], conn=connection).id, PLAIN, values[0]))
            items.append(Item(hf.publish(TICKS, values[1], conn=connection).id, TICKS, values[1]))
            sink.note(SEND, INVOKE, items, call=call, at=began)
            wait(span)
    except HoldfastError as problem:
        if len(items) == len(values):
            sink.note(SEND, outcome_of(problem), items, call=call)
    else:
        sink.note(SEND, OK, items, call=call)
