"""What a topic promises to those who publish, and a group to those who read: `hf.topic()` and `hf.subscribe()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from holdfast.core import queue
from holdfast.core.duration import Duration, seconds
from holdfast.core.limits import Rate
from holdfast.core.message import MessageId, id_bytes
from holdfast.core.moments import MomentOrNone, Timed, given
from holdfast.core.queue import QueueSpec
from holdfast.core.retry import Backoff
from holdfast.errors import InvalidInput, shown

MODES = ("pubsub", "queue")
NO_SUBSCRIBERS = ("keep", "refuse")
MOST_MISSES = 1_000


class TopicSpec(msgspec.Struct, frozen=True):
    """A topic's settings, as stored with it. Durations in seconds."""

    retention: float = 86_400.0
    min_retention: float = 0.0
    no_subscribers: str = "keep"
    max_size: int = 1_048_576
    max_depth: int | None = None
    idempotency_window: float = 86_400.0

    def as_queue(self) -> QueueSpec:
        """What of it concerns a message on its way in."""
        return QueueSpec(
            max_size=self.max_size,
            max_depth=self.max_depth,
            idempotency_window=self.idempotency_window,
            history=0.0,
        )


class TopicSettings(TypedDict, total=False):
    """The keywords of `hf.topic(name, …)`, as users write them."""

    retention: Duration
    min_retention: Duration
    no_subscribers: str
    max_size: int
    max_depth: int | None
    idempotency_window: Duration


def topic_spec(settings: TopicSettings) -> TopicSpec:
    """Checks what a user wrote in `hf.topic(name, …)`; what is not given has its default."""
    spec = TopicSpec(**_read("topic()", dict(settings), _TOPIC_READERS))
    if spec.min_retention > spec.retention:
        raise InvalidInput("min_retention must not be longer than retention, after which everything goes")
    return spec


class GroupSpec(QueueSpec, frozen=True):
    """A group's settings, as stored with it: those of a queue, as far as they are a reader's, and what it wants."""

    history: float = 0.0
    patterns: tuple[str, ...] = ()
    timeout: float | None = None
    misses: int = 3
    catch_up_rate: Rate | None = None

    @property
    def fed(self) -> str | None:
        """The order of a group whose part of the log is copied into rows, because its keys matter; None for others."""
        return self.ordering if self.ordered or self.limited_by_key else None


class GroupSettings(TypedDict, total=False):
    """The keywords of `hf.subscribe(topic, group, …)` about its messages, as users write them."""

    lease: Duration
    max_attempts: int
    backoff: Backoff | str | Duration | Sequence[Duration] | None
    ordering: str
    on_dead: str
    dead_letter: str | None
    dead_retention: Duration | None
    owner: str | None
    empty: str
    requires: dict[str, str] | None
    concurrency: int | None
    rate: int | str | Rate | None
    key_concurrency: int | None
    key_rate: int | str | Rate | None
    budget: float | None
    message_budget: float | None
    max_time: Duration | None
    max_repeats: int | None
    commitments: Sequence[Any] | None
    timeout: Duration | None
    misses: int
    catch_up_rate: int | str | Rate | None


def group_spec(patterns: tuple[str, ...], settings: GroupSettings) -> GroupSpec:
    """Checks what a user wrote in `hf.subscribe(…)`; what is not given has its default."""
    return GroupSpec(patterns=patterns, **_read("subscribe()", dict(settings), _GROUP_READERS))


def group_name(name: str, what: str = "group") -> str:
    """Checks the name of a group."""
    return queue.channel_name(name, what)


def address(topic: str, group: str) -> str:
    """What a group is called wherever a queue's name is wanted. No name holds a slash.

    >>> address("orders", "email")
    'orders/email'
    """
    return f"{topic}/{group}"


def reader_name(name: str, what: str = "name") -> str:
    """Checks the name of a queue, or the address of a group."""
    if isinstance(name, str) and "/" in name:
        topic, _, group = name.partition("/")
        queue.channel_name(topic, what)
        group_name(group, what)
        return name
    return queue.channel_name(name, what)


def parts(name: str) -> tuple[str, str] | None:
    """The topic and the group of an address; None if it is the name of a queue."""
    topic, slash, group = name.partition("/")
    return (topic, group) if slash else None


def _read(call: str, settings: dict[str, Any], readers: Mapping[str, queue.Reader]) -> dict[str, Any]:
    for name in settings:
        if name not in readers:
            raise InvalidInput(f"{call} has no setting {shown(name)}; it knows {', '.join(sorted(readers))}")
    return {name: readers[name](name, value) for name, value in settings.items()}


def _length(name: str, value: Any) -> float:
    return seconds(value, name)


def _timeout(name: str, value: Any) -> float | None:
    if value is None:
        return None
    length = seconds(value, name)
    if length <= 0:
        raise InvalidInput(f"{name} must be more than nothing; None is for ever")
    return length


def _misses(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_MISSES:
        raise InvalidInput(f"{name} must be a whole number from 1 to {MOST_MISSES}, not {shown(value)}")
    return value


_TOPIC_READERS: dict[str, queue.Reader] = {
    "retention": _length,
    "min_retention": _length,
    "no_subscribers": queue.one_of(NO_SUBSCRIBERS),
    "max_size": queue.READERS["max_size"],
    "max_depth": queue.READERS["max_depth"],
    "idempotency_window": queue.READERS["idempotency_window"],
}
_GROUP_READERS: dict[str, queue.Reader] = {
    **{name: reader for name, reader in queue.READERS.items() if name in GroupSettings.__annotations__},
    "timeout": _timeout,
    "misses": _misses,
    "catch_up_rate": queue.READERS["rate"],
}


class GroupStatus(Timed, msgspec.Struct, frozen=True, kw_only=True):
    """A group of a topic, as `hf.groups()` shows it. Ages are seconds.

    Of the `past` messages that were there before it, it has not come to `behind` yet. `lag` are messages that it has
    not come to yet or has to try again, `oldest` is the age of the first of them, `in_flight` are claimed and not
    settled, `lost` is how many retention took from it, `deaths` and `revivals` how often it was found dead and came
    back. `members` asked for work a short while ago; `last_seen` is when one did last. `state`
    is "active", "paused", "dead" or "canceled".
    """

    topic: str
    group: str
    patterns: list[str]
    state: str
    lag: int
    behind: int
    past: int
    oldest: float | None
    in_flight: int
    dead_letters: int
    deaths: int
    revivals: int
    lost: int
    members: list[str]
    last_seen_us: int | None

    last_seen = MomentOrNone()


class Start(msgspec.Struct, frozen=True):
    """Where a new group begins: with what comes from now on, with all there is, at a time, or with a message."""

    kind: str
    at: int = 0
    id: MessageId = MessageId(16)


class Subscription(msgspec.Struct, frozen=True):
    """What a subscriber wants, and where it begins if its group is new."""

    topic: str
    group: str
    patterns: tuple[str, ...]
    start: Start


def start_of(value: str | float | datetime, what: str = "start") -> Start:
    """Checks where a group is to begin, or to go on."""
    if isinstance(value, datetime) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return Start("time", at=given(value, what))
    if value in ("latest", "earliest"):
        return Start(str(value))
    if isinstance(value, str) and len(value) == len("00000000-0000-0000-0000-000000000000"):
        return Start("id", id=id_bytes(value))
    raise InvalidInput(
        f'{what} must be "latest", "earliest", a datetime with a time zone, seconds since 1970 or the id of a message, '
        f"not {shown(value)}"
    )
