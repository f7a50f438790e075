"""What may be asked of a database about messages that SQS delivers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from holdfast.core.message import MessageId
from holdfast.sqs.rules.pointer import Pointer

if TYPE_CHECKING:
    from holdfast.store.api import Channel, Grant

Granted = TypeVar("Granted", bound="Grant")


class Courier(Protocol):
    """Who waits for SQS on behalf of someone who claims."""

    def attend(self, channel: Channel) -> None: ...
    def take(self, channel: Channel, most: int) -> Sequence[Any]: ...
    def is_quiet(self, channel: Channel) -> bool: ...
    def owes(self, channel: Channel) -> bool: ...
    def wait(self, channel: Channel, seconds: float) -> None: ...
    def fetch(self, channel: Channel, most: int, fetch: Callable[[int], Sequence[Any]]) -> Sequence[Any]: ...
    def want(self, channel: Channel, most: int) -> None: ...
    def again(self, channel: Channel) -> None: ...
    def rest(self, channel: Channel) -> None: ...


class HandOver(msgspec.Struct):
    """What is to be sent to SQS now, and whether SQS has anything of this queue at all, or will have; somebody may be
    sending it now (`is_coming`). Nothing, if it is not `is_current`: pointers go elsewhere since whoever asks has
    looked."""

    pointers: list[Pointer]
    is_out: bool
    is_coming: bool = False
    is_current: bool = True


class Taken(msgspec.Struct, Generic[Granted]):
    """What came of pointers: the grants, and for each pointer what is to be done with it (`store.delivering.Fate`)."""

    grants: list[Granted]
    fates: list[str]


class Death(msgspec.Struct, frozen=True):
    """A dead letter that someone outside has to be told of."""

    dead_id: MessageId
    message_id: str
    worker: str
    attempts: int
    max_attempts: int
    error: str
    traceback: str | None
    failed_at: int


class OverduePointers(msgspec.Struct, frozen=True):
    """Pointers that nobody has come with for long, and for how many microseconds the first of them has been away."""

    count: int
    away: int
