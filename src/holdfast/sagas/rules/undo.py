"""The way back of a saga: what was completed is undone, the last completed first.

Nothing is undone while a step is still claimed: what its handler did would then be undone after the steps before it. So
the first undo is sent by whatever ends the last claim: an ack (the step is undone first), a failure (nothing is left to
undo), or the end of a lease (nobody knows, so it is undone first).
"""

from __future__ import annotations

from holdfast.sagas.rules.declaration import Status, StepRecord, StepState
from holdfast.sagas.rules.events import Escalate, MessageEnded, Send
from holdfast.sagas.rules.instance import Moving, micros


class Undoing(Moving):
    """A saga that has turned round, or is about to."""

    def _turn_round(self) -> None:
        self.saga.status = Status.COMPENSATING
        self._note("compensating", error=self.saga.error)
        for number, step in enumerate(self.saga.steps):
            self._withdraw(number)
            if step.state is StepState.RUNNING:
                self._end(step, StepState.SKIPPED, "withdrawn")
                step.withdrawn = True
            self._count_unknown(number)
        self._undo_next()

    def _count_unknown(self, number: int) -> None:
        """A step that nobody works on any more may have been done: it is undone as if it had just been completed."""
        step = self.saga.steps[number]
        is_over = step.state in (StepState.FAILED, StepState.SKIPPED) and not step.undoing
        if step.unknown and is_over and not step.order and not any(not one.undo for one in step.out):
            self.saga.completed += 1
            step.order, step.undoable = self.saga.completed, True
            self._note("outcome_unknown", number, error=step.error)

    def _undo_next(self) -> None:
        """Undoes what was completed last, unless something is being done or undone; after the first, it has ended."""
        saga = self.saga
        if saga.status is not Status.COMPENSATING:
            return
        if any(step.state is StepState.COMPENSATING for step in saga.steps):
            return
        if any(not one.undo for step in saga.steps for one in step.out):
            return
        done = [n for n, step in enumerate(saga.steps) if step.undoable and _is_done(step)]
        for number in sorted(done, key=lambda n: saga.steps[n].order, reverse=True):
            if self.spec.steps[number].undo is not None:
                saga.steps[number].undo_tries = 0
                self._send_undo(number)
                return
            saga.steps[number].undoable = False
            if self.spec.steps[number].queue is not None:
                self._note("not_undoable", number)
        self._finish(self._end_of_compensation())
        if saga.can_resume:  # Whatever has failed, there may be no dead letter that tells of it.
            self.came_of.effects.append(Escalate(saga.error or "it has failed"))

    def _end_of_compensation(self) -> Status:
        if any(step.stays for step in self.saga.steps):
            return Status.FAILED
        if self.saga.canceled:
            return Status.CANCELED
        if any(step.state is StepState.COMPENSATED for step in self.saga.steps):
            return Status.COMPENSATED
        return Status.FAILED

    def _send_undo(self, number: int) -> None:
        spec, step = self.spec.steps[number], self.saga.steps[number]
        delay = micros(spec.backoff.base(step.undo_tries)) if step.undo_tries else 0
        step.undo_tries += 1
        step.state, step.undoing, step.ended_at = StepState.COMPENSATING, True, None
        self.came_of.effects.append(Send(number, True, step.undo_tries, delay))

    def _undone(self, event: MessageEnded) -> None:
        step = self.saga.steps[event.step]
        if not step.undoing or step.state not in (StepState.COMPENSATING, StepState.FAILED):
            return
        self._withdraw(event.step, undo=True)
        step.unknown = False
        self._note("compensated", event.step, event.who, event.attempt, output=event.output)
        self._end(step, StepState.COMPENSATED)
        self._undo_goes_on(step)

    def _undo_failed(self, event: MessageEnded) -> None:
        step = self.saga.steps[event.step]
        counts = step.state is StepState.COMPENSATING and all(one.unwanted for one in step.out if one.undo)
        if counts or event.attempt is not None:
            traceback = event.traceback
            self._note("undo_attempt_failed", event.step, event.who, event.attempt, event.error, traceback=traceback)
        if not counts:
            return
        if not event.final and step.undo_tries <= self.spec.steps[event.step].retry:
            step.error, step.traceback = event.error, event.traceback
            self._send_undo(event.step)
            return
        self._end(step, StepState.FAILED, event.error, event.traceback)
        name = self.spec.steps[event.step].name
        self.saga.status = Status.COMPENSATION_FAILED
        self.saga.error = f"{name} could not be undone: {event.error}"
        self._note("compensation_failed", event.step, error=event.error, traceback=event.traceback)
        self.came_of.effects.append(Escalate(self.saga.error, event.traceback))

    def _undo_goes_on(self, step: StepRecord) -> None:
        """An undo is over, one way or the other: the next one's turn."""
        if step.late and step.state is StepState.COMPENSATED:  # It was done once more in the meantime.
            self.saga.completed += 1
            step.late, step.undoing, step.order = False, False, self.saga.completed
            step.state, step.undo_round = StepState.COMPLETED, step.undo_round + 1
        self.saga.status = Status.COMPENSATING
        self._undo_next()


def _is_done(step: StepRecord) -> bool:
    """Whether there is something to undo, or may be."""
    if step.state is StepState.COMPLETED:
        return True
    is_over = step.state in (StepState.FAILED, StepState.SKIPPED) and not step.undoing
    return is_over and step.unknown and step.order > 0
