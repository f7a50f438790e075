"""What happens in a demo, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from holdfast import Holdfast, HoldfastError, State, Stats
from holdfast.cli.demo.ledger import DemoAccount, DemoVerdict
from holdfast.cli.demo.plan import ATTEMPTS, BACKOFF, LEASE, DemoPlan
from holdfast.cli.demo.team import DemoProcess, Team

_TICK = 0.05
_LOOK = 0.25
_PAGE = 500

_REPORTS = 10.0
"""Seconds that reports of what the database already knows may take."""


class DemoFailed(HoldfastError):
    """The demo did not come to its end."""


class DemoAudience(Protocol):
    """Who watches."""

    def show(self, story: Story) -> None: ...
    def tell(self, story: Story, line: str) -> None: ...


class Story:
    """One demo: the processes, the queue, and the account of every message."""

    def __init__(self, plan: DemoPlan, folder: Path, audience: DemoAudience) -> None:
        self.plan = plan
        self.ledger = DemoAccount()
        self.stats = Stats()
        self._audience = audience
        self._started = time.monotonic()
        self._looked = 0.0
        self._pulse: deque[tuple[float, int]] = deque([(0.0, 0)])
        self.hf = Holdfast(plan.url, tenant=plan.tenant, worker="demo")
        self.hf.queue(plan.queue, lease=LEASE, max_attempts=ATTEMPTS, backoff=BACKOFF)
        self.team = Team(plan, folder)

    def __enter__(self) -> Story:
        return self

    def __exit__(self, *_: object) -> None:
        self.team.close()
        self.hf.close()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    @property
    def rate(self) -> float:
        """Messages done per second, lately."""
        (then, before), (now, after) = self._pulse[0], self._pulse[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def run(self) -> DemoVerdict:
        """From the first message to the verdict."""
        self._until(lambda: bool(self.ledger.done), "the first message to be done")
        self._tell(f"{len(self.team.members)} processes are at work on one queue")
        self._until(lambda: len(self.ledger.done) >= 0.3 * self.plan.messages, "a third of the work")
        victim = self.team.consumers[len(self.team.consumers) // 2]
        self._until(lambda: self._kill_in_mid_work(victim) or self._is_over(), f"{victim.name} to hold messages")
        if victim.killed:
            self._wait_for_take_over()
        self._until(self._is_over, "every message to end")
        self._until(self._is_reported, "the last reports", patience=_REPORTS, needed=False)
        verdict = self.ledger.verdict(self._dead(), self._succeeded)
        self._tell(f"every message has ended: {verdict.done:,} done, {verdict.dead:,} dead")
        self._replay_one()
        return verdict

    def _kill_in_mid_work(self, victim: DemoProcess) -> bool:
        """Kills a consumer in the first half of its work on a claim: freeze it, look what it holds, then decide.

        It may have acked without having said so yet, so the database is asked what it holds. Every message must have
        attempts left, so that others take it over.
        """
        age = time.monotonic() - victim.tally.claimed_at
        if not victim.tally.held or age > 0.5 * self.plan.work * len(victim.tally.held):
            return False
        victim.freeze()
        self._hear(0)
        if not victim.tally.held or not all(map(self._is_held, victim.tally.held)):
            victim.thaw()
            return False
        victim.kill()
        self.ledger.orphan(victim.tally)
        held = len(self.ledger.orphans)
        self._tell(f"kill -9: {victim.name} (pid {victim.process.pid}) dies with {held} messages in its hands")
        return True

    def _wait_for_take_over(self) -> None:
        orphans, taken = self.ledger.orphans, self.ledger.taken_over
        self._until(lambda: orphans <= taken or self._is_over(), "the lease of the killed consumer to end")
        # If that was the last work there was, the database knows of its end before the report of it is read.
        self._until(lambda: orphans <= taken, "the last reports", patience=_REPORTS, needed=False)
        self._tell(
            f"its lease of {LEASE:.0f} s is over: other consumers have taken over {len(taken)} of {len(orphans)}"
        )

    def _replay_one(self) -> None:
        letters = self.hf.dead_letters.list(self.plan.queue, n=1)
        if not letters:
            return
        for member in self.team.consumers:
            member.tell(b"fixed")
        fresh = self.hf.dead_letters.replay(letters[0].id).id
        self._until(lambda: self._succeeded(fresh), "the replayed message to be done")
        order = letters[0].message.body["order"]
        self._tell(f"the handler is mended and a dead letter replayed: order {order} went through this time")

    def _is_over(self) -> bool:
        busy = self.stats.pending + self.stats.waiting + self.stats.processing
        return self._looked > 0 and not busy and all(member.ended for member in self.team.producers)

    def _is_reported(self) -> bool:
        return len(self.ledger.done) + self.stats.dead >= len(self.ledger.enqueued)

    def _until(
        self, reached: Callable[[], bool], what: str, patience: float | None = None, needed: bool = True
    ) -> None:
        deadline = time.monotonic() + (patience or self.plan.patience)
        while True:
            self._hear(_TICK)
            if reached():
                return
            self._look()
            if time.monotonic() > deadline:
                if needed:
                    raise DemoFailed(f"the demo waited {self.plan.patience:.0f} s in vain for {what}")
                return

    def _look(self) -> None:
        crashed = next((member for member in self.team.members if member.crashed), None)
        if crashed is not None:
            raise DemoFailed(f"{crashed.name} of the demo ended by itself: {crashed.last_words}")
        if self.elapsed - self._looked >= _LOOK:
            self._looked = self.elapsed
            self.stats = self.hf.stats(self.plan.queue)
            self._pulse.append((self.elapsed, len(self.ledger.done)))
            while self.elapsed - self._pulse[0][0] > 1.5:
                self._pulse.popleft()
        self._audience.show(self)

    def _hear(self, timeout: float) -> None:
        for member, report in self.team.hear(timeout):
            self.ledger.note(member.tally, report)

    def _tell(self, line: str) -> None:
        self._audience.tell(self, line)

    def _dead(self) -> set[str]:
        found: set[str] = set()
        after = None
        while letters := self.hf.dead_letters.list(self.plan.queue, n=_PAGE, after=after):
            found.update(letter.message.id for letter in letters)
            after = letters[-1].id
        return found

    def _is_held(self, message_id: str) -> bool:
        status = self.hf.status(message_id)
        return status is not None and status.state is State.PROCESSING and status.attempts < ATTEMPTS

    def _succeeded(self, message_id: str) -> bool:
        status = self.hf.status(message_id)
        return status is not None and status.state is State.SUCCEEDED
