"""Keeps a pool: starts members, drains them, starts crashed ones again, and says so when that is of no use."""

from __future__ import annotations

import logging
import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.client.client import internals
from holdfast.errors import HoldfastError
from holdfast.events import MemberCrashed, PoolGaveUp, PoolScaled
from holdfast.store.api import Seat
from holdfast.worker.attachments import AttachmentWatcher
from holdfast.worker.find_consumer import address_of
from holdfast.worker.pools.member_status import SETTLED
from holdfast.worker.pools.members import (
    SEAT_TERM,
    STARTING_TERM,
    PoolMember,
    ProcessMember,
    ThreadMember,
    how_it_ended,
)
from holdfast.worker.pools.pool import Pool
from holdfast.worker.pools.restarts import CrashLog
from holdfast.worker.pools.scaling import Load, Scaler, to_drain

if TYPE_CHECKING:
    from holdfast.worker.runner import Runner
    from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast")

LOOK_EVERY = 0.5
"""Seconds between two looks at the queues; members that have ended are noticed a little earlier."""

INSIST_AFTER = 1.5
"""Seconds past the grace after which a process that drains is killed."""


class Supervisor:
    """One process's part of a pool. What all of them have together is counted in the database, seat by seat."""

    def __init__(self, runner: Runner, pool: Pool) -> None:
        self.hf = runner.hf
        self.pool = pool
        self.members: list[PoolMember] = []
        self.workers: list[Worker] = []
        self.ended = threading.Event()
        self._runner = runner
        self._address = address_of(pool.consumer) if pool.members == "process" else None
        self._attachments = AttachmentWatcher(pool.consumer)
        self._scaler = Scaler(pool.spec)
        self._crashes = CrashLog(pool.restarts)
        self._survivors: list[PoolMember] = []
        self._untold: str | None = None
        self._trouble: str | None = None
        self._draining: list[PoolMember] = []
        self._wake = threading.Event()
        self.turned_at = time.monotonic()
        self._stopping = False
        self._grace_ends = math.inf
        self._stop_grace = 0.0
        self._thread = threading.Thread(target=self._run, name=f"holdfast-pool-{pool.name}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self, grace: float) -> None:
        """Drains all members of this process. Again: in less time."""
        self._grace_ends = min(self._grace_ends, time.monotonic() + grace)
        self._stop_grace = self.pool.consumer.stop_grace if grace > 0 else 0.0
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
        """Whatever goes wrong, there are members to look after."""
        self.turned_at = time.monotonic()
        try:
            self._look()
            self._trouble = None
        except Exception as problem:
            if str(problem) != self._trouble:
                self._trouble = str(problem)
                unexpected = None if isinstance(problem, HoldfastError) else problem
                log.warning("pool %s: %s; it goes on as soon as it can", self.pool.name, problem, exc_info=unexpected)

    def _look(self) -> None:
        self._bury()
        self._tell_owner()
        seats = internals(self.hf).store.seats.taken(self.hf.settings.tenant, self.pool.key)
        wanted = self._scaler.wanted(self._load(), len(seats), time.monotonic())
        if wanted > len(seats):
            self._grow(len(seats), wanted)
        elif wanted < len(seats):
            self._shrink({seat.number for seat in seats}, wanted)

    def _load(self) -> Load:
        self._attachments.read()
        channels = self._attachments.channels()
        load = internals(self.hf).store.reads.load(channels)
        ends = bool(channels) and all(self._attachments.empty(channel) == "terminate" for channel in channels)
        return msgspec.structs.replace(load, ends=ends)

    def _grow(self, running: int, wanted: int) -> None:
        missing = self._crashes.may_start(time.monotonic(), wanted - running, len(self._trials()))
        started = 0
        try:
            while started < missing and not self._stopping and self._start_one(wanted):
                started += 1
        finally:
            if started:
                self._tell(PoolScaled, before=running, wanted=running + started)

    def _start_one(self, wanted: int) -> bool:
        """False if others have taken the last seat."""
        seat = self._take(wanted)
        if seat is None:
            return False
        try:
            self.members.append(self._new_member(seat))
        except BaseException:
            self._leave(seat)
            raise
        return True

    def _take(self, most: int) -> Seat | None:
        term = SEAT_TERM if self._address is None else STARTING_TERM
        return internals(self.hf).store.seats.take(
            self.hf.settings.tenant, self.pool.key, self.hf.worker, most, round(term * 1_000_000)
        )

    def _leave(self, seat: Seat) -> None:
        internals(self.hf).store.seats.leave(self.hf.settings.tenant, self.pool.key, seat)

    def _new_member(self, seat: Seat) -> PoolMember:
        if self._address is not None:
            return ProcessMember(self.pool, seat, self._address, self._runner.grace)
        worker = self._runner.worker(self.pool.consumer, self.pool.name)
        self.workers.append(worker)
        return ThreadMember(self.pool, worker, seat)

    def _shrink(self, seats: set[int], wanted: int) -> None:
        leaving = to_drain(sorted(seats), wanted)
        mine = [one for one in self.members if one.seat.number in leaving and one not in self._draining]
        for member in mine:
            self._draining.append(member)
            member.drain(math.inf)
        if mine:
            self._tell(PoolScaled, before=len(seats), wanted=len(seats) - len(mine))

    def _bury(self) -> None:
        """Takes note of members that have ended."""
        ended = [member for member in self.members if member.exit_code is not None]
        self.members = [member for member in self.members if member not in ended]
        self._draining = [member for member in self._draining if member not in ended]
        self.workers = [worker for worker in self.workers if not worker.ended.is_set()]
        crashed = [member for member in ended if member.exit_code]
        for member in crashed:
            self._crashed(member)
        if self._crashes.gave_up and any(SETTLED in member.news for member in self._trials()):
            self._recover()
        for member in crashed:
            self._leave(member.seat)  # At once: who held it is gone for sure.

    def _crashed(self, member: PoolMember) -> None:
        words = how_it_ended(member.exit_code or 0)
        was_too_many = self._crashes.note(time.monotonic(), is_excused=bool(member.news))
        self._tell(MemberCrashed, words=words)
        log.warning("pool %s: a consumer %s", self.pool.name, words)
        if was_too_many:
            self._give_up(words)

    def _trials(self) -> list[PoolMember]:
        """Those that were started since the pool was given up, if it was."""
        return [member for member in self.members if member not in self._survivors]

    def _recover(self) -> None:
        self._crashes.recovered()
        log.warning("pool %s works again: a consumer has done some of its work", self.pool.name)

    def _give_up(self, words: str) -> None:
        self._survivors = list(self.members)
        rules = self.pool.restarts
        self._untold = error = (
            f"the pool {self.pool.name!r} was given up by {self.hf.worker}: {rules.most} consumers crashed within "
            f"{rules.window:g} s without having done anything, the last one {words}. One consumer is tried every "
            f"{rules.again:g} s. Mend the cause; if that is in the program, start the worker again"
        )
        log.error("%s", error)
        self._tell(PoolGaveUp, error=error)

    def _tell_owner(self) -> None:
        """That it was given up; again and again if the database is away just now."""
        if self._untold is not None:
            queues = self.pool.consumer.queues
            queue = queues[0] if queues else None
            self.hf.notices.report("crash_loop", self.pool.name, self._untold, owner=self.pool.owner, queue=queue)
            self._untold = None

    def _drain_all(self) -> None:
        told = None
        while self.members:
            if told != self._grace_ends:
                told = self._grace_ends
                for member in self.members:
                    member.drain(max(0.0, told - time.monotonic()))
            if time.monotonic() > self._grace_ends + INSIST_AFTER + self._stop_grace:
                for member in self.members:
                    member.kill()
                break
            self._wake.wait(0.02)
            self._wake.clear()
            self._free_seats([member for member in self.members if member.exit_code])
            self.members = [member for member in self.members if member.exit_code is None]
        self._free_seats(self.members)

    def _free_seats(self, gone: list[PoolMember]) -> None:
        with suppress(HoldfastError):
            for member in gone:
                self._leave(member.seat)

    def _tell(self, kind: Any, **more: Any) -> None:
        if internals(self.hf).listeners.want(kind):
            internals(self.hf).listeners.tell(
                kind(pool=self.pool.name, consumer=self.pool.consumer.name, worker=self.hf.worker, **more)
            )
