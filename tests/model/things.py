"""The things that the model speaks of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.core.duration import micros
from holdfast.core.lifecycle import LifecycleEvent, State
from holdfast.core.message import Failure, MessageStatus, encode_json
from holdfast.core.queue import QueueSpec
from holdfast.core.times import text_of

WORKER = "w"
SILENCE = f"the lease of {WORKER} ended without an answer: killed, hung or cut off"


# --- what can be seen: the model and the stores answer in these words, with names ("m1", "m2") instead of ids ---------


class Seen(NamedTuple):
    name: str
    priority: int
    body: str
    headers: str
    key: str | None
    correlation_id: str | None
    reply_to: str | None
    expires_at: int | None
    enqueued_at: int


class Granted(NamedTuple):
    queue: str
    message: Seen
    attempt: int
    until: int
    size: int


class Buried(NamedTuple):
    queue: str
    message: Seen
    error: str
    attempts: int
    failed_at: int
    history: list[Failure]
    replayed_as: str | None
    replay_state: str | None

    def is_over(self, since: int) -> bool:
        """It died at that time or before, and no replay of it is under way."""
        return self.failed_at <= since and self.replay_state != State.PENDING.value


# --- what is behind it ------------------------------------------------------------------------------------------------


class Key(NamedTuple):
    """An idempotency key; once its message has `ended`, `expires_at` is its end, and before that, the next look."""

    name: str
    body: str
    expires_at: int
    lasts: int
    ended: bool = False

    def is_over(self, now: int) -> bool:
        return self.ended and self.expires_at <= now


@dataclass(eq=False)
class Message:
    queue: str
    seen: Seen
    plain: bool
    place: int
    due_at: int
    order_key: str = ""
    state: State = State.PENDING
    attempts: int = 0
    alone: bool = False
    lease: Lease | None = None
    errors: list[Failure] = field(default_factory=list)
    finished_at: int | None = None
    replay_of: str | None = None
    first: bool = False

    @property
    def turn(self) -> tuple[int, int]:
        return self.due_at, self.place

    @property
    def status(self) -> MessageStatus:
        due_at = self.due_at if self.state is State.PENDING else None
        since = self.lease.since if self.lease else None
        name, enqueued_at = self.seen.name, self.seen.enqueued_at
        return MessageStatus(name, self.queue, self.state, self.attempts, enqueued_at, due_at, claimed_at_us=since)

    def is_over(self, spec: QueueSpec, now: int) -> bool:
        """Whether its own time to live, or its queue's age limit, has passed."""
        ends = [self.seen.expires_at, None if spec.max_age is None else self.seen.enqueued_at + micros(spec.max_age)]
        return any(end is not None and end <= now for end in ends)


@dataclass(eq=False)
class Lease:
    number: int
    since: int
    until: int
    members: list[Message]
    is_run: bool

    @property
    def turn(self) -> tuple[bool, int, int]:
        """When it is swept up, among others: runs first, then rows; each by time, then as they began."""
        return not self.is_run, self.until, self.number if self.is_run else self.members[0].place

    @property
    def is_over(self) -> bool:
        return all(message.lease is not self for message in self.members)


@dataclass(eq=False)
class Claim:
    message: Message
    lease: Lease
    attempt: int
    spec: QueueSpec
    ended: LifecycleEvent | None = None

    @property
    def granted(self) -> Granted:
        message, lease = self.message, self.lease
        return Granted(message.queue, message.seen, self.attempt, lease.until, len(lease.members))


def json_text(value: Any) -> str:
    return encode_json(value).decode()


def envelope(message: Message, error: str, failed_at: int) -> str:
    seen = message.seen
    original = (
        f'{{"id":{json_text(seen.name)},"queue":{json_text(message.queue)},"body":{seen.body},"headers":{seen.headers},'
        f'"priority":{seen.priority},"key":{json_text(seen.key)},"correlation_id":{json_text(seen.correlation_id)},'
        f'"reply_to":{json_text(seen.reply_to)},"topic":null,"enqueued_at":{json_text(text_of(seen.enqueued_at))}}}'
    )
    return (
        f'{{"original_message":{original},"failed_at":{json_text(text_of(failed_at))},"error":{json_text(error)},'
        f'"attempts":{message.attempts}}}'
    )
