"""Short words for what nearly every test of a runtime does."""

import threading
from typing import Any

import pytest

from holdfast import Holdfast, State
from holdfast.client.client import internals
from holdfast.worker.runner import Runner
from tests.waiting import eventually

PATIENCE = 100.0


def ended(hf: Holdfast, message_id: str) -> State:
    """The state of a message once it has ended."""
    final = (State.SUCCEEDED, State.DEAD, State.CANCELED, State.EXPIRED)
    return eventually(lambda: (found := hf.status(message_id)) and found.state in final and found.state, "the end")


def swallow_rings(monkeypatch: pytest.MonkeyPatch, hf: Holdfast) -> None:
    """Whatever this client does, nobody is woken by it."""
    monkeypatch.setattr(internals(hf).store.wakeup, "ring", lambda *_: None)
    monkeypatch.setattr(
        internals(hf).store.wakeup, "is_quiet", lambda: False, raising=False
    )  # PostgreSQL's may ring by itself.


def let_time_pass(runner: Runner, seconds: float = 7200.0) -> None:
    """As if every handler that runs had begun so much earlier: an hour's timeout is over, and on no machine sooner."""
    for worker in runner.workers:
        for context in worker.running():
            context.started -= seconds


class Calls:
    """What a handler was called with, in order; threads may wait for it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self._changed = threading.Condition()

    def note(self, what: Any) -> None:
        with self._changed:
            self.seen.append(what)
            self._changed.notify_all()

    def wait(self, count: int) -> list[Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.seen) >= count, PATIENCE), f"only {len(self.seen)} calls"
            return list(self.seen)
