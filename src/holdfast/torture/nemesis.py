"""The nemesis: every now and then it does harm, as its seed says, and in the end it makes all of it good."""

from __future__ import annotations

import heapq
import itertools
import random
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from math import inf
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.client.client import Holdfast, internals
from holdfast.errors import HoldfastError, StoreError
from holdfast.sqs.queue import AT_ONCE, in_batches
from holdfast.torture.address import is_server, server, sessions_of, through
from holdfast.torture.control_channel import FILL, HOLD, SHIFT
from holdfast.torture.crew import FleetProcess, ProcessFleet
from holdfast.torture.history import FAULT, MARK, OK, Sink
from holdfast.torture.plan import WORK_QUEUES, TorturePlan
from holdfast.torture.process import KEEPER

SOONEST, LATEST = 0.2, 2.0
"""Seconds between two faults; in a short run less, so that each has its turn."""

RESTART_WITHIN = 60.0

FAULTS = {
    "kill": "kill -9 of one process",
    "crash": "kill -9 of all processes at once",
    "stop": "a process stands still for 0.5 to 3 leases",
    "clock": "one process's clock is wrong by hours",
    "late": "a transaction that stays open for up to 2 leases, and commits then",
    "full": "no room on the disk (SQLite)",
    "io": "a process cannot write to files any more: an I/O error (SQLite)",
    "restart": "the server is restarted (PostgreSQL, with --restart-command)",
    "sessions": "the server ends all sessions (PostgreSQL)",
    "pointers": "messages in SQS come twice, and once more when they are long over (--delivery sqs)",
    "cut": "connections are cut, answers lost, nothing gets through (PostgreSQL, by a proxy)",
}
"""Name → what it does."""

OF_SQLITE = ("kill", "crash", "stop", "clock", "late", "full", "io")
OF_POSTGRES = ("kill", "crash", "stop", "clock", "late", "restart", "sessions", "cut")
OF_SQS = ("pointers",)


class NotDone(Exception):
    """A fault that could not be done now."""


def possible(url: str, restart_command: str | None, delivery: str = "database") -> list[str]:
    """What can be done to this database, and to what delivers."""
    also = OF_SQS if delivery == "sqs" else ()
    if not is_server(url):
        return [*(name for name in OF_SQLITE if name != "io" or sys.platform == "linux"), *also]
    impossible = {*(() if restart_command else ("restart",)), *(() if server(url) else ("cut",))}
    return [*(name for name in OF_POSTGRES if name not in impossible), *also]


class ProxyProcess:
    """The proxy, as the nemesis knows it."""

    def __init__(self, url: str) -> None:
        place = server(url)
        assert place is not None, "only what stands at one place is proxied"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.torture.proxy", place[0], str(place[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None, "it was started with a pipe"
        self.url = through(url, int(self._process.stdout.readline()))

    def tell(self, order: str) -> None:
        assert self._process.stdin is not None, "it was started with a pipe"
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Its end is that of its input."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()


