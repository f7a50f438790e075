"""The child processes: started, heard, one of them killed, and all of them gone at the end, whatever happens."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.cli.demo.ledger import Tally
from holdfast.cli.demo.plan import PRODUCERS, DemoJob, DemoPlan
from holdfast.cli.demo.worker import Report

_GRACE = 2.0
_decode = msgspec.json.Decoder(Report).decode


class DemoProcess:
    """One child process and what is known of it."""

    def __init__(self, job: DemoJob, folder: Path) -> None:
        self.role = job.role
        self.name = f"{job.role} {job.number + 1}"
        self.tally = Tally()
        self.killed = False
        self._errors = folder / f"{self.name}.txt"
        self._unread = b""
        with self._errors.open("wb") as errors:
            # A session of its own, so that Ctrl-C reaches the demo alone, which then stops its processes in order.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli.demo.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.tell(msgspec.json.encode(job))

    @property
    def output(self) -> int:
        assert self.process.stdout is not None, "it was started with a pipe"
        return self.process.stdout.fileno()

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    @property
    def crashed(self) -> bool:
        """It ended by itself, and not well."""
        return self.ended and not self.killed and self.process.returncode != 0

    @property
    def last_words(self) -> str:
        """The end of what it wrote on its standard error."""
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self.process.returncode}"

    def tell(self, line: bytes) -> None:
        assert self.process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):  # It is gone; the demo notices that by itself.
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def read(self) -> tuple[list[Report], bool]:
        """What it has reported since the last time, and whether there will be more."""
        data = os.read(self.output, 1 << 20)
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [_decode(line) for line in lines], bool(data)

    def freeze(self) -> None:
        """Stops it where it is, so that nothing it does can come between a look and a decision."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.killed = True
        self.process.kill()

    def hang_up(self) -> None:
        """Ends its input, which tells it to stop."""
        assert self.process.stdin is not None, "it was started with a pipe"
        with suppress(BrokenPipeError):
            self.process.stdin.close()


class Team:
    """All of them."""

    def __init__(self, plan: DemoPlan, folder: Path) -> None:
        self.members: list[DemoProcess] = []
        self._ears = selectors.DefaultSelector()
        try:
            for role, count in (("consumer", plan.consumers), ("producer", PRODUCERS)):
                for number in range(count):
                    self._add(DemoProcess(DemoJob(plan, role, number), folder))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def producers(self) -> list[DemoProcess]:
        return [member for member in self.members if member.role == "producer"]

    @property
    def consumers(self) -> list[DemoProcess]:
        return [member for member in self.members if member.role == "consumer"]

    def hear(self, timeout: float) -> Iterator[tuple[DemoProcess, Report]]:
        """Everything that was reported, waiting for something up to `timeout`."""
        for key, _ in self._ears.select(timeout):
            member: DemoProcess = key.data
            reports, more = member.read()
            if not more:
                self._ears.unregister(member.output)
            yield from ((member, report) for report in reports)

    def close(self) -> None:
        """Asks everyone to stop, and stops those who do not; a second Ctrl-C has to wait for that."""
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for member in self.members:
                member.hang_up()
            deadline = time.monotonic() + _GRACE
            for member in self.members:
                self._end(member, max(0.0, deadline - time.monotonic()))
            self._ears.close()
        finally:
            signal.signal(signal.SIGINT, before)

    def _add(self, member: DemoProcess) -> None:
        self.members.append(member)
        self._ears.register(member.output, selectors.EVENT_READ, member)

    def _end(self, member: DemoProcess, patience: float) -> None:
        assert member.process.stdout is not None, "it was started with a pipe"
        member.process.stdout.close()
        try:
            member.process.wait(patience)
        except subprocess.TimeoutExpired:
            member.process.kill()
            member.process.wait()
