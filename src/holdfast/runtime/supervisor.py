"""Keeps a pool: starts members, drains them, starts crashed ones again, and says so when that is of no use."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from holdfast.core.scaling import Load, Scaler, to_drain
from holdfast.core.supervision import CrashLog
from holdfast.errors import HoldfastError
from holdfast.events import MemberCrashed, PoolGaveUp, PoolScaled
from holdfast.runtime.members import SEAT_TERM, Member, ProcessMember, ThreadMember
from holdfast.runtime.pool import Pool
from holdfast.store.api import Seat

if TYPE_CHECKING:
    from holdfast.runtime.runner import Runner
    from holdfast.runtime.worker import Worker

log = logging.getLogger("holdfast")

LOOK_EVERY = 0.5
"""Seconds between two looks at the queues; members that have ended are noticed a little earlier."""

INSIST_AFTER = 2.0
"""Seconds past the grace after which a process that drains is killed."""


class Supervisor:
    """One process's part of a pool. What all of them have together is counted in the database, seat by seat."""

    def __init__(self, runner: Runner, pool: Pool) -> None:
        self.hf = runner.hf
        self.pool = pool
        self.members: list[Member] = []
        self.workers: list[Worker] = []
        self.ended = threading.Event()
        self._runner = runner
        self._scaler = Scaler(pool.spec)
        self._crashes = CrashLog(pool.restarts)
        self._gave_up = False
        self._draining: set[int] = set()
        self._wake = threading.Event()
        self._stopping = False
        self._insists = False
        self._grace_ends = 0.0
        self._thread = threading.Thread(target=self._run, name=f"holdfast-pool-{pool.name}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Drains all members of this process. Asking again insists."""
        self._insists = self._stopping
        self._grace_ends = time.monotonic() + grace
        self._stopping = True
        self._wake.set()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._look_safely()
                self._wake.wait(LOOK_EVERY)
                self._wake.clear()
            self._drain_all()
        finally:
            self.ended.set()

    def _look_safely(self) -> None:
        try:
            self._look()
        except HoldfastError as problem:
            log.warning("pool %s: %s; it goes on as soon as it can", self.pool.name, problem)

    def _look(self) -> None:
        self._bury()
        seats = self.hf.store.seats.taken(self.hf.settings.tenant, self.pool.name)
        wanted = self._scaler.wanted(self._load(), len(seats), time.monotonic())
        if wanted > len(seats):
            self._grow(len(seats), wanted)
        elif wanted < len(seats):
            self._shrink({seat.number for seat in seats}, wanted)

    def _load(self) -> Load:
        stats = [self.hf.stats(queue) for queue in self.pool.consumer.queues]
        ages = [one.age_of_oldest_item or 0.0 for one in stats if one.pending]
        return Load(sum(one.pending for one in stats), max(ages, default=0.0))

    def _grow(self, running: int, wanted: int) -> None:
        if self._gave_up or time.monotonic() < self._crashes.not_before:
            return
        for _ in range(wanted - running):
            seat = self.hf.store.seats.take(
                self.hf.settings.tenant, self.pool.name, self.hf.worker, wanted, round(SEAT_TERM * 1_000_000)
            )
            if seat is None:
                break
            self.members.append(self._new_member(seat))
        self._tell(PoolScaled, before=running, wanted=wanted)

    def _new_member(self, seat: Seat) -> Member:
        if self.pool.members == "process":
            return ProcessMember(self.pool, seat, self._runner.grace)
        worker = self._runner.worker(self.pool.consumer)
        self.workers.append(worker)
        return ThreadMember(self.pool, worker, seat, self._runner.grace)

    def _shrink(self, seats: set[int], wanted: int) -> None:
        leaving = to_drain(sorted(seats), wanted)
        for member in self.members:
            if member.seat.number in leaving and member.seat.number not in self._draining:
                self._draining.add(member.seat.number)
                member.drain()
                self._tell(PoolScaled, before=len(seats), wanted=wanted)

    def _bury(self) -> None:
        """Takes note of members that have ended."""
        for member in [member for member in self.members if member.exit_code is not None]:
            self.members.remove(member)
            self._draining.discard(member.seat.number)
            if member.exit_code:
                self._crashed(member)
        self.workers = [worker for worker in self.workers if not worker.ended.is_set()]

    def _crashed(self, member: Member) -> None:
        """Its seat is free at once: who held it is gone for sure."""
        self.hf.store.seats.leave(self.hf.settings.tenant, self.pool.name, member.seat)
        code = member.exit_code or 0
        words = f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._crashes.note(time.monotonic(), words)
        self._tell(MemberCrashed, words=words)
        log.warning("pool %s: a consumer was %s", self.pool.name, words)
        if self._crashes.has_given_up(time.monotonic()) and not self._gave_up:
            self._give_up(words)

    def _give_up(self, words: str) -> None:
        self._gave_up = True
        rules = self.pool.restarts
        error = (
            f"the pool {self.pool.name!r} was given up by {self.hf.worker}: {rules.most} consumers crashed within "
            f"{rules.window:g} s, the last one was {words}. Mend the cause, then start the worker again"
        )
        log.error("%s", error)
        self._tell(PoolGaveUp, error=error)
        self.hf.report("crash_loop", self.pool.name, error, owner=self.pool.owner, queue=self.pool.consumer.queues[0])

    def _drain_all(self) -> None:
        for member in self.members:
            member.drain()
        insisted = False
        while self.members:
            if self._insists and not insisted:
                insisted = True
                for member in self.members:
                    member.drain()
            if time.monotonic() > self._grace_ends + INSIST_AFTER:
                for member in self.members:
                    member.kill()
                return
            self._wake.wait(0.02)
            self._wake.clear()
            self.members = [member for member in self.members if member.exit_code is None]

    def _tell(self, kind: Any, **more: Any) -> None:
        if self.hf._listeners.want(kind):
            self.hf._listeners.tell(kind(consumer=self.pool.consumer.name, worker=self.hf.worker, **more))
