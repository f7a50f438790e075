"""Programs with consumers and pools, run as users run them: a file, a process, and the processes that it starts."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.children import GUARD, ROOT
from tests.acceptance.template import end_with

PRELUDE = """
import logging, os, signal, sys, time
from pathlib import Path

from holdfast import Holdfast, exec_handler

logging.basicConfig(level="INFO", format="%(message)s")
hf = Holdfast(os.environ["APP_DB"], worker=os.environ.get("APP_WORKER"))


def note(word, body=""):
    with open(os.environ["APP_LOG"], "a") as log:
        log.write(f"{time.monotonic()}\\t{os.getpid()}\\t{word}\\t{body}\\n")


def slowly(message, seconds):
    note("begin", message.body)
    time.sleep(seconds)
    note("end", message.body)


def noted(word):
    with open(os.environ["APP_LOG"]) as log:
        return [line for line in log if f"\\t{word}\\t" in line]


def until(true):
    while not true():
        time.sleep(0.01)


def until_at_work(count):
    until(lambda: len({line.split("\\t")[1] for line in noted("begin")}) >= count)


note("boot")
"""

ENDING = """
if __name__ == "__main__":
    if "APP_GO" in os.environ:
        note("ready")
        while not os.path.exists(os.environ["APP_GO"]):
            time.sleep(0.001)
    hf.run(grace=os.environ.get("APP_GRACE", "30s"))
"""


@dataclass(frozen=True)
class Noted:
    """A line of a program's log."""

    at: float
    pid: int
    word: str
    body: str


class Program:
    """One run of a program, in a process group of its own."""

    def __init__(self, folder: Path, url: str, **settings: str) -> None:
        self._stderr = folder / f"stderr-{time.monotonic_ns()}"
        environment = {"APP_DB": url, "APP_LOG": str(folder / "log"), "PYTHONPATH": str(ROOT / "src"), **settings}
        with self._stderr.open("w") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "app.py"],
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=partial(end_with, os.getpid()),
            )

    @property
    def said(self) -> str:
        return self._stderr.read_text()

    @property
    def members(self) -> list[int]:
        """The processes of its pools that are alive, also when it is not."""
        return [pid for pid in processes(self.process.pid) if b"spawn_main" in command_line(pid)]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def send_to_all(self, number: signal.Signals) -> None:
        """As a terminal does on Ctrl-C, or a service manager."""
        os.killpg(self.process.pid, number)

    def wait(self, seconds: float = GUARD) -> int:
        return self.process.wait(seconds)

    def end(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(GUARD)


class Programs:
    """The program of a test, how often it runs, and what it wrote down."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder, self._url = folder, url
        self._running: list[Program] = []

    def write(self, text: str, ending: str = ENDING) -> None:
        (self._folder / "app.py").write_text(PRELUDE + text + ending)

    def start(self, **settings: str) -> Program:
        program = Program(self._folder, self._url, **settings)
        self._running.append(program)
        return program

    def log(self, word: str = "") -> list[Noted]:
        file = self._folder / "log"
        text = file.read_text() if file.exists() else ""
        lines = text[: text.rfind("\n") + 1].splitlines()  # The last line may be half written at this moment.
        noted = [Noted(float(at), int(pid), said, body) for at, pid, said, body in (line.split("\t") for line in lines)]
        return [one for one in noted if word in ("", one.word)]

    def done(self) -> Counter[str]:
        """How often each message was worked on to the end."""
        return Counter(one.body for one in self.log("end"))

    def most_at_once(self) -> int:
        """How many handlers ran at the same time, of those that came to their end."""
        ended = {(one.pid, one.body) for one in self.log("end")}
        steps = [one for one in self.log() if (one.pid, one.body) in ended]
        running, most = 0, 0
        for one in sorted(steps, key=lambda step: step.at):
            running += 1 if one.word == "begin" else -1
            most = max(most, running)
        return most

    def end(self) -> None:
        for program in self._running:
            program.end()


class Watching:
    """Looks at a pool's seats every 50 ms, through everything that a test does."""

    def __init__(self, hf: Holdfast, pool: str) -> None:
        self._taken = lambda: len(internals(hf).store.seats.taken(hf.settings.tenant, pool))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.seen: list[int] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def now(self) -> int:
        """What the test itself has found counts as seen: the thread may sleep through it."""
        found = self._taken()
        self.seen.append(found)
        return found

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            _ = self.now


def processes(group: int) -> list[int]:
    """Those of a process group that are alive."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                state, _, its_group = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(its_group) == group and state != "Z":
                    found.append(int(folder.name))
    return found


def command_line(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
