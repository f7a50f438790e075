"""Being seen as a consumer: noted when a client first asks a queue for work, and again now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable

from holdfast.store.api import Channel
from holdfast.topics.rules.declaration import GroupSpec
from holdfast.topics.rules.liveness import NOTES_PER_TIMEOUT

EVERY = 15.0
"""Seconds. Who was not seen for three times as long is no consumer any more."""


class Presence:
    """When each queue was last told. A group that dies of silence is told so often that its timeout cannot pass."""

    def __init__(self) -> None:
        self._noted: dict[int, float] = {}

    def is_due(self, channel: Channel) -> bool:
        """Whether it is time to tell again."""
        return time.monotonic() >= self._noted.get(channel.id, -math.inf) + min(EVERY, _patience(channel))

    def note(self, channel: Channel, worker: str) -> str | None:
        """The worker to tell of, if it is time; None otherwise."""
        if not self.is_due(channel):
            return None
        self._noted[channel.id] = time.monotonic()
        return worker

    def longest_nap(self, channels: Iterable[Channel]) -> float:
        """Seconds for which who waits here may sleep without any of these groups dying of it."""
        return min(map(_patience, channels), default=math.inf)


def _patience(channel: Channel) -> float:
    """Seconds between two notes that a group can do with; queues, and groups without a timeout, can do with none."""
    timeout = channel.spec.timeout if isinstance(channel.spec, GroupSpec) else None
    return math.inf if timeout is None else timeout / NOTES_PER_TIMEOUT
