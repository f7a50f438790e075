"""Sagas: several steps that all happen, or are undone. What is declared, what is kept of a running one, what is shown.

`saga_rules` says what follows what, `saga_messages` what the messages of steps say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.commands.rules import command_queue, names_command
from holdfast.core.duration import Duration, seconds
from holdfast.core.message import plain_text
from holdfast.core.queue import channel_name
from holdfast.core.retry import Backoff, backoff
from holdfast.core.times import Moment, MomentOrNone, WithTimes
from holdfast.errors import InvalidInput, shown
from holdfast.sagas.rules.data_selection import Node, written_down

MOST_STEPS = 200
MOST_RETRIES = 1000
ON_FAILURE = ("compensate", "stop")
KEEP = "90d"
"""How long a saga that has ended is kept."""


class Status(StrEnum):
    """Where a saga is. The last three are ends, and so is `failed`, unless a failure is to stop the saga: then it waits
    for what an operator does, and so does `compensation_failed`.
    """

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPENSATING = "compensating"
    FAILED = "failed"
    COMPENSATION_FAILED = "compensation_failed"
    COMPLETED = "completed"
    COMPENSATED = "compensated"
    CANCELED = "canceled"


class StepState(StrEnum):
    """Where a step is."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"


ENDED = frozenset({Status.COMPLETED, Status.COMPENSATED, Status.CANCELED, Status.FAILED})
UNDER_WAY = (Status.PENDING, Status.IN_PROGRESS, Status.COMPENSATING, Status.FAILED, Status.COMPENSATION_FAILED)
"""Those that an operator watches."""
DONE = frozenset({StepState.COMPLETED, StepState.SKIPPED})


class StepSpec(msgspec.Struct, frozen=True):
    """A step as stored: a message to a queue, or a wait for a signal or a time. Steps of one stage run side by side."""

    name: str
    stage: int
    queue: str | None = None
    undo: str | None = None
    timeout: float | None = None
    retry: int = 0
    backoff: Backoff = Backoff(0.0, 0.0, (), 0.0)
    input: Node | None = None
    undo_input: Node | None = None
    when: Node | None = None
    signal: str | None = None
    delay: float | None = None
    until: Node | None = None


class SagaSpec(msgspec.Struct, frozen=True):
    """What `hf.saga(name, …)` declared, as stored."""

    steps: tuple[StepSpec, ...]
    on_failure: str = "compensate"
    owner: str | None = None
    keep: float | None = None

    def place(self, step: str) -> int:
        """The number of a step."""
        for number, one in enumerate(self.steps):
            if one.name == step:
                return number
        raise InvalidInput(f"the saga has no step {shown(step)}; it has {', '.join(one.name for one in self.steps)}")


class SentMessage(msgspec.Struct):
    """A message of a step that has not ended. One that is `unwanted` was claimed when it was to be withdrawn: its lease
    is not renewed, and `look` is when it ends, or when to try again.
    """

    id: str
    group: int
    undo: bool
    unwanted: bool = False
    look: int | None = None


class StepRecord(msgspec.Struct):
    """What is kept of a step. `order` says when it was completed: the last is the first to be undone.

    `undoing` says that its state is that of its undo; `late` that it was done once more while it was undone. Whatever
    was done again after its undo had begun needs another: `undo_round` counts them. It `stays` if someone skipped one.
    The outcome is `unknown` if an attempt ended without an answer and none has succeeded: then it is undone as well.
    """

    state: StepState = StepState.PENDING
    tries: int = 0
    undo_tries: int = 0
    undo_round: int = 1
    order: int = 0
    due: int | None = None
    error: str | None = None
    traceback: str | None = None
    undoing: bool = False
    late: bool = False
    stays: bool = False
    unknown: bool = False
    undoable: bool = True
    withdrawn: bool = False
    out: list[SentMessage] = []
    started_at: int | None = None
    ended_at: int | None = None


class Instance(msgspec.Struct):
    """What is kept of a saga. `data` is what it was started with, and what each step gave back under its name."""

    data: dict[str, Any]
    steps: list[StepRecord]
    status: Status = Status.PENDING
    due: int | None = None
    signals: dict[str, list[Any]] = {}
    completed: int = 0
    canceled: bool = False
    error: str | None = None
    events: int = 0
    calls: list[str] = []
    """The last that users made: one whose answer got lost is made again, and must not count twice."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing happens any more by itself."""
        return self.status in ENDED

    @property
    def can_resume(self) -> bool:
        """Whether it has failed and may go on forwards: nothing of it was undone."""
        return self.status is Status.FAILED and not any(step.undoing for step in self.steps)

    @property
    def needs_someone(self) -> bool:
        """Whether an owner was told, and may decide."""
        return self.status is Status.COMPENSATION_FAILED or self.can_resume

    @property
    def is_awaited(self) -> bool:
        """Whether the end of a message is still to come."""
        return any(step.out for step in self.steps)


