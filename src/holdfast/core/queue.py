"""What a queue promises its messages: the settings that `hf.queue()` declares."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.duration import micros, seconds
from holdfast.core.retry import Backoff, backoff
from holdfast.errors import InvalidInput, shown

ON_DEAD = ("continue", "block")
ORDERINGS = ("unordered", "fifo", "per_key")
NAME_LIMIT = 200
LARGEST = 256 * 1_048_576
"""Bytes; a message above this does not fit into a statement of every database."""


DEEPEST = 1_000_000_000_000


class QueueSpec(msgspec.Struct, frozen=True):
    """A queue's settings, as stored with it. Durations in seconds."""

    lease: float = 30.0
    max_attempts: int = 5
    backoff: Backoff = Backoff()
    ordering: str = "unordered"
    dead_letter: str | None = None
    history: float = 3600.0
    max_age: float | None = None
    max_size: int = 1_048_576
    idempotency_window: float = 86_400.0
    dead_retention: float | None = None
    on_dead: str = "continue"
    max_depth: int | None = None
    owner: str | None = None
    history_limit: int = 100_000

    @property
    def ordered(self) -> bool:
        """Whether only the head of a key may be claimed."""
        return self.ordering != "unordered"

    def run_limit(self, wanted: int) -> int:
        """How many messages one lease may cover. With a single attempt a crash would kill a whole run, so: one."""
        return 1 if self.max_attempts == 1 else wanted

    def order_key(self, key: str | None) -> str:
        """The key whose head is claimable: all of a fifo queue shares one, an unkeyed message has none."""
        if self.ordering == "per_key":
            return "" if key is None else "=" + key
        return "fifo" if self.ordering == "fifo" else ""


def user_key(order_key: str) -> str | None:
    """The key behind an order key, as a user knows it; None for all of a fifo queue."""
    return order_key[1:] if order_key.startswith("=") else None


def blocked_order_key(key: str | None) -> str:
    """The way back: whatever the queue's ordering is by now."""
    return "fifo" if key is None else "=" + key


def queue_spec(settings: dict[str, Any]) -> QueueSpec:
    """Checks what a user wrote in `hf.queue(name, …)`; what is not given has its default."""
    known = set(QueueSpec.__struct_fields__)
    for name in settings:
        if name not in known:
            raise InvalidInput(f"queue() has no setting {name!r}; it knows {', '.join(sorted(known))}")
    spec = QueueSpec(**{name: _read(name, value) for name, value in settings.items()})
    if micros(spec.lease) < 1:
        raise InvalidInput("lease must be at least a microsecond")
    return spec


def _read(name: str, value: Any) -> Any:
    if name in ("lease", "history", "idempotency_window"):
        return seconds(value, name)
    if name == "backoff":
        return value if isinstance(value, Backoff) else backoff(value)
    if name == "max_attempts" and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 10_000):
        raise InvalidInput(f"max_attempts must be a whole number from 1 to 10000, not {shown(value)}")
    if name == "ordering" and value not in ORDERINGS:
        raise InvalidInput(f"ordering must be one of {', '.join(ORDERINGS)}, not {shown(value)}")
    if name in ("max_age", "dead_retention") and value is not None:
        return _lasting(name, seconds(value, name))
    if name == "max_size" and (type(value) is not int or not 1 <= value <= LARGEST):
        raise InvalidInput(f"max_size must be a whole number of bytes from 1 to {LARGEST}, not {shown(value)}")
    if name == "max_depth" and value is not None and (type(value) is not int or not 1 <= value <= DEEPEST):
        raise InvalidInput(
            f"max_depth must be a whole number from 1 to {DEEPEST}, or None for no limit, not {shown(value)}"
        )
    if name == "history_limit" and (type(value) is not int or not 0 <= value <= DEEPEST):
        raise InvalidInput(f"history_limit must be a whole number from 0 to {DEEPEST}, not {shown(value)}")
    if name == "on_dead" and value not in ON_DEAD:
        raise InvalidInput(f"on_dead must be one of {', '.join(ON_DEAD)}, not {shown(value)}")
    if name in ("dead_letter", "owner") and value is not None:
        return channel_name(value, name)
    return value


def _lasting(name: str, time: float) -> float:
    if micros(time) < 1:
        raise InvalidInput(f"{name} must be at least a microsecond; None means for ever")
    return time


def channel_name(name: str, what: str = "name") -> str:
    """Checks the name of a queue, tenant or owner: text that every store, URL and log can carry."""
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{what} must be a name: text, and not empty, not {shown(name)}")
    if len(name) > NAME_LIMIT:
        raise InvalidInput(f"{what} {shown(name)} has {len(name)} characters; at most {NAME_LIMIT} are allowed")
    # Lone surrogates are not printable either.
    if not name.isprintable() or name != name.strip() or "/" in name:
        raise InvalidInput(f"{what} {shown(name)} may not hold slashes, control characters or outer spaces")
    return name
