"""The crew: what a running consumer tells of itself, and which queues it is attached to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.duration import micros
from holdfast.core.labels import missing
from holdfast.core.message import plain_text
from holdfast.core.queue import EMPTY, channel_name
from holdfast.core.times import Moment, MomentOrNone, WithTimes
from holdfast.errors import InvalidInput, shown

STATES = ("working", "idle", "hibernating", "draining")

MOST_WORK = 20
"""So many messages in hand a consumer tells of, however many it has."""

HEAVIEST = 1_000_000.0


class Work(WithTimes, msgspec.Struct, frozen=True, rename={"since_us": "since"}):
    """A message in a consumer's hands. `since` is when it was claimed; `progress` is what its handler last told."""

    id: str
    queue: str
    attempt: int
    since_us: int
    progress: Any = None

    since = Moment()


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """What a running consumer tells of itself now and then. `id` is new for every start, and its leases carry it.

    It holds for `valid_for` seconds: who has not told again by then counts as dead. `saturation` is the share of
    the time, from 0 to 1, that was spent working; `handled` and `failed` count from the start.
    """

    id: str
    consumer: str
    host: str
    pid: int
    queues: list[str]
    state: str
    valid_for: float
    pool: str | None = None
    labels: dict[str, str] = {}
    concurrency: int = 1
    saturation: float = 0.0
    handled: int = 0
    failed: int = 0
    work: list[Work] = []

    def __post_init__(self) -> None:
        channel_name(self.consumer, "consumer")
        for text, what in ((self.id, "id"), (self.host, "host"), (self.pool, "pool")):
            plain_text(text, what)
        if self.state not in STATES:
            raise InvalidInput(f"state must be one of {', '.join(STATES)}, not {shown(self.state)}")
        if micros(self.valid_for, "valid_for") < 1:
            raise InvalidInput("valid_for must be at least a microsecond")
        checked_share(self.saturation, "saturation")


class ConsumerStatus(WithTimes, msgspec.Struct, frozen=True, kw_only=True):
    """A running consumer, as it last told of itself. It is `alive` until it should have told again and has not.

    `state` is "working", "idle", "hibernating" or "draining". `saturation` is the share of the time that it spent
    working; `work` has what is in its hands, at most twenty messages. Times are datetimes in
    UTC, the database's clock.
    """

    id: str
    consumer: str
    pool: str | None
    host: str
    pid: int
    labels: dict[str, str]
    queues: list[str]
    state: str
    concurrency: int
    started_at_us: int
    seen_at_us: int
    valid_until_us: int
    saturation: float
    handled: int
    failed: int
    work: list[Work]
    alive: bool

    started_at = Moment()
    seen_at = Moment()
    valid_until = Moment()


class PoolStatus(msgspec.Struct, frozen=True):
    """The running members of a pool. `saturation` is their average; `handled` and `failed` are sums."""

    name: str
    consumers: list[str]
    members: int
    saturation: float
    handled: int
    failed: int


class Attachment(WithTimes, msgspec.Struct, frozen=True):
    """That a consumer takes from a queue; as a change, with `attached` False, that it does not any more.

    `weight` is how often this queue has its turn beside the consumer's others, `empty` what happens when nothing is
    left: "poll", "hibernate" or "terminate". None is what the consumer's code says. `changed_at` is None for what is
    no change.
    """

    consumer: str
    queue: str
    attached: bool = True
    weight: float | None = None
    empty: str | None = None
    changed_at_us: int | None = None

    changed_at = MomentOrNone()


def attached(declared: Sequence[Attachment], changes: Sequence[Attachment]) -> list[Attachment]:
    """What consumers take from: what their code declares, with what was changed since. Every weight is a number.

    What was declared keeps its place, what was added comes behind.
    """
    changed = {(change.consumer, change.queue): change for change in changes}
    merged = {(one.consumer, one.queue): one for one in declared}
    for place, change in changed.items():
        merged[place] = _changed(merged.get(place, change), change)
    return [
        msgspec.structs.replace(one, weight=1.0 if one.weight is None else one.weight)
        for one in merged.values()
        if one.attached
    ]


def _changed(declared: Attachment, change: Attachment) -> Attachment:
    weight = declared.weight if change.weight is None else change.weight
    return msgspec.structs.replace(change, weight=weight, empty=change.empty or declared.empty)


def newly_attached(crew: Iterable[ConsumerStatus], changes: Sequence[Attachment]) -> set[str]:
    """Queues that were attached to one of these consumers since it last told of itself."""
    return {change.queue for one in crew for change in changes if _is_news(one, change)}


def with_changes(
    told: ConsumerStatus, changes: Sequence[Attachment], requires: Mapping[str, dict[str, str]]
) -> ConsumerStatus:
    """A consumer with the queues that it takes from now. `requires` has the labels that new queues ask for."""
    detached = {one.queue for one in changes if one.consumer == told.consumer and not one.attached}
    added = [one.queue for one in changes if _is_news(told, one) and one.queue not in told.queues]
    fitting = [queue for queue in added if queue in requires and not missing(told.labels, requires[queue])]
    queues = [queue for queue in told.queues if queue not in detached]
    return msgspec.structs.replace(told, queues=[*queues, *fitting])


def _is_news(told: ConsumerStatus, change: Attachment) -> bool:
    is_its_own = change.attached and change.consumer == told.consumer
    return is_its_own and change.changed_at is not None and change.changed_at >= told.seen_at


def amplification(crew: Iterable[ConsumerStatus], threshold: float) -> int:
    """How many live consumers are at least so saturated."""
    return sum(one.alive and one.saturation >= threshold for one in crew)


def pools(crew: Iterable[ConsumerStatus]) -> list[PoolStatus]:
    """The pools that these consumers belong to, by name."""
    members: dict[str, list[ConsumerStatus]] = {}
    for one in crew:
        if one.pool is not None:
            members.setdefault(one.pool, []).append(one)
    return [
        PoolStatus(
            name,
            sorted({one.consumer for one in found}),
            len(found),
            sum(one.saturation for one in found) / len(found),
            sum(one.handled for one in found),
            sum(one.failed for one in found),
        )
        for name, found in sorted(members.items())
    ]


def most_telling(work: Sequence[Work]) -> list[Work]:
    """What a beat has room for: first what tells a progress, then what has been in hand for longest."""
    return sorted(work, key=lambda one: (one.progress is None, one.since_us))[:MOST_WORK]


def checked_share(value: float, what: str) -> float:
    """A share of a whole, from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidInput(f"{what} must be a number from 0 to 1, not {shown(value)}")
    return float(value)


def checked_weight(value: float | None) -> float | None:
    """The weight of an attachment, if one is given."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= HEAVIEST:
        raise InvalidInput(f"weight must be a number above 0, at most {HEAVIEST:,.0f}, not {shown(value)}")
    return float(value)


def checked_empty(value: str | None) -> str | None:
    """What a consumer does when a queue is empty, if it is said."""
    if value is not None and value not in EMPTY:
        raise InvalidInput(f"empty must be one of {', '.join(EMPTY)}, not {shown(value)}")
    return value
