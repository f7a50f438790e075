"""Real processes for the tests: started, spoken to, stopped, killed, and never left behind."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast import DeadLetterRecord, Holdfast
from tests.acceptance import history
from tests.acceptance.history import History
from tests.acceptance.template import template
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]

GUARD = 240.0
"""Nothing here takes this long; it only keeps a fault from hanging the run."""


class Child:
    """One process of `tests.acceptance.workers`. It obeys lines on its stdin, and ends when that is closed."""

    def __init__(self, role: str, log: Path, settings: dict[str, Any]) -> None:
        self.role, self.log = role, log
        self.process = template().fork([role, str(log), json.dumps(settings)])

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def hear(self) -> Any:
        """The next line it says."""
        line = self.process.stdout.readline()
        assert line, f"{self.log.stem} ended with {self.process.wait(GUARD)} and these errors: {self.errors()}"
        return json.loads(line)

    def say(self, verb: str, **details: Any) -> None:
        self.process.stdin.write(json.dumps([verb, details]) + "\n")
        self.process.stdin.flush()

    def ask(self, verb: str, **details: Any) -> Any:
        """Tells it to do something and waits for what comes of it."""
        self.say(verb, **details)
        return self.hear()

    def errors(self) -> list[str]:
        return history.read([self.log]).errors()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill_at_work(self, feed: Callable[[], None] = lambda: None) -> None:
        """When it surely has something in its hands: it is stopped to look, and goes on if it has nothing.

        `feed` is called before each look, so that there is something to do.
        """
        eventually(lambda: feed() or self._stops_at_work(), f"{self.log.stem} is at work")
        self.kill()

    def _stops_at_work(self) -> bool:
        self.send(signal.SIGSTOP)
        eventually(lambda: self._state in "TZ", "it stands still")
        if any(not grant.settled_as and not grant.unheard for grant in self._latest_grants()):
            return True
        self.send(signal.SIGCONT)
        return False

    @property
    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def _latest_grants(self) -> list[history.Grant]:
        """What became of each message that it was given, the last time that it was."""
        return [max(grants, key=lambda grant: grant.token) for grants in history.read([self.log]).grants.values()]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(GUARD)

    def finish(self) -> None:
        """No more orders: waits until it has done what it does at the end, and ended well."""
        self.let_go()
        assert self.process.wait(GUARD) == 0, f"{self.log.stem}: {self.process.returncode}, {self.errors()}"

    def let_go(self) -> None:
        self.process.stdin.close()


SENDERS = ("produce", "stream", "late_publisher", "late_writer")


class Family:
    """All processes of a test."""

    def __init__(self, folder: Path) -> None:
        template()  # From the thread of the test, not from one of its own.
        self._folder = folder
        self._folder.mkdir()
        self.children: list[Child] = []

    def start(self, role: str, **settings: Any) -> Child:
        log = self._folder / f"{role}-{len(self.children)}.log"
        child = Child(role, log, settings)
        self.children.append(child)
        return child

    def finish(self) -> None:
        """Lets all end, those who send before those who end when nothing is left, and waits for the last."""
        senders = [child for child in self.children if child.role in SENDERS]
        for some in (senders, self.children):
            running = [child for child in some if child.is_running]
            for child in running:
                child.let_go()
            for child in running:
                child.finish()

    def history(self) -> History:
        return history.read(self._folder.glob("*.log"))

    def events(self, role: str = "") -> int:
        """How many bytes of history there are by now: a clock that only ticks when something happens."""
        logs = [child.log for child in self.children if child.role.startswith(role)]
        return sum(log.stat().st_size for log in logs if log.exists())

    def wait_for_events(self, size: int, role: str = "", unless: Callable[[], bool] = lambda: False) -> None:
        """Waits until so much more has happened, unless nothing more will."""
        goal = self.events(role) + size
        eventually(lambda: self.events(role) > goal or unless(), f"{role or 'everyone'} is at work")

    def end(self) -> None:
        """Whatever still runs is killed, stopped or not, and with it what it has forked."""
        for child in self.children:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.process.wait(GUARD)
            for pipe in (child.process.stdin, child.process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()


def dead_ids(hf: Holdfast, queue: str) -> list[str]:
    """The ids of all messages that died in a queue."""
    found: list[DeadLetterRecord] = []
    while page := hf.dead_letters.list(queue, n=1000, after=found[-1].id if found else None):
        found += page
    return [letter.message.id for letter in found]


def resident_kilobytes(pid: int) -> int:
    """How much memory a process has now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024
