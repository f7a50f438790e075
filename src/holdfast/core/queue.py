"""What a queue promises its messages: the settings that `hf.queue()` declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

import msgspec

from holdfast.core.duration import Duration, micros, seconds
from holdfast.core.given import Default, Reader, SettingsUpdate, read_settings
from holdfast.core.labels import labels
from holdfast.core.limits import MOST, Rate, rate
from holdfast.core.message_type import MessageForm, form_of
from holdfast.core.retry import Backoff, backoff
from holdfast.errors import InvalidInput, shown
from holdfast.sqs.rules.names import CALLBACK, sqs_name

EMPTY = ("poll", "hibernate", "terminate")
ON_DEAD = ("continue", "block")
DELIVERIES = ("database", "sqs")
ORDERINGS = ("unordered", "fifo", "per_key")
NAME_LIMIT = 200
INBOX = ".inbox"
LARGEST = 256 * 1_048_576
"""Bytes; a message above this does not fit into a statement of every database."""

DEEPEST = 1_000_000_000_000
LARGEST_AMOUNT = 1e15


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
    empty: str = "poll"
    requires: dict[str, str] = {}
    concurrency: int | None = None
    rate: Rate | None = None
    key_concurrency: int | None = None
    key_rate: Rate | None = None
    budget: float | None = None
    message_budget: float | None = None
    max_time: float | None = None
    max_repeats: int | None = None
    commitments: list[dict[str, Any]] = []
    delivery: str = "database"
    sqs_queue: str | None = None
    sqs_fallback: float | None = None
    dead_events: str | None = None
    message_type: MessageForm | None = None

    @property
    def ordered(self) -> bool:
        """Whether only the head of a key may be claimed."""
        return self.ordering != "unordered"

    @property
    def has_lanes(self) -> bool:
        """Whether a message may be one of many under one lease; what SQS delivers has a state of its own."""
        return self.delivery == "database"

    @property
    def reaches_outside(self) -> bool:
        """Whether anything but the database has to do with it: SQS delivers it, or its deaths are told outside."""
        return self.delivery != "database" or self.dead_events is not None

    @property
    def is_limited(self) -> bool:
        """Whether a claimed message takes a place or a start that others wait for."""
        return self.concurrency is not None or self.rate is not None or self.limited_by_key

    @property
    def limited_by_key(self) -> bool:
        """Whether each key has a limit of its own, so that messages with a key need a state of their own."""
        return self.key_concurrency is not None or self.key_rate is not None

    def run_limit(self, wanted: int) -> int:
        """How many messages one lease may cover. With a single attempt a crash would kill a whole run, so: one."""
        return 1 if self.max_attempts == 1 else wanted

    def order_key(self, key: str | None) -> str:
        """The key whose head is claimable: all of a fifo queue shares one, an unkeyed message has none."""
        return order_key(self.ordering, key)


def order_key(ordering: str, key: str | None) -> str:
    """The same, by the name of the ordering."""
    if ordering == "per_key":
        return "" if key is None else "=" + key
    return "fifo" if ordering == "fifo" else ""


def user_key(order_key: str) -> str | None:
    """The key behind an order key, as a user knows it; None for all of a fifo queue."""
    return order_key[1:] if order_key.startswith("=") else None


def blocked_order_key(key: str | None) -> str:
    """The way back: whatever the queue's ordering is by now."""
    return "fifo" if key is None else "=" + key


class QueueSettings(TypedDict, total=False):
    """The keywords of `hf.queue(name, …)`, as users write them."""

    message_type: Any
    lease: Duration | Default
    max_attempts: int | Default
    backoff: Backoff | str | Duration | Sequence[Duration] | Default | None
    ordering: str | Default
    on_dead: str | Default
    dead_letter: str | Default | None
    history: Duration | Default
    history_limit: int | Default
    max_age: Duration | Default | None
    max_size: int | Default
    max_depth: int | Default | None
    idempotency_window: Duration | Default
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
    delivery: str | Default
    sqs_queue: str | Default | None
    sqs_fallback: Duration | Default | None
    dead_events: str | Default | None


def queue_spec(settings: QueueSettings, before: QueueSpec | None = None) -> QueueSpec:
    """Checks what a user wrote in `hf.queue(name, …)`; what is not given is as `before`, or has its default."""
    return queue_change(settings)(before)


