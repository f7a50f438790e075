"""Messages: what a producer hands over, what a consumer gets, and what is known of one later."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from holdfast.core.lifecycle import State
from holdfast.core.priority import priority_of
from holdfast.core.times import Moment, MomentOrNone, WithTimes
from holdfast.errors import InvalidBody, InvalidInput, shown

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_UNREAD: Any = object()

TEXT_LIMIT = 500

_DIGITS = bytes(ord("0") if chr(byte).isascii() and chr(byte).isdigit() else 0 for byte in range(256))
_TOO_LONG = b"0" * 19
"""So many digits has an integer that 64 bits may not hold."""

DEEPEST = 100
"""How many lists and objects may stand inside each other. Readers count levels and their own calls together, and stop
at a thousand: what is stored must leave a consumer room to be called from somewhere."""

# Every bracket is as good as another, and nothing else counts but where strings end.
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))


class MessageId(bytes):
    """The 16 bytes of a UUIDv7; a type of its own, so that a driver can tell an id from a body."""

    __slots__ = ()


class DeliveryKey(str):
    """The idempotency key of a webhook delivery, checked already.

    Deliveries are compared by the `digest` of their bytes, because the stored body also says when it was received.
    An `alias` is a second key of the same message, which only adds to the first: a delivery is a duplicate if either
    is known.
    """

    __slots__ = ("alias", "digest")

    digest: bytes
    alias: str | None

    def __new__(cls, key: str, digest: bytes, alias: str | None = None) -> DeliveryKey:
        made = super().__new__(cls, key)
        made.digest = digest
        made.alias = alias
        return made


class Once(msgspec.Struct, gc=False):
    """An idempotency key, what was sent under it, and for how many microseconds it is remembered."""

    key: str
    digest: bytes
    window: int
    alias: str | None = None


class Duplicate(msgspec.Struct, gc=False):
    """The message that was enqueued under the same key before, and its result if there is one."""

    id: MessageId
    result: bytes | None


class NewMessage(msgspec.Struct, gc=False):
    """A message on its way into the store. `plain` ones go to a lane, the others become rows."""

    id: MessageId
    group: int
    lane: int
    body: bytes
    headers: bytes | None = None
    key: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    topic: str | None = None
    ttl: int | None = None
    plain: bool = True
    order_key: str = ""
    delay: int = 0
    alone: bool = False
    once: Once | None = None
    limited: bool = False
    to_groups: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing but a body, as in most messages."""
        return (
            self.headers is None
            and self.key is None
            and self.correlation_id is None
            and self.reply_to is None
            and self.topic is None
            and self.ttl is None
        )

    @property
    def is_simple(self) -> bool:
        """Whether it is stored by one statement that nothing can refuse."""
        return self.plain and self.once is None and not self.limited and not self.to_groups


