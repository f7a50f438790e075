"""What follows what in a saga. Pure: an event and a time change an instance, and say what has to be done about it.

Whoever applies an event does so in the transaction that brought it about, holding the saga. Every message of a step
ends once, so every event comes once; in which order they come does not matter, since each is judged by where the saga
is when it comes:

- forwards, stage by stage: the next one begins when every step of this one is completed or skipped;
- a step that has failed for good turns the saga round (or stops it, `on_failure="stop"`). Then completed steps are
  undone one at a time, the last completed first. Steps that nobody has claimed are withdrawn. The holder of a claimed
  one is told to stop, its lease is not renewed, and nothing is undone before that claim has ended;
- an undo that has failed for good stops everything (`compensation_failed`) until an operator decides.
"""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.sagas.rules.data_selection import evaluate
from holdfast.sagas.rules.declaration import DONE, Instance, SagaSpec, Status, StepRecord, StepState
from holdfast.sagas.rules.events import (
    AttemptFailed,
    Begin,
    CancelSaga,
    Escalate,
    Event,
    MarkDone,
    MessageEnded,
    MessageReturned,
    Move,
    Relieve,
    RetryStep,
    Send,
    Signal,
    SkipStep,
    Tick,
)
from holdfast.sagas.rules.instance import LATEST, micros, moment
from holdfast.sagas.rules.undo import Undoing


def move(spec: SagaSpec, saga: Instance, event: Event, now: int) -> Move:
    """Applies an event to `saga`, which is changed. Answers every event, in every state."""
    mover, was_stuck = _Mover(spec, saga, now), saga.needs_someone
    match event:
        case Begin():
            mover.begin(event)
        case MessageEnded():
            mover.message_ended(event)
        case AttemptFailed():
            mover.attempt_failed(event)
        case MessageReturned():
            mover.returned(event)
        case Tick():
            mover.tick()
        case Signal():
            mover.signal(event)
        case CancelSaga():
            mover.cancel(event)
        case RetryStep():
            mover.retry(event)
        case SkipStep():
            mover.skip(event)
        case MarkDone():
            mover.mark_done(event)
    if was_stuck and not saga.needs_someone:
        mover.came_of.effects.append(Relieve(getattr(event, "who", None)))
    return mover.came_of


