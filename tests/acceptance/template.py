"""A warm process that forks the processes of `tests.acceptance.workers`.

One that starts by itself spends 0.25 s of CPU time on imports, and tests start and kill hundreds. The template has
imported what they need, and has no thread and nothing open. What it forks is a process like any other: it has a session
and a memory of its own, and a kill -9 leaves of it what it leaves of every process.
"""

import ctypes
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

LARGEST = 200_000
"""Bytes of a request: the arguments and the environment of a process."""

WARM = (
    "asyncio",
    "sqlite3",
    "holdfast.client.async_client",
    "holdfast.worker.runner",
    "holdfast.store.postgres",
    "holdfast.store.sqlite",
)
"""Loaded only when they are needed, as most processes soon do."""


class Template:
    """The template of this process, and what it is asked: to fork, and how a process has ended."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._asking = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.acceptance.template"],
                cwd=ROOT,
                stdin=theirs,
                start_new_session=True,
                preexec_fn=partial(end_with, os.getpid()),
            )

    def fork(self, arguments: Sequence[str]) -> "Forked":
        """Start a process of `tests.acceptance.workers` with the environment that this process has now."""
        child_in, ours_in = os.pipe()
        ours_out, child_out = os.pipe()
        try:
            pid = self._ask({"arguments": arguments, "environment": dict(os.environ)}, [child_in, child_out])
        finally:
            os.close(child_in)
            os.close(child_out)
        return Forked(self, pid, ours_in, ours_out)

    def reap(self, pid: int) -> int:
        """Return the exit code of a process that has ended, once."""
        return self._ask({"reap": pid})

    def _ask(self, request: dict[str, Any], files: Sequence[int] = ()) -> int:
        with self._asking:
            socket.send_fds(self._link, [json.dumps(request).encode()], files)
            answer = self._link.recv(64)
        assert answer, f"the template ended with {self._process.wait()}"
        return int(answer)


class Forked:
    """What tests use of `subprocess.Popen`, for a process that the template has forked."""

    def __init__(self, template: Template, pid: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.stdin = os.fdopen(stdin, "w")
        self.stdout = os.fdopen(stdout)
        self.returncode: int | None = None
        self._template = template
        self._end = os.pidfd_open(pid)
        self._looking = threading.Lock()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code when it has ended."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Do nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        with self._looking:
            if self.returncode is None and self._has_ended(timeout):
                self.returncode = self._template.reap(self.pid)
                os.close(self._end)
            return self.returncode

    def _has_ended(self, timeout: float | None) -> bool:
        waiting = select.poll()
        waiting.register(self._end, select.POLLIN)
        return bool(waiting.poll(None if timeout is None else timeout * 1_000))


@cache
def template() -> Template:
    """The template of this process. The thread that asks first must not end before it: see `end_with`."""
    return Template()


def end_with(parent: int) -> None:
    """Runs in the child: it shall not outlive a killed test run, even if it was stopped and can hear nothing."""
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


# --- in the template --------------------------------------------------------------------------------------------------


def serve(link: socket.socket) -> list[str] | None:
    """Fork until nobody asks any more. Returns in each forked process too, with its arguments."""
    me = os.getpid()
    while True:
        message, files, _, _ = socket.recv_fds(link, LARGEST, 2)
        if not message:
            return None
        request = json.loads(message)
        if "reap" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            answer = os.fork()
            if not answer:
                become(me, request["environment"], link, files)
                return list(request["arguments"])
            for file in files:
                os.close(file)
        link.send(str(answer).encode())


def become(parent: int, environment: dict[str, str], link: socket.socket, files: Sequence[int]) -> None:
    """Turn a copy of the template into a process of its own."""
    os.setsid()
    end_with(parent)
    os.environ.clear()
    os.environ.update(environment)
    link.detach()
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")


def main() -> int:
    from tests.acceptance import workers

    for module in (*WARM, *(f"tests.acceptance.{name}" for name in workers.ELSEWHERE)):
        import_module(module)
    gc.collect()
    gc.freeze()  # What is never looked at stays shared.
    arguments = serve(socket.socket(fileno=0))
    return 0 if arguments is None else workers.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