class Reference(msgspec.Struct, frozen=True):
    """What a message belongs to: the number of a saga and of its step, whether it undoes that, and which try it is."""

    saga: int
    step: int
    undo: bool
    number: int

    def __str__(self) -> str:
        return f"{self.saga}:{self.step}:{'undo' if self.undo else 'do'}:{self.number}"

    @classmethod
    def read(cls, text: str) -> Reference:
        """From the text that stands with the message."""
        saga, step, direction, number = text.split(":")
        return cls(int(saga), int(step), direction == "undo", int(number))


class SagaEvent(WithTimes, msgspec.Struct, frozen=True):
    """One line of a saga's history: what happened when, by whom, at which attempt, and what came of it."""

    at_us: int
    what: str
    step: str | None = None
    who: str | None = None
    attempt: int | None = None
    error: str | None = None
    output: Any = None
    traceback: str | None = None

    at = Moment()


class StepStatus(WithTimes, msgspec.Struct, frozen=True):
    """A step as it stands. While `undoing`, its status is that of its undo. `undoable` says whether it has one."""

    name: str
    status: str
    queue: str | None
    undo: str | None
    tries: int
    undo_tries: int
    undoing: bool
    undoable: bool
    error: str | None
    output: Any
    started_at_us: int | None
    ended_at_us: int | None
    due_at_us: int | None
    messages: list[str]
    traceback: str | None = None

    started_at = MomentOrNone()
    ended_at = MomentOrNone()
    due_at = MomentOrNone()


class SagaStatus(WithTimes, msgspec.Struct, frozen=True):
    """A saga as it stands. `version` is that of its definition. `timeline` is filled in by `hf.sagas.get` only.

    `error` begins with one sentence; `traceback` is that of the step which it is about, if there is one.
    """

    id: str
    name: str
    version: int
    status: str
    data: dict[str, Any]
    steps: list[StepStatus]
    error: str | None
    started_at_us: int
    updated_at_us: int
    ended_at_us: int | None
    timeline: list[SagaEvent] = []
    traceback: str | None = None

    started_at = Moment()
    updated_at = Moment()
    ended_at = MomentOrNone()


Picked = Any | Callable[[Any], Any]


class Step:
    """A step of a saga: a message to a queue, or a command, and another one (`undo`) if it has to be undone.

    What is written as commands are, an entity and a verb with a capital letter each (`"Card.Charge"`), is a command: it
    is run by any process that has declared it, once, whatever crashes. Any other name is a queue's. Without `input`, a
    command is given those parts of the data that are called as its parameters are.

    The handler's return value is the step's output; the saga's data has it under the step's name. `input` and
    `undo_input` are what the messages have as their body: a value, a function that picks from the saga's data, or an
    `Expression` (without it, all of the data). `when` decides whether the step is needed at all. After `timeout`,
    counted from when it was sent, it has failed. `retry` is how often its message, and that of its undo, is sent again
    after the attempts of its queue are used up, with `backoff` in between.

    >>> Step("flight", "flights.book", undo="flights.cancel", timeout="5m",
    ...      input=lambda data: {"to": data.city}, when=lambda data: data.travellers > 0).name
    'flight'
    """

    def __init__(
        self,
        name: str,
        target: str,
        *,
        undo: str | None = None,
        timeout: Duration | None = None,
        retry: int = 0,
        backoff: str | Duration | Sequence[Duration] | Backoff | None = None,
        input: Picked = None,
        undo_input: Picked = None,
        when: Picked = None,
    ) -> None:
        self.name = _step_name(name)
        self.queue = _queue_of(target, "target")
        self.undo = None if undo is None else _queue_of(undo, "undo")
        self.commands = [one for one in (target, undo) if names_command(one)]
        self.timeout = None if timeout is None else _term(timeout, "timeout")
        self.retry = _retries(retry)
        self.backoff = backoff_of(backoff)
        self.input = None if input is None else written_down(input, "input")
        self.undo_input = None if undo_input is None else written_down(undo_input, "undo_input")
        self.when = None if when is None else written_down(when, "when")

    def spec(self, stage: int) -> StepSpec:
        """As it is stored."""
        return StepSpec(
            self.name,
            stage,
            self.queue,
            self.undo,
            self.timeout,
            self.retry,
            self.backoff,
            self.input,
            self.undo_input,
            self.when,
        )


