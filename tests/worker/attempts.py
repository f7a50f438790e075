"""An attempt as a handler sees it, without a database: what `AgentContext` asks for, and nothing else."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast import Message, exec_handler
from holdfast.core.message import MessageId, encode_json


def message(body: Any = None, **headers: Any) -> Message:
    raw_headers = encode_json(headers) if headers else None
    return Message(MessageId(range(16)), 2, encode_json(body), raw_headers, None, None, None, None, None, 0)


class Attempt:
    """A context that a test can cancel."""

    def __init__(self, body: Any = None, *, session: str | None = None, attempt: int = 1, **headers: Any) -> None:
        self.message = message(body, **headers)
        self.queue, self.attempt, self.max_attempts = "drones", attempt, 5
        self.deadline: datetime | None = datetime.fromtimestamp(1_900_000_000.25, UTC)
        self.session = session
        self.told: list[Any] = []
        self.spent: list[float] = []
        self.actions: list[str] = []
        self._lock, self._callbacks, self.cancelled = threading.Lock(), list[Callable[[], None]](), False

    def on_cancel(self, callback: Callable[[], None]) -> None:
        with self._lock:
            self._callbacks.append(callback)
            late = self.cancelled
        if late:
            callback()

    def cancel(self) -> None:
        with self._lock:
            self.cancelled, callbacks = True, list(self._callbacks)
        for callback in callbacks:
            callback()

    def grace(self, wanted: float) -> float:
        return wanted

    def spend(self, amount: float) -> None:
        self.spent.append(amount)

    def action(self, text: str) -> None:
        self.actions.append(text)

    def progress(self, value: Any) -> None:
        self.told.append(value)


def python(text: str, *args: str) -> list[str]:
    """The command that runs a few lines of Python, quickly."""
    return [sys.executable, "-I", "-S", "-c", text, *args]


def sh(text: str, *args: str) -> list[str]:
    """The command that runs a few lines of shell."""
    return ["/bin/sh", "-c", text, "sh", *args]


def is_alive(pid: int) -> bool:
    """Whether a process still runs: a zombie whose parent is elsewhere does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # The second, if it goes while the file is read.
        return False


def run(command: Any, body: Any = None, context: Attempt | None = None, **options: Any) -> Any:
    """One message through one program."""
    context = context or Attempt(body)
    return exec_handler(command, **options)(context.message, context)
