"""What the database holds when all is over: the other half of what a checker needs to know."""

from __future__ import annotations

from pathlib import Path

import msgspec

QUEUE, TOPIC, GROUP, STEP = "queue", "topic", "group", "step"

OVER = frozenset({"succeeded", "dead", "expired", "canceled"})
"""States that a message never leaves."""


class ChannelEnd(msgspec.Struct, omit_defaults=True):
    """One queue, topic or group in the end. `messages` are the states of all ids that anybody has ever heard of and the
    database still knows. The messages of a `step` are sent by the database itself."""

    name: str
    kind: str = QUEUE
    source: str = ""
    """Of a group: its topic."""
    ordered: bool = False
    """Whether the messages of a key come one after the other."""
    max_attempts: int = 0
    keeps: bool = True
    """Whether messages that are done stay visible long enough to be found in the end."""
    messages: dict[str, str] = {}
    counts: dict[str, int] = {}
    """What `stats` says: pending, waiting, processing, dead."""


class SagaEnd(msgspec.Struct, omit_defaults=True):
    """One saga in the end. `steps` are (name, status, whether it has an undo); `timeline` is (what, step)."""

    id: str
    status: str
    steps: list[tuple[str, str, bool]] = []
    timeline: list[tuple[str, str]] = []


class FinalState(msgspec.Struct, omit_defaults=True):
    """Everything that was read after the drain."""

    channels: list[ChannelEnd] = []
    sagas: list[SagaEnd] = []
    forgets_sagas: bool = False
    """Whether sagas that have ended are soon gone."""
    is_server: bool = False
    """Whether the database goes on for a while with what its caller will never hear of."""
    patience: float = 0.0
    """Seconds after the heal by which everything has to have ended; 0 if nobody says."""

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self)))

    @classmethod
    def load(cls, path: Path) -> FinalState:
        return msgspec.json.decode(path.read_bytes(), type=cls)
