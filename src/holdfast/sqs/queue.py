"""A queue of SQS: a handful of calls, many at a time, and what they answered."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from holdfast.errors import DeliveryFailed
from holdfast.sqs.rules.names import is_fifo, is_url
from holdfast.store import fork_safety

AT_ONCE = 10
"""So many messages SQS takes and gives in one call."""

LONGEST = 12 * 3600
"""Seconds for which SQS keeps a message hidden, counted from when it was received."""

SHORTEST = 30
"""Seconds for which a pointer is hidden at least: from when it was received until its message is claimed, and more."""

CONNECT_WITHIN, ANSWER_WITHIN, POLLED_WITHIN = 5, 10, 30
"""Seconds. A long poll takes 20."""

SHORT_POLL = 1.0
"""Seconds of a poll that is no long one."""

GONE = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist")

Result = TypeVar("Result")
Item = TypeVar("Item")


class Received(msgspec.Struct):
    """One message of SQS: its text, and what it can be deleted by. Hidden from others until `hidden_until`."""

    body: str
    handle: str
    came_at: float
    hidden_until: float


class QueueState(msgspec.Struct, frozen=True):
    """About how many messages wait in a queue and how many are hidden, for how many seconds they are by default, and
    its redrive policy as SQS tells it."""

    waiting: int
    hidden: int
    visibility: int
    redrive: str | None


class Sqs(fork_safety.Guarded):
    """The service, as boto3's own settings find it: region, endpoint and credentials come from the environment."""

    def __init__(self, *, create: bool = False) -> None:
        self._create = create
        self._queues: dict[str, SqsQueue] = {}
        self._made: dict[int, Any] = {}
        self._lock = threading.Lock()
        fork_safety.guard(self)

    def after_fork_in_child(self) -> None:
        """A connection is its process's own."""
        self._lock = threading.Lock()
        self._queues, self._made = {}, {}

    def queue(self, name: str) -> SqsQueue:
        """The queue of this name or URL."""
        found = self._queues.get(name)
        if found is None:
            found = self._queues[name] = SqsQueue(self, name)
        return found

    @property
    def client(self) -> Any:
        """boto3's, made when it is first wanted; for calls that are answered at once."""
        return self._client(ANSWER_WITHIN)

    @property
    def poller(self) -> Any:
        """The same for long polls: what does not answer at all is noticed sooner where nothing is waited for."""
        return self._client(POLLED_WITHIN)

    def _client(self, within: int) -> Any:
        with self._lock:
            if within not in self._made:
                self._made[within] = _connect(within)
            return self._made[within]

    def find(self, name: str) -> str:
        """The URL of a queue. One that is not there is made if that was allowed."""
        if is_url(name):
            return name
        try:
            return str(self.client.get_queue_url(QueueName=name)["QueueUrl"])
        except Exception as problem:
            if _code(problem) not in GONE:
                raise
        if not self._create:
            raise DeliveryFailed(
                f"there is no SQS queue {name!r}: create it, or let Holdfast create what is missing with "
                "Holdfast(url, sqs_create=True)"
            )
        attributes = {"FifoQueue": "true"} if is_fifo(name) else {}
        return str(self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])


