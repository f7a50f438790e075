"""A child process of the demo: a producer or a consumer, started as `python -m holdfast.cli.demo.worker`.

Its first line of input is its job; a later line says that the handler's bug is fixed; the end of the input means stop.
That end also comes when the demo itself is killed, so no worker outlives it. What it does is reported line by line on
its output, always after the fact: a report of an ack is written when the ack is committed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable

import msgspec

from holdfast import Claim, Holdfast, LeaseLost
from holdfast.cli.demo.plan import DemoJob, DemoPlan

_WAIT = 0.5
_SHORTEST_NAP = 0.002


class Enqueued(msgspec.Struct, tag=True):
    """These messages are stored."""

    ids: list[str]


class DemoClaimed(msgspec.Struct, tag=True):
    """These messages are being worked on, by this worker only, since `at` on the clock that all processes share."""

    ids: list[str]
    at: float


class Settled(msgspec.Struct, tag=True):
    """These claims have ended: the work was done, or it failed."""

    done: list[str]
    failed: list[str]


Report = Enqueued | DemoClaimed | Settled

_encode = msgspec.json.Encoder().encode


class DemoOrders:
    """What the parent says while the work goes on."""

    def __init__(self) -> None:
        self.fixed = False
        self.stopped = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for _ in sys.stdin:
            self.fixed = True
        self.stopped.set()


class PretendedWork:
    """Pretended work. Tiny pieces are saved up, because a nap of a few microseconds takes far longer."""

    def __init__(self, piece: float) -> None:
        self._piece = piece
        self._owed = 0.0

    def work(self) -> None:
        """One message's worth."""
        self._owed += self._piece
        if self._owed >= _SHORTEST_NAP:
            started = time.monotonic()
            time.sleep(self._owed)
            self._owed -= time.monotonic() - started


def produce(hf: Holdfast, plan: DemoPlan, number: int, orders: DemoOrders) -> None:
    """Enqueues a share of the messages, spread over the time that the plan gives."""
    share = plan.share(number)
    pause = plan.producing * plan.batch / max(len(share), 1)
    started = time.monotonic()
    for turn, first in enumerate(range(0, len(share), plan.batch)):
        bodies = [plan.body(order) for order in share[first : first + plan.batch]]
        report(Enqueued([receipt.id for receipt in hf.enqueue_many(plan.queue, bodies)]))
        if orders.stopped.wait(max(0.0, started + (turn + 1) * pause - time.monotonic())):
            return


def consume(hf: Holdfast, plan: DemoPlan, orders: DemoOrders) -> None:
    """Claims, works, settles, until told to stop."""
    pace = PretendedWork(plan.work)
    while not orders.stopped.is_set():
        claims = hf.claim(plan.queue, n=plan.batch, wait=_WAIT)
        if not claims:
            continue
        report(DemoClaimed(ids(claims), time.monotonic()))
        good: list[Claim] = []
        bad: list[Claim] = []
        for claim in claims:
            pace.work()
            (good if orders.fixed or claim.attempt > claim.message.body["fails"] else bad).append(claim)
        report(Settled(done=ids(acked(hf, good)), failed=ids(nacked(hf, bad))))


def acked(hf: Holdfast, claims: list[Claim]) -> list[Claim]:
    """Acks; those whose lease still held. The others belong to another consumer by now."""
    try:
        hf.ack(claims)
    except LeaseLost:
        return [claim for claim in claims if claim.ended]
    return claims


def nacked(hf: Holdfast, claims: list[Claim]) -> list[Claim]:
    """The same for failed attempts."""
    try:
        hf.nack(claims, "the handler said no")
    except LeaseLost:
        return [claim for claim in claims if claim.ended]
    return claims


def ids(claims: Iterable[Claim]) -> list[str]:
    return [claim.message.id for claim in claims]


def report(what: Report) -> None:
    """One line, written at once and whole: a kill may come at any moment."""
    line = _encode(what) + b"\n"
    while line:
        line = line[os.write(sys.stdout.fileno(), line) :]


def main() -> None:
    job = msgspec.json.decode(sys.stdin.readline(), type=DemoJob)
    orders = DemoOrders()
    with Holdfast(job.plan.url, tenant=job.plan.tenant, worker=f"{job.role} {job.number + 1}") as hf:
        if job.role == "producer":
            produce(hf, job.plan, job.number, orders)
        else:
            consume(hf, job.plan, orders)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # Nobody listens any more. Leave without a word, and without the flush that would fail again.
        os._exit(0)
