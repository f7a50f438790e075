"""Everything that works in this process: consumers, and the threads that look after them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.client.client import internals
from holdfast.core.labels import missing
from holdfast.errors import InvalidInput
from holdfast.topics.client import join
from holdfast.worker import import_guard
from holdfast.worker.consumer import Consumer
from holdfast.worker.executors.threads import Hand, ThreadHand
from holdfast.worker.heartbeat import Beats
from holdfast.worker.last_attempt_permit import Solitude
from holdfast.worker.lease_renewal import HandlerWatch, Renewal
from holdfast.worker.maintenance.leader import Keeper
from holdfast.worker.pools.supervisor import Supervisor
from holdfast.worker.preflight import fit
from holdfast.worker.sd_notify import Notifier
from holdfast.worker.signals import STOPPING, Signals
from holdfast.worker.worker import Worker

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast
    from holdfast.sqs.receiver import ProcessCourier
    from holdfast.sqs.steps.values import Courier
    from holdfast.worker.executors.asyncio import Loop

CALLS_OF_A_TURN = 4
"""So many database calls, one after the other, each within the client's patience, may a turn of a loop make."""

SLACK = 120.0
"""Seconds that a turn may take besides: a hibernating consumer sleeps for up to 60."""

STUBBORN = 2.0
"""Seconds that handlers have to notice that they must stop, once their grace is over; programs have theirs before."""


