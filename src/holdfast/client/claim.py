"""A claim in a consumer's hand: the message, the attempt's number, the lease, and the ways to end it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.duration import Duration
from holdfast.core.lifecycle import LifecycleEvent, attempts_after, must_be_alone
from holdfast.core.message import Failure, Lease, Message
from holdfast.core.settlement import Settlement
from holdfast.errors import InvalidInput
from holdfast.store.api import Channel

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast


class Claim(msgspec.Struct, eq=False, gc=False):
    """What a consumer holds: `message`, `attempt` (1 is the first) and `lease`.

    End it with exactly one of `ack`, `nack`, `release`, `snooze`, `dead_letter`; or let the lease run out.
    """

    _client: Holdfast
    message: Message
    attempt: int
    lease: Lease
    member: int | None
    channel: Channel
    ended: LifecycleEvent | None = None
    acks_underway: int = 0

    @property
    def queue(self) -> str:
        """The name of the queue that it came from."""
        return self.channel.name

    def ack(self, result: Any = None, *, conn: Any = None) -> None:
        """The work is done, with a `result` if you like; a second `ack` of the same claim changes nothing.

        With `conn` it is done when your transaction commits.
        """
        self._client.ack(self, result, conn=conn)

    def nack(self, error: str | BaseException = "", *, delay: Duration | None = None, permanent: bool = False) -> None:
        """The work failed: try again after the queue's backoff (or `delay`), or dead when attempts are used up."""
        self._client.nack(self, error, delay=delay, permanent=permanent)

    def extend(self, duration: Duration | None = None) -> None:
        """Keeps the lease for another `duration` from now (the queue's lease by default)."""
        self._client.extend(self, duration)

    def release(self) -> None:
        """Hands it back at once, as if it had never been claimed."""
        self._client.release(self)

    def snooze(self, delay: Duration) -> None:
        """Hands it back for later; no attempt is spent."""
        self._client.snooze(self, delay)

    def dead_letter(self, error: str | BaseException) -> None:
        """Gives up on it now, whatever attempts are left."""
        self._client.dead_letter(self, error)

    def settlement(self, event: LifecycleEvent, *, delay: int = 0, failure: Failure | None = None) -> Settlement:
        """The value that ends this claim."""
        alone = must_be_alone(self.channel.spec, attempts_after(self.attempt, event))
        return Settlement(self.lease, self.message.raw_id, self.attempt, event, self.member, delay, failure, alone)

    def __repr__(self) -> str:
        return f"Claim({self.queue!r}, attempt={self.attempt}, {self.message!r})"


Claims = Claim | Iterable[Claim]


def as_list(claims: Claims) -> list[Claim]:
    """One claim or many, as a list."""
    held = list(claims) if isinstance(claims, Iterable) else [claims]
    if not set(map(type, held)) <= {Claim}:
        raise InvalidInput("expected claims, as hf.claim() returns them")
    return held