class Message(WithTimes, msgspec.Struct, eq=False, gc=False):
    """An immutable message. `body` and `headers` are decoded when first read.

    >>> message = Message(MessageId(16), 2, b'{"to": "a@b.c"}', None, None, None, None, None, None, 0)
    >>> message.body, message.priority
    ({'to': 'a@b.c'}, 2)
    """

    _id: bytes
    lane: int
    raw_body: bytes
    raw_headers: bytes | None
    key: str | None
    correlation_id: str | None
    reply_to: str | None
    topic: str | None
    expires_at_us: int | None
    enqueued_at_us: int
    _body: Any = _UNREAD
    _headers: Any = _UNREAD
    decoder: msgspec.json.Decoder[Any] | None = None

    expires_at = MomentOrNone()
    enqueued_at = Moment()

    @property
    def id(self) -> str:
        """The UUIDv7 as text."""
        return id_text(self._id)

    @property
    def raw_id(self) -> MessageId:
        """The same as a store wants it. Most messages are never asked for it."""
        return MessageId(self._id)

    @property
    def body(self) -> Any:
        """The JSON value that was enqueued, as the queue's message type if it has one."""
        body = self._body  # Taken once: another thread may let go of it meanwhile.
        if body is _UNREAD:
            body = self._body = _decode(self.raw_body) if self.decoder is None else self._typed(self.decoder)
        return body

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that were enqueued with it."""
        if self._headers is _UNREAD:
            self._headers = _decode(self.raw_headers) if self.raw_headers else {}
        return self._headers  # type: ignore[no-any-return]

    def unread(self) -> None:
        """Lets go of the decoded body: a thousand of them would call the garbage collector. It can be read again."""
        self._body = _UNREAD

    def outlived(self, max_age: float | None, now: int) -> bool:
        """Whether its own time to live, or the age that its queue allows, is over."""
        if self.expires_at_us is not None and self.expires_at_us <= now:
            return True
        return max_age is not None and self.enqueued_at_us + round(max_age * 1_000_000) <= now

    @property
    def priority(self) -> int:
        """0 urgent to 3 low."""
        return priority_of(self.lane)

    def _typed(self, decoder: msgspec.json.Decoder[Any]) -> Any:
        try:
            return decoder.decode(self.raw_body)
        except msgspec.ValidationError as problem:
            raise InvalidBody(
                f"message {self.id} does not fit the message type of its queue: {problem}. No retry will change that: "
                "nack it with permanent=True"
            ) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self._id, self.raw_body) == (other._id, other.raw_body)

    def __hash__(self) -> int:
        return hash(self._id)

    def __repr__(self) -> str:
        return f"Message(id={self.id!r}, priority={self.priority}, key={self.key!r}, {len(self.raw_body)} bytes)"


NOT_RENEWED = 0
"""In place of the new end of a lease: it is still held, but only as long as it lasts (see `sagas/steps/effects.py`)."""


class Lease(WithTimes, msgspec.Struct, gc=False):
    """The time-limited right to work on a run of messages (or on one row): its token fences every settlement.

    `since` and `until` are the database's clock. Times are datetimes in UTC; `until_us` is the same in microseconds.
    """

    token: int
    group: int
    until_us: int
    size: int
    worker: str
    since_us: int

    until = Moment()
    since = Moment()


class Failure(WithTimes, msgspec.Struct, frozen=True, rename={"at_us": "at", "claimed_at_us": "claimed_at"}):
    """One line of a message's error history: when the attempt was claimed, and when it failed, both by the database's
    clock.

    `error` begins with one sentence, such as "RuntimeError: guard rejected"; `traceback` is that of an exception.
    """

    attempt: int
    worker: str
    error: str
    traceback: str | None = None
    claimed_at_us: int | None = None
    at_us: int = 0  # The last one: see `untimed_history`.

    claimed_at = MomentOrNone()
    at = Moment()


class MessageStatus(WithTimes, msgspec.Struct, frozen=True):
    """What is known of a message now.

    `due_at` is when a pending one can be claimed; `worker`, `claimed_at` and `until` say who works on it, since when,
    and for how long, `progress` how far its handler is, if it has told; `finished_at` is when it ended, and
    `claimed_at` then when the claim began that ended it, where these are known; `history` are the attempts that failed.
    `session` is the text that its handlers keep with it from attempt to attempt.
    `message` is the message itself. What was published has a state for each of the `groups` that want it; its own is
    pending for as long as the topic keeps it.
    """

    id: str
    queue: str
    state: State
    attempts: int
    enqueued_at_us: int
    due_at_us: int | None = None
    result: Any = None
    worker: str | None = None
    until_us: int | None = None
    finished_at_us: int | None = None
    history: list[Failure] = []
    message: Message | None = None
    progress: Any = None
    groups: dict[str, State] = {}
    claimed_at_us: int | None = None
    session: str | None = None

    enqueued_at = Moment()
    due_at = MomentOrNone()
    claimed_at = MomentOrNone()
    until = MomentOrNone()
    finished_at = MomentOrNone()


def encode_json(value: Any, what: str = "body") -> bytes:
    """Canonical UTF-8 JSON, the one form in which every store keeps a value."""
    try:
        raw = _encode(value)
        if raw.find(b"null") >= 0:
            # The encoder writes NaN and Infinity as null; the standard library's refuses them.
            json.dumps(msgspec.to_builtins(value), allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise InvalidInput(f"{what} cannot be written as JSON: {problem}") from None
    if len(raw) > 2 * DEEPEST and _is_too_deep(raw):
        raise InvalidInput(f"{what} has more than {DEEPEST} lists or objects inside each other: send it in a flat form")
    if _may_have_large_integer(raw) and _has_large_integer(msgspec.to_builtins(value)):
        raise InvalidInput(
            f"{what} has an integer of more than 64 bits, which many readers of JSON spoil: send it as text"
        )
    return raw


def _may_have_large_integer(raw: bytes) -> bool:
    """Whether there are so many digits where a number may stand, or a number that became a name."""
    digits = raw.translate(_DIGITS)
    start = digits.find(_TOO_LONG)
    while start >= 0:
        end = start + len(digits[start:].partition(b"\0")[0])
        if raw[max(0, start - 1) : start] in (b"", b":", b",", b"[", b"-") or raw[end : end + 2] == b'":':
            return True
        start = digits.find(_TOO_LONG, end)
    return False


def _has_large_integer(value: Any) -> bool:
    if isinstance(value, int):
        return not -(2**63) <= value < 2**64
    if isinstance(value, dict):
        return any(_has_large_integer(part) for pair in value.items() for part in pair)
    return isinstance(value, (list, tuple)) and any(map(_has_large_integer, value))


def _is_too_deep(raw: bytes) -> bool:
    """Outside of strings, takes away the innermost brackets level by level."""
    if raw.count(b"[") + raw.count(b"{") <= DEEPEST:
        return False
    # Two quotes side by side are the ends of a string without brackets, or the border of two strings.
    marks = raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _OTHERS).replace(b'""', b"")
    brackets = b"".join(marks.split(b'"')[::2])
    for _ in range(DEEPEST):
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def clean_text(value: str) -> str:
    """Text that every database can hold: no lone surrogates, no NUL."""
    return value.encode("utf-8", "replace").decode().replace("\x00", "�")


def plain_text(value: str | None, what: str) -> str | None:
    """Checks a key or the like: text that every database keeps as it is, and can have in an index."""
    if value is not None and (not isinstance(value, str) or clean_text(value) != value):
        raise InvalidInput(f"{what} must be text without NUL or lone surrogates, not {shown(value)}")
    if value is not None and len(value) > TEXT_LIMIT:
        raise InvalidInput(f"{what} has {len(value)} characters; at most {TEXT_LIMIT} are allowed")
    return value


def id_text(raw: bytes) -> str:
    """The usual dashed form of 16 id bytes."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_bytes(text: str) -> MessageId:
    """The 16 bytes of an id as users hold it."""
    try:
        raw = MessageId.fromhex(text.replace("-", ""))
    except (ValueError, AttributeError, TypeError):
        raw = MessageId()
    if len(raw) != 16:
        raise InvalidInput(f"{shown(text)} is not a message id; ids look like 01890a5d-ac96-774b-bcce-b302099a8057")
    return raw
