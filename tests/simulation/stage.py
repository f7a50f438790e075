"""Where simulations take place: one migrated database for all of them, set back to its beginning for each.

Each actor has a store of its own, whose connections outlive it: what is new is the client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any

from holdfast import Holdfast, Step
from holdfast.client.client import assembled, internals
from holdfast.core.message import MessageStatus, id_bytes, id_text
from holdfast.settings import Settings
from holdfast.store.engine import read
from holdfast.torture.history import Sink
from holdfast.torture.recording import RecordedMessages
from tests.clock import FakeClock
from tests.simulation.faults import PATIENCE, Faults
from tests.simulation.scheduler import Actor

START = FakeClock().now
LEASE = 10.0

QUEUES: dict[str, dict[str, Any]] = {
    "plain": {"backoff": [2, 5], "max_attempts": 3},
    "forgetful": {"backoff": None, "max_attempts": 4, "history": 0},
    "single": {"backoff": None, "max_attempts": 1},
    "keyed": {"backoff": [2, 5], "max_attempts": 3, "ordering": "per_key"},
    "fifo": {"backoff": None, "max_attempts": 2, "ordering": "fifo", "history": 0},
}
GROUPS: dict[str, dict[str, Any]] = {
    "a": {"backoff": [2], "max_attempts": 3},
    "b": {"backoff": None, "max_attempts": 2, "ordering": "per_key"},
}
TOPIC = "news"
RETENTION = 2
"""Seconds that the topic keeps everything; what a group still needs is kept for longer."""

STEPS = ("x", "y", "z")
STEP_QUEUES = [*STEPS, *(f"un{step}" for step in STEPS)]
STEP_ATTEMPTS = 4
SAGA = "trip"


def declare(hf: Holdfast) -> None:
    """What all simulations work with."""
    for queue, settings in QUEUES.items():
        hf.queue(queue, lease=LEASE, **settings)
    hf.topic(TOPIC, min_retention=RETENTION)
    for group, settings in GROUPS.items():
        hf.subscribe(TOPIC, group, lease=LEASE, **settings)
    for queue in STEP_QUEUES:
        hf.queue(queue, lease=LEASE, max_attempts=STEP_ATTEMPTS, backoff=None)
    x, y, z = (Step(step, step, undo=f"un{step}") for step in STEPS)
    hf.saga(SAGA, steps=[x, [y, z]])


class Stage(ABC):
    """A database that can begin anew."""

    tries_again = False
    """Whether the store asks once more when an answer got lost, instead of telling its caller."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock()
        self.faults: Faults | None = None
        self._stores: list[Any] = []
        self._used = 0
        self._names: dict[int, str] = {}

    def client(self, worker: str, sink: Sink | None = None) -> Holdfast:
        """A new process, as far as the database can see. With a sink, its every word is recorded."""
        if self._used == len(self._stores):
            self._stores.append(self.open_store())
        store = copy(self._stores[self._used])
        self._used += 1
        if sink is not None:
            store.messages = RecordedMessages(store.messages, sink, store.faults.unheard)
        settings = Settings(
            self.url, worker=worker, actor=worker, clock=self.clock, sweep_every=LEASE / 2, patience=PATIENCE
        )
        return assembled(settings, store)

    def introduce(self, hf: Holdfast) -> None:
        """Tells the history of a client what its channels are called, which it would learn from the first claims."""
        messages = internals(hf).store.messages
        assert isinstance(messages, RecordedMessages)
        messages._names.update(self._names)

    def open(self) -> None:
        """Declares everything; the beginning of every simulation."""
        declare(self.client("director"))
        query = "SELECT g.id, c.name FROM holdfast_group g JOIN holdfast_channel c ON c.id = g.channel_id"
        self._names = dict(self.rows(query))

    def reset(self) -> None:
        """As it was at the beginning."""
        self.clock.now = START
        self._used = 0
        self.restore()

    def ids(self) -> list[str]:
        """Of every message that is in the database somehow."""
        found = self.rows(
            "SELECT id FROM holdfast_message UNION SELECT id FROM holdfast_row"
            " UNION SELECT message_id FROM holdfast_dead"
        )
        return [id_text(bytes(raw)) for (raw,) in found]

    def statuses(self, hf: Holdfast, ids: Sequence[str]) -> list[MessageStatus]:
        """Of these messages, as far as the database knows them."""
        wanted = [id_bytes(one) for one in ids]
        database: Any = internals(hf).store.database  # type: ignore[attr-defined]
        database._patience = 60.0  # The story is over: a slow machine may take its time.
        found = database.read(lambda tx: [read.status(tx, "default", one) for one in wanted])
        return [one for one in found if one is not None]

    def close(self) -> None:
        for store in self._stores:
            store.close()

    def is_waiting(self, actor: Actor) -> bool:
        """Whether what an actor waits for in the server is still not there."""
        return False

    @abstractmethod
    def open_store(self) -> Any:
        """With connections that ask `faults` before each statement."""

    @abstractmethod
    def restore(self) -> None:
        """The content of all tables, as it was after everything was declared."""

    @abstractmethod
    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query finds."""
