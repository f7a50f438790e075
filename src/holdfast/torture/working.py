"""Workers: claims that end in every way there is, bare ones and those of running consumers."""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Sequence

from holdfast.client.claim import Claim
from holdfast.client.client import Holdfast
from holdfast.core.message import Message
from holdfast.errors import DeliveryFailed, LeaseLost, StoreError
from holdfast.torture.control_channel import Strings
from holdfast.torture.plan import TortureJob
from holdfast.worker.outcomes import DeadLetter, Retry, Snooze

MOST_CLAIMED = 20
SLOW_ONE_IN = 25
SLOW_ATTEMPTS = 3


class BadMood(Exception):
    """A handler that fails."""


Deed = Callable[[list[Claim]], None]


class TortureWorker:
    """Claims, and does something to what it got."""

    def __init__(self, hf: Holdfast, job: TortureJob, strings: Strings, queues: Sequence[str]) -> None:
        self._hf = hf
        self._strings = strings
        self._queues = list(queues)
        self._lease = job.plan.lease
        self._chance = random.Random(f"{job.plan.seed} {job.name}")  # noqa: S311
        self._held: list[Claim] = []
        self._later: list[tuple[float, Deed, list[Claim]]] = []

    def work(self) -> None:
        while not self._strings.over:
            self._guarded(self._once)
        self._release([*self._held, *(claim for _, _, claims in self._later for claim in claims)])

    def _once(self) -> None:
        """Half of the time the last claims are acked on the way to the next."""
        self._catch_up()
        held, self._held = self._held, []
        queues = self._chance.sample(self._queues, len(self._queues))
        claims = self._hf.claim(*queues, n=self._chance.randint(1, MOST_CLAIMED), wait=0.1, ack=held)
        if claims:
            self._strings.wait(self._chance.choice([0, 0, 0.001, 0.01, 0.05]))
            self._settle(claims)

    def _settle(self, claims: list[Claim]) -> None:
        slow = [claim for claim in claims if is_slow(claim)]
        if slow:
            self._put_off(slow, self._chance.uniform(1.02, 1.5), self._any_deed())
        quick = [claim for claim in claims if not is_slow(claim)]
        some = [claim for claim in quick if self._chance.random() < 0.5]
        self._any_deed()(some)
        rest = [claim for claim in quick if claim not in some]
        if self._chance.random() < 0.5:
            self._held = rest
        else:
            self._ack(rest)

    def _any_deed(self) -> Deed:
        deeds: list[tuple[Deed, int]] = [
            (self._ack, 60),
            (lambda some: self._guarded(lambda: self._hf.nack(some, "a bad mood", delay=0)), 12),
            (lambda some: self._guarded(lambda: self._hf.nack(some, "backoff")), 4),
            (self._release, 8),
            (lambda some: self._guarded(lambda: self._hf.snooze(some, 0.1)), 6),
            (lambda some: self._guarded(lambda: self._hf.dead_letter(some[:1], "hopeless")), 2),
            (self._renew, 6),
        ]
        return self._chance.choices([deed for deed, _ in deeds], [weight for _, weight in deeds])[0]

    def _ack(self, some: list[Claim]) -> None:
        self._guarded(lambda: self._hf.ack(some))

    def _release(self, some: list[Claim]) -> None:
        self._guarded(lambda: self._hf.release(some))

    def _renew(self, some: list[Claim]) -> None:
        """And ack when the lease would have been over without it."""
        self._guarded(lambda: self._hf.extend(some, self._lease * 2))
        self._put_off(some, self._chance.uniform(0.2, 1.5), self._ack)

    def _put_off(self, some: list[Claim], leases: float, deed: Deed) -> None:
        self._later.append((time.monotonic() + leases * self._lease, deed, some))

    def _catch_up(self) -> None:
        now = time.monotonic()
        due = [one for one in self._later if one[0] <= now]
        self._later = [one for one in self._later if one[0] > now]
        for _, deed, claims in due:
            deed(claims)

    def _guarded(self, call: Callable[[], object]) -> None:
        """What was lost is lost; and a database may be full or away, and comes back."""
        try:
            call()
        except LeaseLost:
            return
        except (StoreError, DeliveryFailed):
            self._strings.wait(0.05)


def is_slow(claim: Claim) -> bool:
    """Some messages take longer than their lease, more than once: an answer comes when the next one is at work."""
    return claim.attempt <= SLOW_ATTEMPTS and zlib.crc32(claim.message.raw_id) % SLOW_ONE_IN == 0


def consume(hf: Holdfast, job: TortureJob, strings: Strings, queues: Sequence[str]) -> None:
    """The same as a consumer of `hf.run()`, whose claims are renewed, prefetched and settled for it."""
    chance = random.Random(f"{job.plan.seed} {job.name}")  # noqa: S311

    def handle(message: Message) -> str:
        luck = chance.random()
        time.sleep(chance.choice([0, 0, 0.001, 0.01]))
        if luck < 0.06:
            raise BadMood
        if luck < 0.08:
            raise Retry(0.1)
        if luck < 0.10:
            raise Snooze(0.1)
        if luck < 0.11:
            raise DeadLetter("hopeless")
        if luck < 0.13:
            time.sleep(job.plan.lease * 1.3)
        return "done"

    hf.consumer(*queues, name="torture", concurrency=4)(handle)
    strings.at_the_end = hf.stop
    hf.run(grace=job.plan.lease)
