"""What the rest of Holdfast may ask of a database: small roles, domain verbs, many at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.core.commitments import CommitmentResult
from holdfast.core.deadletter import AuditRecord, BlockedKey, DeadLetterRecord, Selection
from holdfast.core.health import Finding
from holdfast.core.message import Duplicate, Lease, Message, MessageId, MessageStatus, NewMessage
from holdfast.core.notice import Notice, OwnerSpec
from holdfast.core.queue import QueueSpec
from holdfast.core.search import Wanted
from holdfast.core.settlement import Settlement
from holdfast.core.stats import Stats

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Channel(msgspec.Struct, frozen=True):
    """A declared queue and the hidden group that consumes it."""

    id: int
    group: int
    tenant: str
    name: str
    spec: QueueSpec


class Grant(msgspec.Struct, gc=False):
    """One granted claim. `member` is its place in a run, None for a row that has a lease of its own."""

    lease: Lease
    attempt: int
    member: int | None
    message: Message


class ClaimRequest(msgspec.Struct):
    """Who wants what. `ack` is settled on the way, in the same transaction where that is possible.

    `alone_first` begins with a row that must be held alone, if there is one: asked for now and then, it keeps such
    rows from being passed by for ever.
    """

    channels: Sequence[Channel]
    limit: int
    worker: str
    lease: int | None = None
    ack: Sequence[Settlement] = ()
    alone_first: bool = False

    def term(self, channel: Channel) -> int:
        """How long a lease lasts, in microseconds."""
        return self.lease or round(channel.spec.lease * 1_000_000)


class Claimed(msgspec.Struct):
    """What came of a request: the grants, and for each of its acks whether the lease still held."""

    grants: list[Grant]
    acked: list[bool]


class OnLoop:
    """A caller's asyncio connection and the loop it lives on. `given_up` is set when nobody waits for it any more."""

    def __init__(self, connection: Any, loop: AbstractEventLoop) -> None:
        self.connection = connection
        self.loop = loop
        self.given_up = threading.Event()


class Channels(Protocol):
    """Queues by name."""

    def declare(self, tenant: str, name: str, spec: QueueSpec) -> Channel: ...
    def find(self, tenant: str, name: str) -> Channel | None: ...
    def pause(self, channel: Channel, paused: bool) -> None: ...
    def is_paused(self, channel: Channel) -> bool: ...
    def names(self, tenant: str) -> list[str]: ...


class Messages(Protocol):
    """The life of messages: in, claimed, settled."""

    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]: ...
    def claim(self, request: ClaimRequest) -> Claimed: ...
    def settle(self, settlements: Sequence[Settlement]) -> list[bool]: ...
    def extend(self, settlements: Sequence[Settlement], micros: int) -> list[int | None]: ...
    def sweep(self, channel: Channel, limit: int, worker: str | None = None) -> int: ...


class Acts(Protocol):
    """What an operator does to messages."""

    def cancel(self, tenant: str, message_id: MessageId) -> bool: ...
    def unblock(self, channel: Channel, order_key: str) -> bool: ...
    def purge(self, channel: Channel) -> int: ...


class Reads(Protocol):
    """Looking without touching."""

    def status(self, tenant: str, message_id: MessageId) -> MessageStatus | None: ...
    def search(self, tenant: str, wanted: Wanted, limit: int, after: MessageId | None) -> list[MessageStatus]: ...
    def peek(self, channel: Channel, limit: int) -> list[Message]: ...
    def stats(self, channel: Channel) -> Stats: ...
    def blocked(self, channel: Channel, limit: int) -> list[BlockedKey]: ...
    def next_due(self, channels: Sequence[Channel]) -> float | None: ...


class Letters(Protocol):
    """Dead letters, and the record of what was done to them."""

    def find(self, tenant: str, chosen: Selection, limit: int, after: MessageId | None) -> list[DeadLetterRecord]: ...
    def matching(self, tenant: str, chosen: Selection) -> tuple[int, MessageId | None]: ...
    def page(
        self, tenant: str, chosen: Selection, limit: int, after: MessageId | None, last: MessageId
    ) -> list[MessageId]: ...
    def replay(self, tenant: str, actor: str, dead_id: MessageId, fresh: MessageId, body: bytes | None) -> None: ...
    def begin(self, tenant: str, actor: str, act: str, chosen: Selection) -> int: ...
    def act_on(self, tenant: str, actor: str, act: str, ids: list[MessageId], audit_id: int) -> int: ...
    def audit(self, tenant: str, limit: int, before: int | None) -> list[AuditRecord]: ...


class Notices(Protocol):
    """Owners, and the notices that wait for their answer."""

    def declare(self, tenant: str, name: str, spec: OwnerSpec) -> None: ...
    def owners(self, tenant: str) -> dict[str, OwnerSpec]: ...
    def is_due(self, tenant: str) -> bool: ...
    def escalate(self, tenant: str, limit: int) -> int: ...
    def find(
        self, tenant: str, owner: str | None, queue: str | None, open_only: bool, limit: int, after: MessageId | None
    ) -> list[Notice]: ...
    def acknowledge(self, tenant: str, actor: str, ids: Sequence[MessageId], remark: str | None) -> int: ...
    def take_untold(self, tenant: str, owner: str | None, limit: int) -> list[Notice]: ...
    def note_told(self, ids: Sequence[MessageId]) -> None: ...


class Commitments(Protocol):
    """How the checks of commitments went."""

    def keep(self, group: int, message_id: MessageId, attempt: int, results: Sequence[CommitmentResult]) -> None: ...
    def of(self, tenant: str, message_id: MessageId) -> list[CommitmentResult]: ...


class Joined(Protocol):
    """The caller's own transaction: what is done here happens when it commits, and never did if it does not."""

    def find(self, tenant: str, name: str) -> Channel | None: ...
    def declare(self, tenant: str, name: str, spec: QueueSpec) -> Channel: ...
    def insert(self, new: Sequence[NewMessage]) -> list[Duplicate | None]: ...
    def settle(self, settlements: Sequence[Settlement]) -> list[bool]: ...


class Bell(Protocol):
    """One sleeper's ear. Ringing is a hint: whoever wakes looks, and whoever is not woken looks anyway, later."""

    def wait(self, channels: Sequence[int], timeout: float) -> bool: ...
    def close(self) -> None: ...


class Wakeup(Protocol):
    """Telling sleepers, in this and other processes, that a channel has something new."""

    def ring(self, channels: Sequence[int]) -> None: ...
    def bell(self) -> Bell: ...
    def close(self) -> None: ...


class Schema(Protocol):
    """The database's structure."""

    @property
    def newest(self) -> int: ...
    def migrate(self) -> list[str]: ...
    def version(self) -> int: ...
    def is_ahead(self) -> bool: ...
    def rebase(self) -> None: ...


class Health(Protocol):
    """What could be wrong with the database, looked at without changing anything."""

    def look(self) -> list[Finding]: ...


class Store(Protocol):
    """One database."""

    @property
    def channels(self) -> Channels: ...
    @property
    def messages(self) -> Messages: ...
    @property
    def acts(self) -> Acts: ...
    @property
    def reads(self) -> Reads: ...
    @property
    def letters(self) -> Letters: ...
    @property
    def notices(self) -> Notices: ...
    @property
    def commitments(self) -> Commitments: ...
    @property
    def wakeup(self) -> Wakeup: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def join(self) -> Callable[[object], Joined]: ...
    @property
    def health(self) -> Health: ...
    def close(self) -> None: ...