class _Mover(Undoing):
    """One event at work."""

    # --- events -------------------------------------------------------------------------------------------------------

    def begin(self, event: Begin) -> None:
        self._note("started", who=event.who)
        self.saga.due = self.now + event.delay
        if not event.delay:
            self._start()

    def message_ended(self, event: MessageEnded) -> None:
        step = self.saga.steps[event.step]
        step.out = [one for one in step.out if one.id != event.id]
        step.unknown = step.unknown or (event.unknown and not event.undo)
        if event.undo:
            if event.succeeded:
                self._undone(event)
            else:
                self._undo_failed(event)
        elif event.succeeded:
            self._succeeded(event)
        else:
            self._failed(event)
            if self.saga.status is Status.COMPENSATING:
                self._count_unknown(event.step)
        self._undo_next()

    def attempt_failed(self, event: AttemptFailed) -> None:
        step = self.saga.steps[event.step]
        what = "undo_attempt_failed" if event.undo else "attempt_failed"
        self._note(what, event.step, event.who, event.attempt, event.error, traceback=event.traceback)
        if not event.undo:
            step.unknown = step.unknown or event.unknown
            if not event.unknown:
                self._failed_withdrawn(event.step, event.error, event.traceback)
        self._withdraw_again(event.step)

    def returned(self, event: MessageReturned) -> None:
        self._withdraw_again(event.step)

    def tick(self) -> None:
        saga = self.saga
        if saga.status is Status.PENDING and saga.due is not None and saga.due <= self.now:
            self._start()
        for number, step in enumerate(saga.steps):
            if step.state is StepState.RUNNING and step.due is not None and step.due <= self.now:
                self._time_is_over(number, step)
            if any(one.look is not None and one.look <= self.now for one in step.out):
                self._withdraw_again(number)
        self._undo_next()

    def signal(self, event: Signal) -> None:
        saga = self.saga
        if saga.status not in (Status.PENDING, Status.IN_PROGRESS, Status.FAILED) or not self._has_use_for(event.name):
            self._refuse()
            return
        self._note("signal", who=event.who, output={event.name: event.data})
        saga.signals.setdefault(event.name, []).append(event.data)
        for number, step in enumerate(saga.steps):
            if step.state is StepState.RUNNING and self.spec.steps[number].signal == event.name:
                self._complete(number, saga.signals[event.name].pop(0), "completed", event.who)
                break
        self._advance()

    def _has_use_for(self, signal: str) -> bool:
        """Whether more steps may still wait for it than have come."""
        takers = [
            spec.signal == signal and (step.state not in DONE or step.withdrawn)
            for spec, step in zip(self.spec.steps, self.saga.steps, strict=True)
        ]
        return sum(takers) > len(self.saga.signals.get(signal, ()))

    def cancel(self, event: CancelSaga) -> None:
        saga = self.saga
        if saga.status not in (Status.PENDING, Status.IN_PROGRESS) and not self.saga.can_resume:
            self._refuse()
            return
        self._note("canceled", who=event.who, error=event.reason)
        saga.canceled, saga.error = True, event.reason
        self._turn_round()

    def retry(self, event: RetryStep) -> None:
        step = self.saga.steps[event.step]
        may_go_on = self.saga.can_resume and not step.withdrawn
        if step.state is not StepState.FAILED or not (step.undoing or may_go_on):
            self._refuse()
            return
        self._note("retried", event.step, who=event.who)
        step.error = None
        if step.undoing:  # As if it had not been its turn yet: what was completed late comes first.
            step.state, step.undoing = StepState.COMPLETED, False
            self.saga.status = Status.COMPENSATING
            self._undo_next()
        else:
            step.tries = 0
            self._enter(event.step)
            self._resume()

    def skip(self, event: SkipStep) -> None:
        if not self._is_open(event.step):
            self._refuse()
            return
        step = self.saga.steps[event.step]
        self._note("skipped", event.step, who=event.who, error=event.reason)
        self._withdraw(event.step)
        step.stays = step.stays or step.undoing
        self._end(step, StepState.SKIPPED, event.reason)
        self._go_on(step)

    def mark_done(self, event: MarkDone) -> None:
        if not self._is_open(event.step):
            self._refuse()
            return
        step = self.saga.steps[event.step]
        self._withdraw(event.step)
        if step.undoing:
            self._note("marked_done", event.step, who=event.who, output=event.output)
            self._end(step, StepState.COMPENSATED)
        else:
            self._complete(event.step, event.output, "marked_done", event.who)
        self._go_on(step)

    # --- forwards -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self.saga.status, self.saga.due = Status.IN_PROGRESS, None
        self._advance()

    def _advance(self) -> None:
        """Begins what may begin now; after the last step, the saga is completed."""
        while self.saga.status is Status.IN_PROGRESS:
            stage = self._stage()
            if stage is None:
                self._finish(Status.COMPLETED)
                return
            waiting = [number for number in stage if self.saga.steps[number].state is StepState.PENDING]
            if not waiting:
                return
            for number in waiting:
                if self.saga.status is Status.IN_PROGRESS:
                    self._begin_step(number)

    def _stage(self) -> list[int] | None:
        """The steps of the first stage that is not over."""
        open_steps = [number for number, step in enumerate(self.saga.steps) if step.state not in DONE]
        if not open_steps:
            return None
        stage = self.spec.steps[open_steps[0]].stage
        return [number for number in open_steps if self.spec.steps[number].stage == stage]

    def _begin_step(self, number: int) -> None:
        spec = self.spec.steps[number]
        try:
            is_needed = spec.when is None or evaluate(spec.when, self.saga.data)
        except HoldfastError as problem:
            self._fail(number, f"when: {problem}")
            return
        if is_needed:
            self._enter(number)
        else:
            self._note("skipped", number)
            self._end(self.saga.steps[number], StepState.SKIPPED)

    def _enter(self, number: int) -> None:
        spec = self.spec.steps[number]
        if spec.queue is not None:
            self._send(number)
        elif spec.signal is not None and self.saga.signals.get(spec.signal):
            self._complete(number, self.saga.signals[spec.signal].pop(0), "completed", None)
        else:
            self._wait(number, self.saga.steps[number])

    def _wait(self, number: int, step: StepRecord) -> None:
        spec = self.spec.steps[number]
        step.state, step.started_at = StepState.RUNNING, self.now
        if spec.signal is not None:
            step.due = None if spec.timeout is None else self.now + micros(spec.timeout)
        elif spec.delay is not None:
            step.due = self.now + micros(spec.delay)
        else:
            try:
                step.due = min(max(moment(evaluate(spec.until or {"value": None}, self.saga.data)), 0), LATEST)
            except HoldfastError as problem:
                self._fail(number, f"until: {problem}")

    def _send(self, number: int) -> None:
        spec, step = self.spec.steps[number], self.saga.steps[number]
        delay = micros(spec.backoff.base(step.tries)) if step.tries else 0
        step.tries += 1
        step.state, step.ended_at, step.order = StepState.RUNNING, None, 0
        step.started_at = self.now if step.started_at is None else step.started_at
        step.due = None if spec.timeout is None else self.now + delay + micros(spec.timeout)
        self.came_of.effects.append(Send(number, False, step.tries, delay))

    def _succeeded(self, event: MessageEnded) -> None:
        step, status = self.saga.steps[event.step], self.saga.status
        can_go_on = status is Status.FAILED and self.spec.on_failure == "stop" and self.saga.can_resume
        if status is Status.IN_PROGRESS or can_go_on:
            undecided = (StepState.RUNNING, StepState.SKIPPED, StepState.FAILED)  # Skipped, and done all the same.
            if step.state in undecided:
                self._withdraw(event.step)
                self._complete(event.step, event.output, "completed", event.who, event.attempt)
                self._resume()
                return
        elif status is not Status.COMPLETED and self._succeeded_late(event, step):
            return
        self._note("not_needed", event.step, event.who, event.attempt, output=event.output)

    def _succeeded_late(self, event: MessageEnded, step: StepRecord) -> bool:
        """The saga has turned round: what was done all the same is undone, also if it was done and undone before.

        False if it was not: several messages of a step have one effect, as long as nobody has begun to undo it.
        """
        was_undone = step.undo_tries > 0
        if step.order and (event.repeated if was_undone else not step.unknown):
            return False
        if was_undone and step.state in (StepState.COMPLETED, StepState.COMPENSATING, StepState.FAILED):
            step.late = True
            self._note("completed_late", event.step, event.who, event.attempt, output=event.output)
            return True
        step.undo_round += int(was_undone)
        self._complete(event.step, event.output, "completed_late", event.who, event.attempt)
        if self.saga.has_ended:
            self.saga.status = Status.COMPENSATING
        return True

    def _failed(self, event: MessageEnded) -> None:
        step = self.saga.steps[event.step]
        going = self.saga.status in (Status.IN_PROGRESS, Status.FAILED) and step.state is StepState.RUNNING
        counts = going and all(one.unwanted for one in step.out)  # Or it is withdrawn, or another try is under way.
        if counts or event.attempt is not None:
            traceback = event.traceback
            self._note("attempt_failed", event.step, event.who, event.attempt, event.error, traceback=traceback)
        if counts:
            self._try_again_or_fail(event.step, event.error, event.final, event.traceback)
        elif event.attempt is not None and not event.unknown:
            self._failed_withdrawn(event.step, event.error, event.traceback)

    def _failed_withdrawn(self, number: int, error: str, traceback: str | None) -> None:
        """The handler of a step that was withdrawn gave up: so the step has failed, and is not tried again."""
        step = self.saga.steps[number]
        if step.withdrawn and step.state is StepState.SKIPPED:
            self._note("failed", number, error=error, traceback=traceback)
            self._end(step, StepState.FAILED, error)

    def _time_is_over(self, number: int, step: StepRecord) -> None:
        spec = self.spec.steps[number]
        if spec.queue is None and spec.signal is None:
            self._complete(number, None, "completed", None)
            self._advance()
            return
        error = f"timed out after {spec.timeout:g} s"
        self._note("timed_out", number, error=error)
        self._withdraw(number)
        self._try_again_or_fail(number, error, final=spec.queue is None)

    def _try_again_or_fail(self, number: int, error: str, final: bool, traceback: str | None = None) -> None:
        step = self.saga.steps[number]
        if not final and step.tries <= self.spec.steps[number].retry:
            step.error, step.traceback = error, traceback
            self._send(number)
        else:
            self._fail(number, error, traceback)

    def _fail(self, number: int, error: str, traceback: str | None = None) -> None:
        step = self.saga.steps[number]
        self._note("failed", number, error=error, traceback=traceback)
        self._end(step, StepState.FAILED, error, traceback)
        self.saga.error = f"{self.spec.steps[number].name}: {error}"
        if self.spec.on_failure == "stop":
            if self.saga.status is not Status.FAILED:
                self._finish(Status.FAILED)
                self.came_of.effects.append(Escalate(self.saga.error, traceback))
        else:
            self._turn_round()

    def _resume(self) -> None:
        """Goes on, unless another step has failed."""
        if any(step.state is StepState.FAILED and not step.withdrawn for step in self.saga.steps):
            return
        self.saga.status, self.saga.canceled, self.saga.error = Status.IN_PROGRESS, False, None
        for step in self.saga.steps:
            step.undoable = True
            if step.withdrawn:
                step.state, step.withdrawn, step.error = StepState.PENDING, False, None
        self._advance()

    # --- what both have in common -------------------------------------------------------------------------------------

    def _is_open(self, number: int) -> bool:
        """Whether an operator may decide about a step, or its undo: it has failed, or is under way."""
        step = self.saga.steps[number]
        if step.undoing:
            return step.state in (StepState.COMPENSATING, StepState.FAILED)
        if step.state is StepState.FAILED:
            return self.saga.can_resume and not step.withdrawn
        return step.state is StepState.RUNNING and self.saga.status in (Status.IN_PROGRESS, Status.FAILED)

    def _go_on(self, step: StepRecord) -> None:
        if step.undoing:
            self._undo_goes_on(step)
        else:
            self._resume()