class Wait:
    """A step that waits: for a `signal` (which fails after `timeout`), for a `delay`, or `until` a time.

    The data that came with the signal is the step's output. `until` is in seconds since 1970, or a time as text, or
    picks one from the saga's data. A signal that came before is not lost.

    >>> Wait("paid", signal="payment", timeout="1d").name
    'paid'
    """

    def __init__(
        self,
        name: str,
        *,
        signal: str | None = None,
        delay: Duration | None = None,
        until: Picked = None,
        timeout: Duration | None = None,
        when: Picked = None,
    ) -> None:
        if sum(one is not None for one in (signal, delay, until)) != 1:
            raise InvalidInput("Wait() needs one of signal=, delay= and until=")
        if timeout is not None and signal is None:
            raise InvalidInput("timeout is for a signal: a time always comes")
        self.name = _step_name(name)
        self.signal = None if signal is None else channel_name(signal, "signal")
        self.delay = None if delay is None else seconds(delay, "delay")
        self.until = None if until is None else written_down(until, "until")
        self.timeout = None if timeout is None else _term(timeout, "timeout")
        self.when = None if when is None else written_down(when, "when")

    def spec(self, stage: int) -> StepSpec:
        """As it is stored."""
        return StepSpec(
            self.name,
            stage,
            timeout=self.timeout,
            when=self.when,
            signal=self.signal,
            delay=self.delay,
            until=self.until,
        )


def saga_spec(steps: Any, on_failure: str, owner: str | None, keep: Duration | None = None) -> SagaSpec:
    """Checks what a user wrote in `hf.saga(name, …)`: steps one after the other, a list of steps side by side."""
    if not isinstance(steps, list | tuple) or not steps:
        raise InvalidInput(f"steps must be a list of Step and Wait, not {shown(steps)}")
    if on_failure not in ON_FAILURE:
        raise InvalidInput(f"on_failure must be one of {', '.join(ON_FAILURE)}, not {shown(on_failure)}")
    specs: list[StepSpec] = []
    for stage, entry in enumerate(steps):
        beside = entry if isinstance(entry, list | tuple) else [entry]
        if not beside or not all(isinstance(one, Step | Wait) for one in beside):
            raise InvalidInput(f"steps must be a list of Step and Wait, or of lists of them, not of {shown(entry)}")
        specs += [one.spec(stage) for one in beside]
    names = [one.name for one in specs]
    if len(set(names)) != len(names):
        raise InvalidInput("steps of one saga have different names: each one's output is kept under its name")
    if len(specs) > MOST_STEPS:
        raise InvalidInput(f"steps: {len(specs)} are more than the {MOST_STEPS} that a saga may have")
    answers = None if owner is None else channel_name(owner, "owner")
    return SagaSpec(tuple(specs), on_failure, answers, None if keep is None else seconds(keep, "keep"))


def checked_saga_id(saga_id: Any) -> str:
    """Checks the id of a saga: text that a URL can have between two slashes, as every act over HTTP has it."""
    if not saga_id or plain_text(saga_id, "saga_id") is None:
        raise InvalidInput(f"saga_id must be text, and not empty, not {shown(saga_id)}")
    if not saga_id.isprintable() or saga_id != saga_id.strip() or "/" in saga_id or saga_id in (".", ".."):
        raise InvalidInput(
            f"saga_id {shown(saga_id)} may not hold slashes, control characters or outer spaces, nor be dots: "
            "write 'epic-123' rather than 'epic/123'"
        )
    return str(saga_id)


def new_instance(spec: SagaSpec, data: dict[str, Any]) -> Instance:
    """A saga that has not begun."""
    return Instance(data, [StepRecord() for _ in spec.steps])


def backoff_of(value: str | Duration | Sequence[Duration] | Backoff | None) -> Backoff:
    """A backoff without chance: whoever moves a saga on comes to the same."""
    read = value if isinstance(value, Backoff) else backoff(value)
    return Backoff(read.initial, read.longest, read.steps, 0.0)


def _queue_of(target: str, what: str) -> str:
    return command_queue(target) if names_command(target) else channel_name(target, what)


def _step_name(name: Any) -> str:
    return channel_name(name, "step")


def _term(value: Duration, what: str) -> float:
    term = seconds(value, what)
    if term <= 0:
        raise InvalidInput(f"{what} must be longer than nothing, not {shown(value)}")
    return term


def _retries(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_RETRIES:
        raise InvalidInput(f"retry must be a number from 0 to {MOST_RETRIES}, not {shown(value)}")
    return value
