"""What a topic promises to those who publish, and a group to those who read: `hf.topic()` and `hf.subscribe()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, cast

import msgspec

from holdfast.core import queue
from holdfast.core.duration import Duration, seconds
from holdfast.core.given import Default, Reader, SettingsUpdate, read_settings
from holdfast.core.limits import Rate
from holdfast.core.message import MessageId, id_bytes
from holdfast.core.queue import QueueSpec
from holdfast.core.retry import Backoff
from holdfast.core.times import MomentOrNone, WithTimes, given
from holdfast.errors import InvalidInput, shown
from holdfast.topics.rules import routing

MODES = ("pubsub", "queue")
NO_SUBSCRIBERS = ("keep", "refuse")
MOST_MISSES = 1_000


class TopicSpec(msgspec.Struct, frozen=True):
    """A topic's settings, as stored with it. Durations in seconds. Without a `min_retention`, it is the `retention`."""

    retention: float = 86_400.0
    min_retention: float | None = None
    no_subscribers: str = "keep"
    max_size: int = 1_048_576
    max_depth: int | None = None
    idempotency_window: float = 86_400.0

    @property
    def kept_for(self) -> float:
        """How long messages are kept at the least, whoever is done with them."""
        return self.retention if self.min_retention is None else self.min_retention

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

    retention: Duration | Default
    min_retention: Duration | Default | None
    no_subscribers: str | Default
    max_size: int | Default
    max_depth: int | Default | None
    idempotency_window: Duration | Default


def topic_spec(settings: TopicSettings, before: TopicSpec | None = None) -> TopicSpec:
    """Checks what a user wrote in `hf.topic(name, …)`; what is not given is as `before`, or has its default."""
    return topic_change(settings)(before)


def topic_change(settings: TopicSettings) -> SettingsUpdate[TopicSpec]:
    """Checks what a user wrote in `hf.topic(name, …)`."""
    given = read_settings("topic()", cast("Mapping[str, Any]", settings), TOPIC_READERS)
    return SettingsUpdate(TopicSpec, given, check=_retained)


def _retained(spec: TopicSpec, _: Mapping[str, Any]) -> TopicSpec:
    if spec.kept_for > spec.retention:
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
    """The keywords of `hf.subscribe(topic, group, …)` but for where it begins, as users write them."""

    patterns: Sequence[str] | str | Default | None
    lease: Duration | Default
    max_attempts: int | Default
    backoff: Backoff | str | Duration | Sequence[Duration] | Default | None
    ordering: str | Default
    on_dead: str | Default
    dead_letter: str | Default | None
    dead_retention: Duration | Default | None
    owner: str | Default | None
    empty: str | Default
    requires: dict[str, str] | Default | None
    concurrency: int | Default | None
    rate: int | str | Rate | Default | None
    key_concurrency: int | Default | None
    key_rate: int | str | Rate | Default | None
    budget: float | Default | None
    message_budget: float | Default | None
    max_time: Duration | Default | None
    max_repeats: int | Default | None
    commitments: Sequence[Any] | Default | None
    timeout: Duration | Default | None
    misses: int | Default
    catch_up_rate: int | str | Rate | Default | None


def group_spec(patterns: tuple[str, ...], settings: GroupSettings, before: GroupSpec | None = None) -> GroupSpec:
    """Checks what a user wrote in `hf.subscribe(…)`; what is not given is as `before`, or has its default."""
    return group_change(None, {**settings, "patterns": patterns})(before)


def group_change(topic: str | None, settings: GroupSettings) -> SettingsUpdate[GroupSpec]:
    """Checks what a user wrote in `hf.subscribe(…)`. Without a topic, patterns were checked before."""
    readers, usual = GROUP_READERS, {}
    if topic is not None:
        readers = {**GROUP_READERS, "patterns": lambda _, value: routing.patterns_of(topic, value)}
        usual = {"patterns": routing.patterns_of(topic, None)}
    return SettingsUpdate(GroupSpec, read_settings("subscribe()", cast("Mapping[str, Any]", settings), readers), usual)


def settings_of(spec: QueueSpec | TopicSpec) -> dict[str, Any]:
    """Stored settings by the names that users know: all that can be declared."""
    if isinstance(spec, TopicSpec):
        readers = TOPIC_READERS
    else:
        readers = GROUP_READERS if isinstance(spec, GroupSpec) else queue.READERS
    return {name: getattr(spec, name) for name in sorted(readers)}


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


TOPIC_READERS: dict[str, Reader] = {
    "retention": _length,
    "min_retention": lambda name, value: None if value is None else _length(name, value),
    "no_subscribers": queue.one_of(NO_SUBSCRIBERS),
    "max_size": queue.READERS["max_size"],
    "max_depth": queue.READERS["max_depth"],
    "idempotency_window": queue.READERS["idempotency_window"],
}
GROUP_READERS: dict[str, Reader] = {
    **{name: reader for name, reader in queue.READERS.items() if name in GroupSettings.__annotations__},
    "patterns": lambda _, value: tuple(value),
    "timeout": _timeout,
    "misses": _misses,
    "catch_up_rate": queue.READERS["rate"],
}


class GroupStatus(WithTimes, msgspec.Struct, frozen=True, kw_only=True):
    """A group of a topic, as `hf.groups.list()` shows it. Ages are seconds.

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
