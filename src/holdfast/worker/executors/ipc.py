"""What travels between a worker and the process of its handler: JSON, never code."""

from __future__ import annotations

import threading
from datetime import datetime
from multiprocessing.connection import Connection

import msgspec

from holdfast.core.message import clean_text
from holdfast.worker.outcomes import Cancel, DeadLetter, Outcome, Retry, Snooze


class Home(msgspec.Struct, tag=True):
    """The first word to a new process: where the handler is. Names of the operating system are bytes."""

    module: str
    name: str
    wants_context: bool
    script: bytes | None
    argv: list[bytes]


class HandlerWork(msgspec.Struct, tag=True):
    """A message, and what its context says. `body_type` is where the class of its body is at home."""

    id: bytes
    lane: int
    body: bytes
    headers: bytes | None
    key: str | None
    correlation_id: str | None
    reply_to: str | None
    topic: str | None
    expires_at: int | None
    enqueued_at: int
    body_type: tuple[str, str] | None
    queue: str
    attempt: int
    max_attempts: int
    deadline: float | None


class Warn(msgspec.Struct, tag=True):
    """The handler has to stop, and will be killed soon."""


class IpcAnswer(msgspec.Struct, tag=True):
    """To a `Question`: the id of the new message, a value, or the name and the text of an error or outcome."""

    id: bytes | None = None
    value: float | str | None = None
    error: str | None = None
    text: str = ""
    is_first: bool = False


class Bye(msgspec.Struct, tag=True):
    """There is no more work."""


class Ready(msgspec.Struct, tag=True):
    """The handler was found."""


class ProgressReport(msgspec.Struct, tag=True):
    """`context.progress(value)`."""

    value: bytes


class Extend(msgspec.Struct, tag=True):
    """`context.extend(duration)`."""

    duration: float | None


class Enqueue(msgspec.Struct, tag=True):
    """`context.enqueue(…)`: the body, and everything else by name."""

    body: bytes
    options: bytes


class Reply(msgspec.Struct, tag=True):
    """`context.reply(body, headers=…)`."""

    body: bytes
    headers: bytes


class Spend(msgspec.Struct, tag=True):
    """`context.spend(amount)`."""

    amount: float


class Action(msgspec.Struct, tag=True):
    """`context.action(text)`."""

    text: str


class Recall(msgspec.Struct, tag=True):
    """`context.session`."""


class Remember(msgspec.Struct, tag=True):
    """`context.session = text`."""

    text: str | None


class HandlerReturned(msgspec.Struct, tag=True):
    """The handler is done."""

    result: bytes | None


class Raised(msgspec.Struct, tag=True):
    """The handler failed, with an error of these classes."""

    text: str
    kinds: list[str]
    traceback: str | None = None


class Decided(msgspec.Struct, tag=True):
    """The handler raised an outcome."""

    outcome: str
    reason: str
    after: float | None = None
    until: float | datetime | None = None

    @classmethod
    def of(cls, problem: BaseException) -> Decided | None:
        """What travels of an outcome; None for anything else."""
        reason = clean_text(str(problem))
        match problem:
            case Retry():
                return cls("retry", reason, after=problem.after)
            case Snooze():
                return cls("snooze", reason, until=problem.until)
            case Cancel():
                return cls("cancel", reason)
            case DeadLetter():
                return cls("dead_letter", reason)
        return None

    def again(self) -> Outcome:
        """The outcome, as it was raised."""
        if self.outcome == "snooze" and self.until is not None:
            return Snooze(self.until)
        if self.outcome == "retry":
            return Retry(self.after, reason=self.reason)
        return Cancel(self.reason) if self.outcome == "cancel" else DeadLetter(self.reason)


Inward = Home | HandlerWork | Warn | IpcAnswer | Bye
Question = Extend | Enqueue | Reply | Spend | Action | Recall | Remember
Outward = Ready | ProgressReport | Question | HandlerReturned | Raised | Decided

_encode = msgspec.json.Encoder().encode
_inward: msgspec.json.Decoder[Inward] = msgspec.json.Decoder(Inward)
_outward: msgspec.json.Decoder[Outward] = msgspec.json.Decoder(Outward)


class Border:
    """One end of the pipe. Any thread may send; one receives."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self._sending = threading.Lock()

    def send(self, word: Inward | Outward) -> None:
        """Waits until the other side has room for it."""
        raw = _encode(word)
        with self._sending:
            self.pipe.send_bytes(raw)

    def send_within(self, word: Inward, seconds: float) -> None:
        """The same for a word that must not wait for a longer one before it: then it is not sent."""
        if self._sending.acquire(timeout=seconds):
            try:
                self.pipe.send_bytes(_encode(word))
            finally:
                self._sending.release()

    def hear_inside(self) -> Inward:
        """The next word of the worker."""
        return _inward.decode(self.pipe.recv_bytes())

    def hear_outside(self) -> Outward:
        """The next word of the handler's process."""
        return _outward.decode(self.pipe.recv_bytes())
