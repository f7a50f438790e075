"""One queue of the misbehaving SQS: what is in it, who has it in flight, and what it does wrong when told to."""

import hashlib
import heapq
import itertools
import math
import random
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Entry = dict[str, Any]

DAY = 86_400.0
DEDUPLICATION_SECONDS = 300.0
MOST_VISIBILITY = 43_200.0

DEFAULTS = {
    "VisibilityTimeout": "30",
    "MessageRetentionPeriod": "345600",
    "DelaySeconds": "0",
    "ReceiveMessageWaitTimeSeconds": "0",
    "MaximumMessageSize": "1048576",
}


class Refusal(Exception):
    """An error that SQS answers with: its shape's name, the older code that clients see, and a text."""

    def __init__(self, shape: str, text: str = "", code: str | None = None, status: int = 400) -> None:
        super().__init__(text or shape)
        self.shape = shape
        self.code = code or shape
        self.status = status


@dataclass
class Faults:
    """What goes wrong. Everything is right until a test says otherwise; it may be changed at any moment."""

    copies: int = 1
    """How often each message is delivered, by a standard queue."""
    shuffled: random.Random | None = None
    """Standard queues deliver in the order that this says."""
    lost: Callable[[str], bool] = lambda body: False
    """Messages that SQS confirms and never delivers."""
    verdict: Callable[[Entry], Literal["ok", "failed", "silent", "swallowed"]] = lambda entry: "ok"
    """Of each entry of a batch: `failed` says so; the other two are in neither list, one done and one not."""
    expired_handles: Literal["refused", "accepted"] = "refused"
    """What happens to those who come with a handle that is no longer the newest, or of a past time."""
    throttled: frozenset[str] = frozenset()
    """Actions that are answered with a request to slow down; `*` is all of them."""
    hanging: frozenset[str] = frozenset()
    """Actions that are never answered; `*` is all of them. Whoever waits for one when that ends gets an error."""
    broken: bool = False
    """Every request is answered with a 500."""
    refused: str | None = None
    """Every request is refused with this code, as for credentials that are wrong."""
    in_flight_limit: int = 120_000


@dataclass
class Stored:
    """A message, or one of its copies."""

    id: str
    body: str
    attributes: dict[str, Any]
    sent: float
    visible: float
    place: int
    group: str | None = None
    dedup: str | None = None
    received: int = 0
    first_received: float = 0.0
    last_received: float = 0.0
    handle: str | None = None
    number: int = 0

    def in_flight(self, now: float) -> bool:
        return self.handle is not None and self.visible > now


