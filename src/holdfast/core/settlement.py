"""Settling: how one claim ends, as the value that a store applies under the claim's token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from holdfast.commands.rules import CommandReceipt
from holdfast.core.lifecycle import LifecycleEvent
from holdfast.core.message import Failure, Lease, MessageId, NewMessage


class Settlement(msgspec.Struct, gc=False):
    """The end of one claim. `member` is its place in a run, or None for a row with a lease of its own.

    `alone` says that the message's next attempt, if it has one, must not share a claim. `followed_by` are messages that
    arrive in the same transaction, if the claim still holds, and `receipt` is what a command's run is known by;
    `repeated` says that there was one, so that nothing was done. `unknown` says that the handler was interrupted, and
    did not say itself how far it came.
    """

    lease: Lease
    message_id: MessageId
    attempt: int
    event: LifecycleEvent
    member: int | None = None
    delay: int = 0
    failure: Failure | None = None
    alone: bool = False
    result: bytes | None = None
    followed_by: Sequence[NewMessage] = ()
    receipt: CommandReceipt | None = None
    repeated: bool = False
    unknown: bool = False


_UNNAMED = MessageId(16)
"""An acked member is known by its place; nothing has to be written about it."""


def each_acked(leases: Iterable[Lease]) -> list[Settlement]:
    """Runs that are done, member by member."""
    return [
        Settlement(lease, _UNNAMED, 1, LifecycleEvent.ACKED, member) for lease in leases for member in range(lease.size)
    ]
