"""What the rest of Holdfast may ask of a database: small roles, domain verbs, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from holdfast.commands.rules import CommandKey, CommandReceipt
from holdfast.core import priority
from holdfast.core.given import Settle
from holdfast.core.health import HealthFinding
from holdfast.core.message import Duplicate, Lease, Message, MessageId, NewMessage
from holdfast.core.queue import QueueSpec
from holdfast.core.settlement import Settlement
from holdfast.errors import HoldfastError
from holdfast.sagas.steps.values import NewSaga
from holdfast.sqs.steps.values import Courier
from holdfast.store.verbs import Database
from holdfast.topics.rules.declaration import TopicSpec


class Channel(msgspec.Struct, frozen=True):
    """Where a reader's messages come from: a declared queue and the hidden group that consumes it, or a topic's group.

    A group is a channel of its own, called topic/group, which reads the lanes of another, its `source`.
    """

    id: int
    group: int
    tenant: str
    name: str
    spec: QueueSpec
    source: int | None = None

    @property
    def entry(self) -> int:
        """The channel that its messages come in by."""
        return self.source or self.id

    def lane(self, level: int) -> int:
        """The lane of a priority."""
        return priority.lane(self.entry, level)


class Topic(msgspec.Struct, frozen=True):
    """A declared topic. Its hidden group reads nothing; what is published is counted there."""

    id: int
    group: int
    tenant: str
    name: str
    spec: TopicSpec

    def channel(self) -> Channel:
        """The way in."""
        return Channel(self.id, self.group, self.tenant, self.name, self.spec.as_queue())


class Seat(msgspec.Struct, frozen=True):
    """One of the places of a pool, held until `until` unless it is kept. The token says by whom."""

    number: int
    worker: str
    token: MessageId
    until: int


class Grant(Protocol):
    """What the store reads of a granted claim. `member` is its place in a run, None for a row with its own lease."""

    message: Message
    attempt: int
    lease: Lease
    member: int | None
    channel: Channel


Granted = TypeVar("Granted", bound=Grant)
Made = TypeVar("Made", bound=Grant, covariant=True)


class Make(Protocol[Made]):
    """Makes the caller's object of what was granted: its message, attempt, lease, member and channel. The store calls
    it once per message, so that nobody has to go through the messages a second time."""

    def __call__(
        self, message: Message, attempt: int, lease: Lease, member: int | None, channel: Channel, /
    ) -> Made: ...


class ClaimRequest(msgspec.Struct, frozen=True):
    """Who wants what. `ack` is settled on the way, in the same transaction where that is possible; `done` are leases
    of runs whose every message is acked. With a `courier`, what SQS delivers is not waited for here.
    `alone_first` begins with a row that must be held alone: asked for now and then, it keeps them from being passed by
    for ever. `alone` says whether there may be any. `strict` looks past a channel if nothing is to be had there.
    `shares` is how many of each channel are wanted, whatever the limit; if these are fewer than the limit in the end,
    the channels fill it up in their order."""

    channels: Sequence[Channel]
    limit: int
    worker: str
    lease: int | None = None
    ack: Sequence[Settlement] = ()
    done: Sequence[Lease] = ()
    alone_first: bool = False
    alone: bool = True
    courier: Courier | None = None
    strict: bool = False
    shares: Sequence[int] | None = None

    def term(self, channel: Channel) -> int:
        """How long a lease lasts, in microseconds."""
        return self.lease or round(channel.spec.lease * 1_000_000)

    def parts(self) -> list[tuple[Channel, int | None]]:
        """The channels in the order in which they are asked: first each for its share, then all for what is left of
        the limit, which stands as None. Shares are asked for in the order of ids: who claims from the same channels
        locks them in the same order."""
        filling: list[tuple[Channel, int | None]] = [(channel, None) for channel in self.channels]
        if self.shares is None:
            return filling
        sharing = [(one, share) for one, share in zip(self.channels, self.shares, strict=True) if share > 0]
        return sorted(sharing, key=lambda part: part[0].id) + filling


class ClaimResult(msgspec.Struct, Generic[Granted]):
    """What came of a request: the grants, for each ack whether the lease still held, for each run that was done the
    places of messages that were not its own any more, `silent` groups, which claim nothing before a beat, and whether
    there may be `more` at once: SQS gives a few at a time, and may owe an answer. `asked` is when the database was, by
    the monotonic clock, if that was later than the call: leases begin then."""

    grants: list[Granted]
    acked: list[bool]
    lost: list[list[int]]
    silent: Sequence[Channel] = ()
    more: bool = False
    asked: float | None = None


class MessageVerbs(Protocol):
    """The life of messages: in, claimed, settled."""

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]: ...
    def claim(self, request: ClaimRequest, make: Make[Granted]) -> ClaimResult[Granted]: ...
    def settle(self, settlements: Sequence[Settlement]) -> list[bool]: ...
    def extend(self, settlements: Sequence[Settlement], micros: int) -> list[int | None]: ...
    def sweep(self, channel: Channel, limit: int, worker: str | None = None) -> int: ...


class Joined(Protocol):
    """The caller's own transaction: what is done here happens when it commits, and never did if it does not."""

    def find(self, tenant: str, name: str) -> Channel | None: ...
    def declare(self, tenant: str, name: str, settle: Settle[QueueSpec]) -> Channel: ...
    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]: ...
    def settle(self, settlements: Sequence[Settlement]) -> list[bool]: ...
    def begin_command(self, of: CommandKey) -> tuple[str, bytes | None]: ...
    def end_command(self, receipt: CommandReceipt) -> None: ...
    def start_saga(self, new: NewSaga) -> HoldfastError | None: ...