class Stock:
    """What is in a queue: those that can be received apart from the others, so that ten thousands cost no more than a
    few. Numbers keep the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[int, Stored] = {}
        self._hidden: dict[int, Stored] = {}
        self._by_handle: dict[str, int] = {}
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[Stored]:
        both = self._waiting | self._hidden
        return iter([both[number] for number in sorted(both)])

    def __len__(self) -> int:
        return len(self._waiting) + len(self._hidden)

    def add(self, messages: Iterable[Stored]) -> None:
        for message in messages:
            message.number = next(self._numbers)
            self._hidden[message.number] = message

    def waiting(self, now: float) -> dict[int, Stored]:
        """By number, in any order."""
        for number in [number for number, one in self._hidden.items() if one.visible <= now]:
            self._waiting[number] = self._hidden.pop(number)
        return self._waiting

    def hidden(self, now: float) -> Collection[Stored]:
        self.waiting(now)
        return self._hidden.values()

    def hide(self, message: Stored, until: float) -> None:
        message.visible = until
        self._waiting.pop(message.number, None)
        self._hidden[message.number] = message

    def hand_out(self, message: Stored, handle: str) -> None:
        self._by_handle.pop(message.handle or "", None)
        message.handle = handle
        self._by_handle[handle] = message.number

    def of(self, handle: str) -> Stored | None:
        """The message whose newest handle this is."""
        number = self._by_handle.get(handle, -1)
        return self._waiting.get(number) or self._hidden.get(number)

    def remove(self, messages: Iterable[Stored]) -> None:
        for message in messages:
            self._waiting.pop(message.number, None)
            self._hidden.pop(message.number, None)
            self._by_handle.pop(message.handle or "", None)

    def clear(self) -> None:
        self.remove(list(self))


@dataclass
class FakeQueue:
    """Held by its server's lock; `now` is the server's clock."""

    name: str
    url: str
    faults: Faults
    attributes: dict[str, str] = field(default_factory=dict)
    messages: Stock = field(default_factory=Stock)
    deleted: list[Stored] = field(default_factory=list)
    accepted: int = 0
    _deduplicated: dict[str, tuple[float, Stored]] = field(default_factory=dict)
    _places: Iterable[int] = field(default_factory=itertools.count)
    _oldest: float = math.inf

    @property
    def fifo(self) -> bool:
        return self.name.endswith(".fifo")

    def setting(self, name: str) -> float:
        return float(self.attributes.get(name, DEFAULTS[name]))

    def described(self, now: float) -> dict[str, str]:
        self._forget(now)
        hidden = self.messages.hidden(now)
        flying = sum(m.in_flight(now) for m in hidden)
        known = {
            **DEFAULTS,
            **self.attributes,
            "QueueArn": f"arn:aws:sqs:us-east-1:000000000000:{self.name}",
            "ApproximateNumberOfMessages": str(len(self.messages) - len(hidden)),
            "ApproximateNumberOfMessagesDelayed": str(len(hidden) - flying),
            "ApproximateNumberOfMessagesNotVisible": str(flying),
        }
        return {**known, "FifoQueue": "true"} if self.fifo else known

    def send(self, entry: Entry, now: float) -> Entry:
        """Takes a message, or says why not."""
        body = entry.get("MessageBody", "")
        check_body(body, self.setting("MaximumMessageSize"))
        group, dedup = entry.get("MessageGroupId"), entry.get("MessageDeduplicationId")
        if self.fifo:
            dedup = self._check_fifo(entry, body)
            known = self._deduplicated.get(dedup)
            if known and now - known[0] < DEDUPLICATION_SECONDS:
                return answer(known[1], self.fifo)
        delay = entry.get("DelaySeconds", self.setting("DelaySeconds"))
        if not 0 <= delay <= 900:
            raise Refusal("InvalidParameterValue", f"Value {delay} for parameter DelaySeconds is invalid.")
        message = Stored(
            id=str(uuid.uuid4()),
            body=body,
            attributes=entry.get("MessageAttributes", {}),
            sent=now,
            visible=now + delay,
            place=next(self._places),  # type: ignore[call-overload]
            group=group,
            dedup=dedup,
        )
        self.accepted += 1
        if dedup is not None:
            self._deduplicated[dedup] = (now, message)
        if not self.faults.lost(body):
            copies = 1 if self.fifo else self.faults.copies
            self._put([message, *(copied(message) for _ in range(copies - 1))])
        return answer(message, self.fifo)

    def receive(self, most: int, visibility: float | None, now: float) -> list[Stored]:
        """The next ones that nobody has in flight; of a FIFO group only what follows no other in flight."""
        self._forget(now)
        flying = sum(m.in_flight(now) for m in self.messages.hidden(now))
        room = self.faults.in_flight_limit - flying
        if room <= 0 and not self.fifo:
            raise Refusal("OverLimit", "too many messages in flight", code="OverLimit", status=403)
        taken = self._available(now, max(0, min(most, room)))
        for message in taken:
            message.received += 1
            message.first_received = message.first_received or now
            message.last_received = now
            hidden_for = self.setting("VisibilityTimeout") if visibility is None else visibility
            self.messages.hide(message, now + hidden_for)
            self.messages.hand_out(message, f"{message.id}#{uuid.uuid4()}")
        return taken

    def delete(self, handle: str, now: float) -> None:
        message = self._held(handle, now)
        if message is not None:
            self.messages.remove([message])
            self.deleted.append(message)

    def change_visibility(self, handle: str, seconds: float, now: float) -> None:
        if not 0 <= seconds <= MOST_VISIBILITY:
            raise Refusal("InvalidParameterValue", f"Value {seconds} for parameter VisibilityTimeout is invalid.")
        message = self._held(handle, now)
        if message is None:
            return
        if not message.in_flight(now):
            raise Refusal("MessageNotInflight", code="AWS.SimpleQueueService.MessageNotInflight")
        if now + seconds > message.last_received + MOST_VISIBILITY:
            raise Refusal("InvalidParameterValue", "Total VisibilityTimeout for the message is beyond the limit.")
        self.messages.hide(message, now + seconds)

    def purge(self) -> None:
        self.deleted += list(self.messages)
        self.messages.clear()

    def resurrect(self, now: float) -> None:
        """What was deleted is delivered once more, as SQS may do, however late."""
        back, self.deleted = self.deleted, []
        for message in back:
            message.visible, message.handle, message.sent = now, None, now
        self._put(back)

    def expire_handles(self) -> None:
        """Nobody's handle is any good from now on; the messages stay where they are."""
        for message in self.messages:
            if message.handle is not None:
                self.messages.hand_out(message, message.handle + "?")

    def _held(self, handle: str, now: float) -> Stored | None:
        """The message of a handle; None for one that is of no use, if this queue says nothing about that."""
        message = self.messages.of(handle)
        expired = message is None or (self.fifo and not message.in_flight(now))
        if "#" not in handle:
            raise Refusal("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
        if not expired:
            return message
        known = any(handle.startswith(m.id) for m in self.messages)
        if known and self.faults.expired_handles == "refused":
            raise Refusal("InvalidParameterValue", "The receipt handle has expired.")
        return None

    def _put(self, messages: list[Stored]) -> None:
        self.messages.add(messages)
        self._oldest = min([self._oldest, *(one.sent for one in messages)])

    def _available(self, now: float, most: int) -> list[Stored]:
        waiting = self.messages.waiting(now)
        if self.fifo:
            return list(itertools.islice(self._in_turn(now), most))
        if self.faults.shuffled is None:
            return [waiting[number] for number in heapq.nsmallest(most, waiting)]
        return self.faults.shuffled.sample(list(waiting.values()), min(most, len(waiting)))

    def _in_turn(self, now: float) -> Iterable[Stored]:
        blocked = {m.group for m in self.messages.hidden(now) if m.in_flight(now)}
        waiting = self.messages.waiting(now).values()
        return [m for m in sorted(waiting, key=lambda m: m.place) if m.group not in blocked]

    def _check_fifo(self, entry: Entry, body: str) -> str:
        if not entry.get("MessageGroupId"):
            raise Refusal("MissingParameter", "The request must contain the parameter MessageGroupId.")
        if entry.get("DelaySeconds"):
            raise Refusal("InvalidParameterValue", "DelaySeconds is invalid: FIFO queues have no delay per message.")
        dedup = entry.get("MessageDeduplicationId")
        if not dedup and self.attributes.get("ContentBasedDeduplication") != "true":
            raise Refusal("InvalidParameterValue", "The queue should either have ContentBasedDeduplication or an id.")
        return str(dedup or hashlib.sha256(body.encode()).hexdigest())

    def _forget(self, now: float) -> None:
        oldest = now - self.setting("MessageRetentionPeriod")
        if self._oldest <= oldest:
            self.messages.remove([m for m in self.messages if m.sent <= oldest])
            self._oldest = min((m.sent for m in self.messages), default=math.inf)


def copied(message: Stored) -> Stored:
    return Stored(**vars(message))


def answer(message: Stored, fifo: bool) -> Entry:
    told: Entry = {"MessageId": message.id, "MD5OfMessageBody": md5(message.body)}
    if message.attributes:
        told["MD5OfMessageAttributes"] = attributes_md5(message.attributes)
    return {**told, "SequenceNumber": f"{message.place:020}"} if fifo else told


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def attributes_md5(attributes: dict[str, Any]) -> str:
    """As SQS computes it: name, type and value by length, in the order of the names."""
    digest = hashlib.md5(usedforsecurity=False)
    for name in sorted(attributes):
        value = attributes[name]
        text = value.get("StringValue")
        parts = [name.encode(), value["DataType"].encode()]
        for part in parts:
            digest.update(len(part).to_bytes(4, "big") + part)
        raw = value["BinaryValue"].encode() if text is None else text.encode()
        digest.update((b"\x02" if text is None else b"\x01") + len(raw).to_bytes(4, "big") + raw)
    return digest.hexdigest()


def check_body(body: str, most: float) -> None:
    if not body:
        raise Refusal("MissingParameter", "The request must contain the parameter MessageBody.")
    if len(body.encode()) > most:
        raise Refusal("InvalidParameterValue", f"One or more parameters are invalid. Message must be under {most}.")
    if any(not allowed(ord(character)) for character in body):
        raise Refusal("InvalidMessageContents", "Invalid characters in message body")


def allowed(point: int) -> bool:
    return point in (0x9, 0xA, 0xD) or 0x20 <= point <= 0xD7FF or 0xE000 <= point <= 0xFFFD or point >= 0x10000
