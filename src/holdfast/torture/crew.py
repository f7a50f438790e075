"""The processes of a run: started, stopped, killed, started again, and all gone at the end, whatever happens."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from holdfast.torture.control_channel import Order
from holdfast.torture.history import ENDED, ERROR, FAIL, OK, Sink
from holdfast.torture.plan import TortureJob, TorturePlan
from holdfast.torture.process import CONSUMER, KEEPER, PRODUCER, STEPPER, SUBSCRIBER, WORKER

GRACE = 60.0
"""Seconds that a process may take to end after it was told to."""

NEEDS_NO_PROXY = frozenset({KEEPER})


class FleetProcess:
    """One place in the crew: a process, and the one that follows it when it is killed."""

    def __init__(self, role: str, number: int, start: Callable[[FleetProcess], subprocess.Popen[bytes]]) -> None:
        self.role = role
        self.number = number
        self.generation = 0
        self._start = start
        self.process = start(self)

    @property
    def name(self) -> str:
        return self.named(self.generation)

    def named(self, generation: int) -> str:
        return f"{self.role}-{self.number}.{generation}"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def tell(self, do: str, value: float = 0.0) -> None:
        assert self.process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):
            self.process.stdin.write(msgspec.json.encode(Order(do, value)) + b"\n")
            self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._close()

    def begin_again(self) -> None:
        """A new process at the same place."""
        self.generation += 1
        self.process = self._start(self)

    def send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, number)

    def let_go(self) -> None:
        """It ends what it does, and itself."""
        self.send(signal.SIGCONT)
        self._close()

    def _close(self) -> None:
        assert self.process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):
            self.process.stdin.close()


class ProcessFleet:
    """All of them. Use it as a context."""

    def __init__(self, plan: TorturePlan, folder: Path, sink: Sink, proxied: str | None) -> None:
        self._plan = plan
        self._folder = folder
        self._sink = sink
        self._proxied = proxied
        roles = [
            *((PRODUCER, number) for number in range(max(1, plan.workers // 2))),
            *((WORKER if number % 2 == 0 else CONSUMER, number) for number in range(plan.workers)),
            *((SUBSCRIBER, number) for number in range(2)),
            (STEPPER, 0),
            (KEEPER, 0),
        ]
        self.members: list[FleetProcess] = []
        for role, number in roles:
            self.members.append(FleetProcess(role, number, self._start))
        self.immortals = self._first_of_each_role() if plan.spares else []

    def __enter__(self) -> ProcessFleet:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if not member.ended:
                member.kill()

    def of(self, *roles: str) -> list[FleetProcess]:
        return [member for member in self.members if member.role in roles]

    @property
    def mortals(self) -> list[FleetProcess]:
        """Those who may be killed."""
        return [member for member in self.members if member not in self.immortals]

    def look_after(self) -> None:
        """Whoever ended without having been told to did something wrong, and is replaced."""
        for member in self.members:
            if member.ended:
                self._tell_of(member)
                member.begin_again()

    def dismiss(self, *roles: str) -> None:
        """Lets these end, all together."""
        leaving = self.of(*roles) if roles else list(self.members)
        for member in leaving:
            member.let_go()
        deadline = time.monotonic() + GRACE
        for member in leaving:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.kill()
                self._sink.note(ERROR, FAIL, note=f"{member.name} did not end when it was told to")
            else:
                if member.process.returncode:
                    self._tell_of(member)
            self.members.remove(member)

    def replace(self, *roles: str) -> None:
        """Others take the places of these, once they have ended what they do."""
        for member in self.of(*roles):
            member.let_go()
            try:
                member.process.wait(GRACE)
            except subprocess.TimeoutExpired:
                member.kill()
            member.begin_again()

    def _first_of_each_role(self) -> list[FleetProcess]:
        return [*{member.role: member for member in reversed(self.members)}.values()]

    def _tell_of(self, member: FleetProcess) -> None:
        last = (self._folder / f"{member.name}.txt").read_text(errors="replace").strip().splitlines()[-1:]
        code = member.process.returncode
        self._sink.note(ERROR, FAIL, note=f"{member.name} ended by itself with {code}: {' '.join(last)}")

    def _start(self, member: FleetProcess) -> subprocess.Popen[bytes]:
        if member.generation:
            self._sink.note(ENDED, OK, note=member.named(member.generation - 1))
        url = self._plan.url if self._proxied is None or member.role in NEEDS_NO_PROXY else self._proxied
        log = self._folder / f"{member.name}.log"
        job = TortureJob(member.role, member.name, str(log), url, self._plan, member.number)
        with (self._folder / f"{member.name}.txt").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.torture.process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                preexec_fn=partial(end_with, os.getpid()),
            )
        assert process.stdin is not None, "it was started with a pipe"
        process.stdin.write(msgspec.json.encode(job) + b"\n")
        process.stdin.flush()
        return process


def end_with(parent: int) -> None:
    """Runs in the child: it shall not outlive a killed run, even if it was stopped and can hear nothing."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