class Waiter(Protocol):
    """One sleeper's ear. Ringing is a hint: whoever wakes looks, and whoever is not woken looks anyway, later."""

    def wait(self, channels: Sequence[int], timeout: float) -> bool: ...
    def poke(self) -> None: ...
    def close(self) -> None: ...


class Wakeup(Protocol):
    """Telling sleepers, in this and other processes, that a channel has something new."""

    def ring(self, channels: Sequence[int]) -> None: ...
    def bell(self) -> Waiter: ...
    def close(self) -> None: ...


class Schema(Protocol):
    """The database's structure."""

    @property
    def newest(self) -> int: ...
    @property
    def has_matched(self) -> bool: ...
    def migrate(self) -> list[str]: ...
    def verify(self) -> int: ...
    def version(self) -> int: ...
    def is_ahead(self) -> bool: ...
    def rebase(self) -> None: ...


class HealthStore(Protocol):
    """What could be wrong with the database, looked at without changing anything."""

    def look(self) -> list[HealthFinding]: ...
    def through_sqs(self) -> list[tuple[str, str]]: ...


class Lending(Protocol):
    """Connections of the driver for code that is not ours, each with a transaction that ends with the block."""

    def __call__(self) -> AbstractContextManager[Any]: ...
    def awaited(self) -> AbstractAsyncContextManager[Any]: ...
    def close(self) -> None: ...


class Faults(Protocol):
    """What a database can be asked to do to its own users. Nothing of it changes any data."""

    def fill(self, full: bool) -> bool:
        """From now on this client finds no room for anything new, or room again. False where it cannot be had."""
        ...

    def end_sessions(self, named: str) -> int:
        """Ends all sessions whose application name begins so; how many (none where there are no sessions)."""
        ...

    def unheard(self) -> int:
        """How many answers to this process were lost so far, each of which it asked for again by itself."""
        ...

    def size(self) -> int:
        """How many bytes the database takes."""
        ...


class Store:
    """One database. What depends on its kind is set by `SqliteStore` and `PostgresStore`."""

    messages: MessageVerbs
    wakeup: Wakeup
    schema: Schema
    join: Callable[[object], Joined]
    lend: Lending
    health: HealthStore
    faults: Faults

    def __init__(self, database: Database) -> None:
        from holdfast.store import verb_groups  # Here, because the steps that roles consist of import this module.

        self.database = database
        self.channels = verb_groups.Channels(database)
        self.topics = verb_groups.TopicVerbs(database)
        self.retention = verb_groups.Retention(database)
        self.places = verb_groups.Places(database)
        self.deliveries = verb_groups.Deliveries(database)
        self.deaths = verb_groups.Deaths(database)
        self.upkeep = verb_groups.UpkeepVerbs(database)
        self.acts = verb_groups.Acts(database)
        self.reads = verb_groups.Reads(database)
        self.letters = verb_groups.Letters(database)
        self.owners = verb_groups.Owners(database)
        self.replies = verb_groups.Replies(database)
        self.notices = verb_groups.NoticeVerbs(database)
        self.crew = verb_groups.Crew(database)
        self.seats = verb_groups.Seats(database)
        self.leaders = verb_groups.Leaders(database)
        self.efforts = verb_groups.Efforts(database)
        self.commitments = verb_groups.Commitments(database)
        self.commands = verb_groups.CommandVerbs(database)
        self.sagas = verb_groups.SagaVerbs(database)
        self.saga_definitions = verb_groups.SagaDefinitions(database)
        self.schedules = verb_groups.ScheduleVerbs(database)

    def close(self) -> None:
        """Close all connections. The next call opens new ones."""
        self.lend.close()
        self.database.close()
