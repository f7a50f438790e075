"""Where answers go: a queue of its own for every process that asks, which Holdfast declares and removes by itself."""

from __future__ import annotations

from holdfast.core.queue import LARGEST, QueueSpec

REPLIES = "holdfast.replies."
"""What the names of all reply queues begin with."""

GONE = f"{REPLIES}gone."
"""What the names of those begin with that nobody listens to any more."""

DIED = "holdfast.died"
"""The header of what is said to an asker in place of an answer: the request is a dead letter."""

REPLY_SPEC = QueueSpec(history=0.0, max_attempts=10_000, max_size=LARGEST)
"""An answer is forgotten when it was heard. It can hardly die, for nobody would look at the dead letter."""


def is_reply_queue(name: object) -> bool:
    """Whether this is the name of a queue for answers."""
    return isinstance(name, str) and name.startswith(REPLIES)


def default_spec(name: str) -> QueueSpec:
    """The settings of a queue that comes to life without having been declared."""
    return REPLY_SPEC if is_reply_queue(name) else QueueSpec()