class Nemesis:
    """Call `act` again and again, then `heal`."""

    def __init__(
        self, plan: TorturePlan, hf: Holdfast, crew: ProcessFleet, sink: Sink, proxy: ProxyProcess | None
    ) -> None:
        self._plan = plan
        self._hf = hf
        self._crew = crew
        self._sink = sink
        self._proxy = proxy
        self._chance = random.Random(f"{plan.seed} nemesis")  # noqa: S311
        self._numbers = itertools.count()
        self._cures: list[tuple[float, int, Callable[[], None]]] = []
        self._next = 0.0
        self._turns: list[str] = []
        self._seen: dict[str, list[str]] = {}
        self.done: Counter[str] = Counter()

    def begin(self) -> None:
        """From now on."""
        self._next = time.monotonic() + self._pause()

    def act(self) -> str | None:
        """One fault if it is time for one; what was done."""
        now = time.monotonic()
        while self._cures and self._cures[0][0] <= now:
            heapq.heappop(self._cures)[2]()
        if now < self._next or not self._plan.faults:
            return None
        self._next = now + self._pause()
        name = self._turn()
        try:
            told = getattr(self, f"_{name}")()
        except NotDone as problem:
            self._turns.insert(0, name)
            self._sink.note(MARK, OK, note=f"{name} was not done: {problem}")
            return f"{name} was not done: {problem}"
        self.done[name] += 1
        self._sink.note(FAULT, OK, note=f"{name}: {told}")
        return f"{name}: {told}"

    @property
    def owes(self) -> bool:
        """Whether a fault has not been done yet."""
        return not self.done.keys() >= set(self._plan.faults)

    def heal(self) -> None:
        """Everything is as it should be."""
        while self._cures:
            heapq.heappop(self._cures)[2]()

    def _turn(self) -> str:
        """Round by round, each in another order, so that each has its turn."""
        if not self._turns:
            self._turns = self._chance.sample(self._plan.faults, len(self._plan.faults))
        return self._turns.pop()

    # --- the faults ---------------------------------------------------------------------------------------------------

    def _kill(self) -> str:
        victim = self._chance.choice(self._crew.mortals)
        name = victim.name
        victim.kill()
        victim.begin_again()
        return name

    def _crash(self) -> str:
        for member in self._crew.mortals:
            member.process.kill()
        for member in self._crew.mortals:
            member.kill()
            member.begin_again()
        return "all at once"

    def _stop(self) -> str:
        victim, span = self._victim(), self._plan.lease * self._chance.uniform(0.5, 3.0)
        process = victim.process
        process.send_signal(signal.SIGSTOP)

        def go_on() -> None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)

        self._cure(span, go_on)
        return f"{victim.name} for {span:.1f} s"

    def _clock(self) -> str:
        victim, shift = self._victim(), self._chance.choice([-1, 1]) * self._chance.uniform(60, 7200)
        victim.tell(SHIFT, shift)
        self._cure(inf, lambda: victim.tell(SHIFT, 0.0))
        return f"{victim.name} by {shift:.0f} s"

    def _late(self) -> str:
        span = self._plan.lease * self._chance.uniform(0.2, 2.0)
        for keeper in self._crew.of(KEEPER):
            keeper.tell(HOLD, span)
        return f"for {span:.1f} s"

    def _full(self) -> str:
        span = self._plan.lease * self._chance.uniform(0.5, 2.0)
        self._tell_all(FILL, 1.0)
        self._cure(span, lambda: self._tell_all(FILL, 0.0))
        return f"for {span:.1f} s"

    def _io(self) -> str:
        """Files may not grow past the size of the log at this moment."""
        victim, span = self._victim(), self._plan.lease * self._chance.uniform(0.5, 2.0)
        log = Path(unquote(urlsplit(self._plan.url).path[1:]) + "-wal")
        most = max(log.stat().st_size if log.exists() else 0, 1 << 16)
        pid, limits = victim.pid, resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, limits[1]))

        def lift() -> None:
            with suppress(ProcessLookupError, PermissionError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)

        self._cure(span, lift)
        return f"{victim.name} for {span:.1f} s"

    def _restart(self) -> str:
        assert self._plan.restart_command is not None, "otherwise it is not among the faults"
        command = shlex.split(self._plan.restart_command)
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=RESTART_WITHIN)
        except OSError as problem:
            raise NotDone(f"the command could not be started: {problem}") from problem
        except subprocess.TimeoutExpired as problem:
            raise NotDone(f"the command took longer than {RESTART_WITHIN:g} s") from problem
        if done.returncode:
            raise NotDone(f"the command ended with {done.returncode}: {done.stderr.decode(errors='replace')[-200:]}")
        return "done"

    def _sessions(self) -> str:
        try:
            ended = internals(self._hf).store.faults.end_sessions(sessions_of(self._plan.tenant))
        except StoreError as problem:
            raise NotDone("the server is away") from problem
        if not ended:
            raise NotDone("there are no sessions")
        return f"{ended} ended"

    def _cut(self) -> str:
        assert self._proxy is not None, "otherwise it is not among the faults"
        order = self._chance.choice(["cut", "swallow", f"hang {self._plan.lease * self._chance.uniform(0.5, 3):.1f}"])
        self._proxy.tell(order)
        return order

    def _pointers(self) -> str:
        """What is in the queues of SQS now is there three times; and so is what was there before."""
        sent = 0
        try:
            for name in WORK_QUEUES:
                queue = internals(self._hf).transport.through_sqs().queue(internals(self._hf).catalog.channel(name))
                seen = self._seen.setdefault(name, [])
                seen += [one.body for one in queue.receive(AT_ONCE, 0, 0)]
                again = [*seen[-AT_ONCE:], *self._chance.sample(seen, min(len(seen), AT_ONCE))]
                for some in in_batches(again):
                    sent += sum(queue.send(some))
        except HoldfastError as problem:
            raise NotDone(f"SQS is away: {type(problem).__name__}") from problem
        if not sent:
            raise NotDone("nothing was there to be sent again")
        return f"{sent} sent again"

    # --- the ladder below ---------------------------------------------------------------------------------------------

    def _pause(self) -> float:
        """A round takes nine tenths of a run at most, as far as pauses go."""
        latest = min(LATEST, 0.9 * self._plan.seconds / max(1, len(self._plan.faults)))
        return self._chance.uniform(min(SOONEST, latest), latest)

    def _victim(self) -> FleetProcess:
        return self._chance.choice(self._crew.members)

    def _cure(self, after: float, cure: Callable[[], None]) -> None:
        heapq.heappush(self._cures, (time.monotonic() + after, next(self._numbers), cure))

    def _tell_all(self, do: str, value: float) -> None:
        for member in self._crew.members:
            member.tell(do, value)