class SqsQueue:
    """One queue of SQS. Every call says what became of each entry; a refusal as a whole is `DeliveryFailed`."""

    def __init__(self, sqs: Sqs, name: str) -> None:
        self._sqs = sqs
        self.name = name
        self.is_fifo = is_fifo(name)
        self._url = ""

    @property
    def url(self) -> str:
        """Return where the queue is. SQS is asked once, or once per thread if several ask at the same time."""
        # No cached_property: on Python 3.11 its lock is shared by all queues, so one that hangs would block the others.
        self._url = self._url or self._ask("find", lambda: self._sqs.find(self.name))
        return self._url

    def send(self, bodies: Sequence[str], twins: Sequence[str] | None = None) -> list[bool]:
        """For each of up to ten texts, whether SQS says that it has it. What SQS does not mention, it has not.

        Texts with the same entry in `twins` (the text itself, if there are none) are one for a FIFO queue.
        """
        entries = [
            self._entry(str(place), body, twin)
            for place, (body, twin) in enumerate(zip(bodies, twins or bodies, strict=True))
        ]
        answer = self._ask("send", lambda: self._client.send_message_batch(QueueUrl=self.url, Entries=entries))
        confirmed = {one.get("Id") for one in answer.get("Successful", ())}
        return [str(place) in confirmed for place in range(len(bodies))]

    def receive(self, most: int, wait: float, hidden: int) -> list[Received]:
        """Up to ten messages, hidden from others for `hidden` seconds. Waits for the first one.

        They are hidden from when SQS answers, which may be at the end of a long poll.
        """
        answer = self._ask(
            "receive",
            lambda: (self._sqs.poller if wait > SHORT_POLL else self._client).receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(most, AT_ONCE),
                WaitTimeSeconds=math.ceil(wait),
                VisibilityTimeout=hidden,
            ),
        )
        found, came = answer.get("Messages", ()), time.monotonic()
        return [Received(one.get("Body", ""), one["ReceiptHandle"], came, came + hidden) for one in found]

    def delete(self, handles: Sequence[str]) -> int:
        """Deletes messages; how many SQS would not."""
        return self._each(handles, "delete", self._delete)

    def hide(self, handles: Sequence[str], seconds: int) -> int:
        """Hides messages for so long from now on, or no longer; how many SQS would not."""
        return self._each(handles, "hide", lambda some: self._hide(some, seconds))

    def waiting(self) -> int:
        """How many messages could be received now, about."""
        wanted = ["ApproximateNumberOfMessages"]
        answer = self._ask("count", lambda: self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=wanted))
        return int(answer.get("Attributes", {}).get(wanted[0], 0))

    def state(self) -> QueueState:
        """What SQS says of it."""
        answer = self._ask(
            "look at", lambda: self._client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        )
        told = answer.get("Attributes", {})
        waiting, hidden = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
        return QueueState(
            int(told.get(waiting, 0)),
            int(told.get(hidden, 0)),
            int(told.get("VisibilityTimeout", 0)),
            told.get("RedrivePolicy") or None,
        )

    def remove(self) -> None:
        """The queue itself, with all that is in it."""
        self._ask("remove", lambda: self._client.delete_queue(QueueUrl=self.url))

    @property
    def _client(self) -> Any:
        return self._sqs.client

    def _entry(self, place: str, body: str, twin: str) -> dict[str, str]:
        """In a FIFO queue each hand-over stands for itself: the order of keys is the database's, and one that is in
        flight holds up no other. The next hand-over of the same message is no twin of this one."""
        if not self.is_fifo:
            return {"Id": place, "MessageBody": body}
        return {"Id": place, "MessageBody": body, "MessageGroupId": twin, "MessageDeduplicationId": twin}

    def _delete(self, handles: Sequence[str]) -> int:
        entries = [{"Id": str(place), "ReceiptHandle": one} for place, one in enumerate(handles)]
        answer = self._client.delete_message_batch(QueueUrl=self.url, Entries=entries)
        return len(handles) - len(answer.get("Successful", ()))

    def _hide(self, handles: Sequence[str], seconds: int) -> int:
        entries = [
            {"Id": str(place), "ReceiptHandle": one, "VisibilityTimeout": seconds} for place, one in enumerate(handles)
        ]
        answer = self._client.change_message_visibility_batch(QueueUrl=self.url, Entries=entries)
        return len(handles) - len(answer.get("Successful", ()))

    def _each(self, handles: Sequence[str], what: str, work: Callable[[Sequence[str]], int]) -> int:
        return sum(self._ask(what, lambda some=some: work(some)) for some in in_batches(handles))  # type: ignore[misc]

    def _ask(self, what: str, call: Callable[[], Result]) -> Result:
        """What goes wrong is told by its code alone: what a service answers may quote a request, with its secrets."""
        try:
            return call()
        except DeliveryFailed:
            raise
        except Exception as problem:
            raise DeliveryFailed(f"SQS: {what} failed for the queue {self.name!r} ({_code(problem)})") from None


def in_batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """As many at a time as SQS takes."""
    for start in range(0, len(items), AT_ONCE):
        yield items[start : start + AT_ONCE]


def _connect(within: int) -> Any:
    try:
        import boto3  # type: ignore[import-untyped, unused-ignore]
        from botocore.config import Config  # type: ignore[import-untyped, unused-ignore]
    except ImportError as problem:
        raise DeliveryFailed(f"delivery through SQS needs boto3: pip install 'holdfast[sqs]' ({problem})") from None
    config = Config(
        connect_timeout=CONNECT_WITHIN,
        read_timeout=within,
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=50,
    )
    return boto3.session.Session().client("sqs", config=config)


def _code(problem: Exception) -> str:
    answer = getattr(problem, "response", None)
    code = answer.get("Error", {}).get("Code") if isinstance(answer, dict) else None
    return str(code) if code else type(problem).__name__
