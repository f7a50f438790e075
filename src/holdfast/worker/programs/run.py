"""One run of a program and of everything that it starts: read without end, stopped when asked, never left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from holdfast.errors import ProgramFailed
from holdfast.worker.programs.watchdog import Leash, leashed

CHUNK = 65_536

DRAIN = 0.5
"""Seconds for what is still in the pipes once the program has ended. Those who hold them open after that have lost."""

UNKILLABLE = 10.0
"""Seconds until a killed program has to be gone. Only one that hangs inside the kernel is not."""

CANCELLED, TIMED_OUT = "cancelled", "timed out"

OnCancel = Callable[[Callable[[], None]], object]
"""Takes a function to call, from whatever thread, when the work has to stop."""

Grace = Callable[[], float]
"""Asked when a program has to stop: how many seconds it has for that."""


class Head:
    """The beginning of an output, and how long all of it was."""

    def __init__(self, limit: int) -> None:
        self.limit, self.size, self.kept = limit, 0, bytearray()

    def add(self, chunk: bytes) -> None:
        """The next piece; what is too much is counted and thrown away."""
        self.size += len(chunk)
        self.kept += chunk[: self.limit - len(self.kept)]


class Tail(Head):
    """The end of an output."""

    def add(self, chunk: bytes) -> None:
        """The next piece; what is too far back is thrown away."""
        self.size += len(chunk)
        self.kept += chunk
        if len(self.kept) > self.limit:
            del self.kept[: len(self.kept) - self.limit]

    def text(self) -> str:
        """What was kept, as text without outer space."""
        return self.kept.decode("utf-8", "replace").strip()


class Ended(msgspec.Struct, frozen=True):
    """How a run ended: its exit code, or the number of the signal that killed it as a negative one.

    `stopped` says why we have ended it, if we have.
    """

    code: int
    stopped: str | None


def run(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    out: Head,
    err: Head | None = None,
    cwd: str | None = None,
    stdin: str = os.devnull,
    folder: str = "",
    timeout: float | None = None,
    grace: Grace = lambda: 5.0,
    on_cancel: OnCancel = lambda stop: None,
) -> Ended:
    """Runs a program to its end, or to ours: SIGTERM to its group when it has to stop, SIGKILL when `grace` is over.

    Without `err` both outputs go to `out`. When this returns, nobody of its group is left.
    """
    program = Program(command, env, cwd, stdin, folder, out, err)
    try:
        on_cancel(program.cancel)
        return program.wait(timeout, grace)
    finally:
        program.close()


class Program:
    """A running program. Only `cancel` may be called by other threads."""

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str | None,
        stdin: str,
        folder: str,
        out: Head,
        err: Head | None,
    ) -> None:
        self._name = command[0]
        self._ended, self._cancelled = threading.Event(), threading.Event()
        self._code: int | None = None
        with ExitStack() as undo:
            self._bell = undo.enter_context(SelectorWaker())
            leash = undo.enter_context(Leash())
            with leash.end as end, unblocked_signals():
                try:
                    self._process = subprocess.Popen(
                        leashed(command, stdin=stdin, folder=folder),
                        stdin=end,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT if err is None else subprocess.PIPE,
                        bufsize=0,
                        env=env,
                        cwd=cwd,
                        start_new_session=True,
                    )
                except (OSError, ValueError) as problem:
                    raise ProgramFailed(f"{self._name} could not be started: {problem}") from problem
            self._selector = undo.enter_context(selectors.DefaultSelector())
            self._selector.register(self._bell, selectors.EVENT_READ)
            self._open = 0
            for pipe, kept in ((self._process.stdout, out), (self._process.stderr, err)):
                if pipe is not None:
                    undo.callback(pipe.close)
                    self._selector.register(pipe, selectors.EVENT_READ, kept)
                    self._open += 1
            threading.Thread(target=self._watch, name=f"holdfast-{self._name}", daemon=True).start()
            # Up to here a failure lets go of the leash, which kills what was started.
            self._belongings = undo.pop_all()

    def cancel(self) -> None:
        """It has to stop. Does not wait, may come at any time and more than once."""
        self._cancelled.set()
        self._bell.ring()

    def wait(self, timeout: float | None, grace: Grace) -> Ended:
        """Reads what it says until it has ended."""
        self._read_until(lambda: self._ended.is_set() or self._cancelled.is_set(), timeout)
        stopped = None
        if not self._ended.is_set():
            stopped = CANCELLED if self._cancelled.is_set() else TIMED_OUT
            self._stop(grace())
        self._read_until(self._said_all, DRAIN)
        self._signal(signal.SIGKILL)
        self._read_until(self._said_all, DRAIN)
        if self._code is None:
            raise ProgramFailed(
                f"{self._name} has ended, but how is not known: something else in this process waits for its children, "
                "or SIGCHLD is ignored"
            )
        return Ended(self._code, stopped)

    def close(self) -> None:
        """Kills whoever is left of its group, and forgets it."""
        self._signal(signal.SIGKILL)
        if self._ended.wait(UNKILLABLE):
            self._bury()
        self._belongings.close()

    def _bury(self) -> None:
        """Waits for it, and for those of its group whom it left to us: in a container we may be the first process, who
        inherits all orphans, the watcher among them."""
        patience = time.monotonic() + DRAIN
        with suppress(ChildProcessError):
            while time.monotonic() < patience:
                if os.waitpid(-self._process.pid, os.WNOHANG) == (0, 0):
                    time.sleep(0.001)
        self._process.wait()

    def _stop(self, grace: float) -> None:
        for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, UNKILLABLE)):
            self._signal(number)
            self._read_until(self._ended.is_set, patience)
            if self._ended.is_set():
                return
        raise ProgramFailed(f"{self._name} cannot be killed: it hangs inside the kernel (process {self._process.pid})")

    def _signal(self, number: signal.Signals) -> None:
        """To all of its group. Its number is ours for as long as it was not waited for, so nobody else is hit."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _said_all(self) -> bool:
        return self._open == 0

    def _read_until(self, condition: Callable[[], bool], patience: float | None) -> None:
        deadline = None if patience is None else time.monotonic() + patience
        while not condition():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            for key, _ in self._selector.select(left):
                self._read(key)

    def _read(self, key: selectors.SelectorKey) -> None:
        chunk = os.read(key.fd, CHUNK)
        if key.data is None:
            return
        if chunk:
            key.data.add(chunk)
        else:
            self._selector.unregister(key.fileobj)
            self._open -= 1

    def _watch(self) -> None:
        """Waits for its end without burying it: until then neither its number nor its group's can be anyone else's."""
        with suppress(ChildProcessError):
            how = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            if how is not None:
                self._code = how.si_status if how.si_code == os.CLD_EXITED else -how.si_status
        self._ended.set()
        self._bell.ring()


@contextmanager
def unblocked_signals() -> Iterator[None]:
    """A program begins with the mask of the thread that starts it; with SIGTERM in it, it could only be killed."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class SelectorWaker:
    """Wakes a selector. Ringing one that is closed does nothing, though its number may be another file's by then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ear, self._rope = os.pipe()
        self._closed = False
        os.set_blocking(self._rope, False)

    def fileno(self) -> int:
        """What the selector listens to."""
        return self._ear

    def ring(self) -> None:
        """From any thread."""
        with self._lock, suppress(BlockingIOError):
            if not self._closed:
                os.write(self._rope, b"!")

    def __enter__(self) -> SelectorWaker:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            os.close(self._ear)
            os.close(self._rope)