class Runner:
    """Consumers at work. `run` until a signal or `stop`; or `start`, do something else, and `stop`."""

    def __init__(
        self,
        hf: Holdfast,
        consumers: Sequence[Consumer],
        grace: float,
        *,
        loop: Any = None,
        pool: str | None = None,
    ) -> None:
        self.hf = hf
        self.grace = grace
        self.pool = pool
        self._given_loop = loop
        self._consumers = list(consumers)
        self._solitude = Solitude()
        self._renewal = Renewal(self._all)
        self._watch = HandlerWatch(self._all)
        self._beats = Beats(self._all)
        self._courier: ProcessCourier | None = None
        self._has_stopped = False
        self._opening = threading.Lock()
        self._keeper = Keeper(hf, f"{hf.worker}:{os.urandom(3).hex()}", self._slumber)
        self._asked: float | None = None
        self._insisted = threading.Event()
        self.notifier = Notifier()
        self.on_news: Callable[[bytes], None] | None = None
        self.workers: list[Worker] = []
        self.supervisors: list[Supervisor] = []

    def run(self, signals: Sequence[int] = STOPPING, on_started: Callable[[], object] = lambda: None) -> None:
        """Works until told to stop, or until every consumer has ended by itself."""
        with Signals(self.on_signal, signals):
            self.start()
            on_started()
            self.tell_ready()
            try:
                while not self.wait(self.notifier.pause) and not self._insisted.is_set():
                    self.notifier.ping(self.stuck)
            finally:
                self.stop(0 if self._insisted.is_set() else self.grace)

    def start(self) -> None:
        """Begins to work, in threads."""
        import_guard.refuse_in_a_cell()
        import_guard.refuse_in_a_member()
        internals(self.hf).catalog.open()
        for consumer in self._consumers:
            if consumer.subscription is not None:
                join(internals(self.hf), consumer.subscription)
        _refuse_missing_labels(self.hf, self._consumers)
        self._consumers = fit(self._consumers)
        pools = {} if self.pool else {pool.consumer: pool for pool in internals(self.hf).consumers.pools.values()}
        self.workers = [self.worker(consumer, self.pool) for consumer in self._consumers if consumer not in pools]
        self.supervisors = [Supervisor(self, pools[consumer]) for consumer in self._consumers if consumer in pools]
        self._renewal.start()
        self._watch.start()
        self._beats.start()
        self._keeper.start()
        if self._asked is not None:  # While there was nobody yet to tell: then nobody begins.
            self.ask_to_stop(self._asked)
        for part in self._parts():
            part.start()

    def trouble(self) -> str | None:
        """What has kept maintenance from its work for a while; None if it works."""
        return self._keeper.trouble()

    def tell_ready(self) -> None:
        """Tell systemd that the consumers run."""
        names = ", ".join(consumer.name for consumer in self._consumers)
        self.notifier.ready(f"Running {len(self._consumers)} consumer(s): {names}.")

    def stuck(self) -> str | None:
        """Return which loop of this process has ended or hangs, so that only a restart helps; None if all turn."""
        now, longest = time.monotonic(), CALLS_OF_A_TURN * self.hf.settings.patience + SLACK
        for one in (self._renewal, self._watch, self._keeper):
            if not one.is_alive():
                return f"{one.name} has ended"
        for worker in self._all():
            is_kept = worker not in self.workers  # By a pool, which replaces it.
            if worker.failed and not is_kept:
                return f"consumer {worker.consumer.name} has failed"
            if not worker.ended.is_set() and now > worker.turned_at + longest:
                return f"consumer {worker.consumer.name} has not claimed or settled anything for {longest:g} s"
        for supervisor in self.supervisors:
            if not supervisor.ended.is_set() and now > supervisor.turned_at + longest:
                return f"pool {supervisor.pool.name} has not been looked after for {longest:g} s"
        return f"maintenance hangs for {longest:g} s" if now > self._keeper.turned_at + longest else None

    def failed(self) -> list[str]:
        """Return the names of the consumers that a fault of their claim loop has ended."""
        return [worker.consumer.name for worker in self.workers if worker.failed]

    def wait(self, timeout: float | None = None) -> bool:
        """Until every consumer has ended; False if that took longer than `timeout`. Ours end with the others."""
        own = [part for part in self._parts() if not (isinstance(part, Worker) and part.consumer.find_queues)]
        return self._wait_for(own or self._parts(), timeout)

    def _wait_for(self, parts: Sequence[Worker | Supervisor], timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        for part in parts:
            while not part.ended.wait(0.5 if deadline is None else max(0.0, min(0.5, deadline - time.monotonic()))):
                if deadline is not None and time.monotonic() >= deadline:
                    return False
        return True

    def stop(self, grace: float | None = None) -> bool:
        """What is not begun goes back at once, what runs has `grace` seconds. Whether everything ended in time."""
        term = self.grace if grace is None else grace
        self.ask_to_stop(term)
        programs = max((one.stop_grace for one in self._consumers), default=0.0) if term > 0 else 0.0
        ended = self._wait_for(self._parts(), term + programs + STUBBORN)
        deadline = time.monotonic() + (STUBBORN if ended else 0)
        for hand in [hand for worker in self.workers for hand in worker.hands]:
            hand.join(max(0.0, deadline - time.monotonic()))
        self._stop_courier()
        self._renewal.stop()
        self._watch.stop()
        self._beats.stop()
        self._keeper.stop()
        if "_loop" in self.__dict__:
            self._loop.close(STUBBORN)
        return ended

    def ask_to_stop(self, grace: float) -> None:
        """The same without waiting for it, also while it starts. Asking again may shorten the time."""
        self._asked = grace
        self.notifier.stopping(f"Draining: handlers have {grace:g} s to finish.")
        for part in self._parts():
            part.stop(grace)

    def __enter__(self) -> Runner:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def on_signal(self, count: int) -> None:
        """The first asks, the second insists."""
        if count > 1:
            self._insisted.set()
        self.ask_to_stop(self.grace if count == 1 else 0)

    def _is_awake(self) -> bool:
        return bool(self.supervisors) or any(worker.state != "hibernating" for worker in self.workers)

    def _slumber(self) -> int | None:
        """None while anyone is awake; otherwise another number after every time that someone was."""
        naps = sum(worker.naps for worker in self.workers)
        return None if self._is_awake() else naps

    def _parts(self) -> list[Worker | Supervisor]:
        return [*self.workers, *self.supervisors]

    def _all(self) -> list[Worker]:
        return [*self.workers, *(worker for one in self.supervisors for worker in one.workers)]

    def worker(self, consumer: Consumer, pool: str | None) -> Worker:
        """A new one, not started yet."""
        worker = Worker(self.hf, consumer, self._solitude, self._hands_for(consumer), pool)
        worker.open_desk = self._open_desk
        worker.on_progress = self._beats.note_progress
        worker.outbox.on_news = self.on_news
        worker.on_held = self._expect
        return worker

    @property
    def courier(self) -> ProcessCourier:
        """Who waits for SQS on behalf of all workers; begun when the first of them needs it."""
        with self._opening:
            if self._courier is None:
                from holdfast.sqs.receiver import ProcessCourier

                self._courier = ProcessCourier(self.hf, self._is_awake)
                if self._has_stopped:
                    self._courier.stop()
            return self._courier

    def _open_desk(self, worker: Worker) -> Courier:
        from holdfast.sqs.receiver import ReceiverSeat

        return ReceiverSeat(self.courier, worker.wake)

    def _stop_courier(self) -> None:
        with self._opening:
            self._has_stopped = True
        if self._courier is not None:
            self._courier.stop()

    def _expect(self, term: float) -> None:
        self._renewal.expect(term)
        self._watch.expect(term)

    def _hands_for(self, consumer: Consumer) -> Callable[[Worker], Hand]:
        if consumer.isolation == "process":
            from holdfast.worker.executors.process import ProcessHand

            return ProcessHand
        return self._make_loop_hand if consumer.is_async else ThreadHand

    def _make_loop_hand(self, worker: Worker) -> Hand:
        from holdfast.worker.executors.asyncio import Filled, LoopHand

        if worker.shelf.on_fill is None:
            worker.shelf.on_fill = Filled(self._loop)
        assert isinstance(worker.shelf.on_fill, Filled), "a worker has hands of one kind"
        return LoopHand(worker, self._loop, worker.shelf.on_fill)

    @cached_property
    def _loop(self) -> Loop:
        from holdfast.worker.executors.asyncio import Loop

        return Loop(self._given_loop)


def _refuse_missing_labels(hf: Holdfast, consumers: Sequence[Consumer]) -> None:
    for consumer in consumers:
        for channel in internals(hf).catalog.channels(consumer.queues):
            lacking = missing(consumer.labels, channel.spec.requires)
            if lacking:
                wanted = ", ".join(f"{name}={text}" for name, text in lacking.items())
                raise InvalidInput(
                    f"the queue {channel.name!r} requires {wanted}, which the consumer {consumer.name!r} is not: "
                    f"@hf.consumer({channel.name!r}, labels={lacking!r}), or take it from another queue"
                )