def queue_change(settings: QueueSettings, delivery: str = "database") -> SettingsUpdate[QueueSpec]:
    """Checks what a user wrote in `hf.queue(name, …)`. `delivery` is the client's default."""
    given = read_settings("queue()", cast("Mapping[str, Any]", settings), READERS)
    return SettingsUpdate(QueueSpec, given, {"delivery": delivery}, _delivered)


def _delivered(spec: QueueSpec, given: Mapping[str, Any]) -> QueueSpec:
    """Settings of SQS go when SQS does not deliver any more; to give one then is a mistake."""
    if spec.delivery != "database":
        return spec
    if any(isinstance(given.get(name), str | float) for name in ("sqs_queue", "sqs_fallback")):
        raise InvalidInput('sqs_queue and sqs_fallback are for queues with delivery="sqs"')
    return msgspec.structs.replace(spec, sqs_queue=None, sqs_fallback=None)


def _length(name: str, value: Any) -> float:
    return seconds(value, name)


def _lease(name: str, value: Any) -> float:
    if micros(value, name) < 1:
        raise InvalidInput("lease must be at least a microsecond")
    return seconds(value, name)


def _lasting(name: str, value: Any) -> float:
    time = seconds(value, name)
    if micros(time) < 1:
        raise InvalidInput(f"{name} must be at least a microsecond; None means for ever")
    return time


def _backoff(name: str, value: Any) -> Backoff:
    return value if isinstance(value, Backoff) else backoff(value)


def one_of(words: tuple[str, ...]) -> Reader:
    """Checks a setting that is one of these words."""

    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in words:
            raise InvalidInput(f"{name} must be one of {', '.join(words)}, not {shown(value)}")
        return value

    return read


def _whole(least: int, most: int, unit: str = "") -> Reader:
    def read(name: str, value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise InvalidInput(f"{name} must be a whole number{unit} from {least} to {most}, not {shown(value)}")
        return value

    return read


def amount(name: str, value: Any) -> float:
    """Checks a budget."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST_AMOUNT:
        raise InvalidInput(f"{name} must be a number above 0 and up to 1e15, or None for no limit, not {shown(value)}")
    return float(value)


def _commitments(name: str, value: Any) -> list[dict[str, Any]]:
    from holdfast.commitments.rules import read_commitments  # It knows messages, which know queues.

    return [] if value is None else [msgspec.structs.asdict(one) for one in read_commitments(value, name)]


def _or_none(reader: Reader) -> Reader:
    return lambda name, value: None if value is None else reader(name, value)


READERS: dict[str, Reader] = {
    "lease": _lease,
    "max_attempts": _whole(1, 10_000),
    "backoff": _backoff,
    "ordering": one_of(ORDERINGS),
    "on_dead": one_of(ON_DEAD),
    "dead_letter": _or_none(lambda name, value: channel_name(value, name)),
    "history": _length,
    "history_limit": _whole(0, DEEPEST),
    "max_age": _or_none(_lasting),
    "max_size": _whole(1, LARGEST, " of bytes"),
    "max_depth": _or_none(_whole(1, DEEPEST)),
    "idempotency_window": _length,
    "dead_retention": _or_none(_lasting),
    "owner": _or_none(lambda name, value: owner_name(value, name)),
    "empty": one_of(EMPTY),
    "requires": lambda name, value: {} if value is None else labels(value, name),
    "concurrency": _or_none(_whole(1, MOST)),
    "rate": _or_none(lambda name, value: rate(value, name)),
    "key_concurrency": _or_none(_whole(1, MOST)),
    "key_rate": _or_none(lambda name, value: rate(value, name)),
    "budget": _or_none(amount),
    "message_budget": _or_none(amount),
    "max_time": _or_none(_lasting),
    "max_repeats": _or_none(_whole(2, 1_000)),
    "commitments": _commitments,
    "delivery": one_of(DELIVERIES),
    "sqs_queue": _or_none(sqs_name),
    "sqs_fallback": _or_none(_lasting),
    "dead_events": _or_none(lambda name, value: value if value == CALLBACK else sqs_name(name, value)),
    "message_type": lambda name, value: form_of(value, name),
}


def owner_name(name: str, what: str = "name") -> str:
    """Checks the name of an owner, whose inbox is a queue with a longer name."""
    if len(channel_name(name, what) + INBOX) > NAME_LIMIT:
        most = NAME_LIMIT - len(INBOX)
        raise InvalidInput(f"{what} {shown(name)} has {len(name)} characters; at most {most} are allowed for an owner")
    return name


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
