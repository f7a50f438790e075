"""Starts drivers and talks to them: a line of JSON each way, with a limit on every answer."""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from bench.peers.environment import ROOT
from bench.processes import LIMIT, Failed

START_SECONDS = 60.0
END_SECONDS = 20.0


class Driver:
    """One process; gone when the block ends, however it ends."""

    def __init__(self, command: Sequence[str]) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115  closed with the driver
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._input, self._output = self._process.stdin, self._process.stdout
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._input.close()
            if kind is None:
                self._process.wait(END_SECONDS)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            pass  # it had its time; what it has committed is checked by another process
        finally:
            self._process.kill()
            self._process.wait()
            self._output.close()
            self._complaints.close()

    def ask(self, do: str, limit: float = LIMIT, **arguments: Any) -> dict[str, Any]:
        self.tell(do, **arguments)
        return self.answer(limit)

    def tell(self, do: str, **arguments: Any) -> None:
        try:
            self._input.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._input.flush()
        except BrokenPipeError:
            raise Failed(self._last_words()) from None

    def answer(self, limit: float = LIMIT) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._line(time.monotonic() + limit))
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def _line(self, deadline: float) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            ready, _, _ = select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise Failed("not finished in time")
            chunk = os.read(self._output.fileno(), 1 << 20)
            if not chunk:
                raise Failed(self._last_words())
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return f"the driver ended: {lines[-1].strip() if lines else 'without a word'}"


@contextmanager
def drivers(command: Sequence[str], url: str, count: int = 1) -> Iterator[list[Driver]]:
    """So many processes on one database, each connected and waiting for a command."""
    with ExitStack() as closing:
        started = [closing.enter_context(Driver([*command, url])) for _ in range(count)]
        for driver in started:
            driver.ask("ready", START_SECONDS)
        yield started


@contextmanager
def driver(command: Sequence[str], url: str) -> Iterator[Driver]:
    with drivers(command, url) as (only,):
        yield only
