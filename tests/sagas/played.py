"""A saga without a database: its messages are played, and what they did is written into a ledger."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from holdfast.sagas.rules.declaration import Instance, SagaSpec, Status, StepState, new_instance, saga_spec
from holdfast.sagas.rules.events import (
    Begin,
    Effect,
    Escalate,
    Event,
    MessageEnded,
    Move,
    Relieve,
    Send,
    Tick,
    Withdraw,
    sent_note,
)
from holdfast.sagas.rules.instance import look_again, next_due, sent, withdrawn
from holdfast.sagas.rules.moves import move


class Letter(msgspec.Struct):
    """A message on its way, which someone may have begun."""

    id: str
    step: int
    undo: bool
    held: bool = False
    undo_round: int = 1
    delay: int = 0
    until: int | None = None
    """When the lease ends if it is not renewed; None for one that outlasts everything."""


class World:
    """Plays workers, time and operators for one saga."""

    def __init__(self, steps: Any, on_failure: str = "compensate", data: dict[str, Any] | None = None) -> None:
        self.spec: SagaSpec = saga_spec(steps, on_failure, None)
        self.saga: Instance = new_instance(self.spec, data or {})
        self.letters: dict[str, Letter] = {}
        self.ledger: list[tuple[str, int]] = []
        self.standing: set[int] = set()
        """What is done and not undone. Who does a step twice under one key has done it once, and so with an undo."""
        self.maybe_done: set[int] = set()
        self._undone: set[tuple[int, int]] = set()
        self.told: list[str] = []
        self.open_notice = False
        self.notes: list[str] = []
        self.now = 0
        self._ids = itertools.count(1)

    def start(self) -> World:
        self.apply(Begin())
        return self

    def apply(self, event: Event) -> Move:
        """What a store does: all of it in one transaction."""
        first, events = None, [event]
        while events:
            came_of = move(self.spec, self.saga, events.pop(0), self.now)
            first = first or came_of
            self.notes += [note.what for note in came_of.notes]
            for effect in came_of.effects:
                events += self._do(effect)
        self._check()
        assert first is not None
        return first

    def _do(self, effect: Effect) -> list[Event]:
        match effect:
            case Send():
                self._check_send(effect)
                undo_round = self.saga.steps[effect.step].undo_round
                letter = Letter(f"m{next(self._ids)}", effect.step, effect.undo, False, undo_round, effect.delay)
                self.letters[letter.id] = letter
                sent(self.saga, effect, letter.id, 1)
                self.notes.append(sent_note(effect).what)
            case Withdraw():
                return self._withdraw(effect)
            case Escalate():
                self.told.append(effect.error)
                self.open_notice = True
            case Relieve():
                self.open_notice = False
        return []

    def succeed(self, letter: Letter, output: Any = None, has_receipt: bool = False) -> None:
        """Its handler is through. With `has_receipt`, it knows what was done before, and has not done it again."""
        del self.letters[letter.id]
        repeated = has_receipt and not letter.undo and ("do", letter.step) in self.ledger
        if letter.undo:
            self._undo(letter)
        elif not repeated:
            self.standing.add(letter.step)
            self.ledger.append(("do", letter.step))
        self.apply(MessageEnded(letter.step, letter.undo, letter.id, True, output, repeated=repeated))

    def _undo(self, letter: Letter) -> None:
        self.ledger.append(("undo", letter.step))
        if (letter.step, letter.undo_round) not in self._undone:
            self._undone.add((letter.step, letter.undo_round))
            self.standing.discard(letter.step)
        times = sum(step == letter.step for step, _ in self._undone)
        times -= letter.step in self.maybe_done
        assert times <= self.ledger.count(("do", letter.step)) or "marked_done" in self.notes, "undone once each"

    def fail(self, letter: Letter, error: str = "no", final: bool = False, attempt: int | None = None) -> None:
        """Without an attempt if nobody had begun it."""
        del self.letters[letter.id]
        ended = MessageEnded(letter.step, letter.undo, letter.id, False, error=error, final=final, attempt=attempt)
        self.apply(ended)

    def cancel(self, letter: Letter) -> None:
        """Somebody cancels its message. If it was claimed, nobody knows whether it was done."""
        del self.letters[letter.id]
        if letter.held and not letter.undo:
            self.maybe_done.add(letter.step)
        error = "its message was canceled"
        self.apply(
            MessageEnded(letter.step, letter.undo, letter.id, False, error=error, final=True, unknown=letter.held)
        )

    def lapse(self, letter: Letter, done: bool = False) -> None:
        """Its lease ends without an answer, and nobody but its handler knows whether it was `done`."""
        del self.letters[letter.id]
        if done:
            self.standing.add(letter.step)
            self.ledger.append(("do", letter.step))
        self.maybe_done.add(letter.step)
        ended = MessageEnded(letter.step, letter.undo, letter.id, False, error="silence", attempt=1, unknown=True)
        self.apply(ended)

    def replay(self, step: int, has_receipt: bool = False) -> None:
        """Somebody replays a dead letter of a step, of which the saga has not heard, and it succeeds."""
        repeated = has_receipt and ("do", step) in self.ledger
        if not repeated:
            self.standing.add(step)
            self.ledger.append(("do", step))
        self.apply(MessageEnded(step, False, "a replay", True, repeated=repeated))

    def tick(self) -> None:
        """Goes to the next moment that matters."""
        due = next_due(self.saga)
        if due is not None:
            self.now = max(self.now, due)
            for letter in sorted(self.letters.values(), key=lambda one: (one.step, one.undo)):
                if self._is_silent(letter):
                    self.lapse(letter)
            self.apply(Tick())

    def _is_silent(self, letter: Letter) -> bool:
        looks = [one.look for one in self.saga.steps[letter.step].out if one.id == letter.id]
        return looks != [None] and letter.until is not None and letter.until <= self.now

    def only(self) -> Letter:
        [letter] = self.letters.values()
        return letter

    def run(self) -> World:
        """Everything goes well from here on."""
        for _ in range(1000):
            if not self.letters and next_due(self.saga) is None:
                return self
            for letter in list(self.letters.values()):
                if letter.id in self.letters:
                    self.succeed(letter)
            self.tick()
        raise AssertionError("it never ends")

    def states(self) -> list[str]:
        return [step.state.value for step in self.saga.steps]

    @property
    def status(self) -> Status:
        return self.saga.status

    def _withdraw(self, effect: Withdraw) -> list[Event]:
        letter = self.letters.get(effect.id)
        if letter is None:
            return []
        if letter.held:
            look_again(self.saga, effect, None if letter.until is None else max(letter.until, self.now))
            return []
        del self.letters[letter.id]
        return [withdrawn(effect)]

    def _check_send(self, send: Send) -> None:
        steps = self.saga.steps
        if send.undo:
            assert not any(not one.undo for one in self.letters.values()), "nothing is undone while a step is claimed"
            later = [one for one in steps if one.state is StepState.COMPLETED and one.undoable]
            if send.number == 1:  # While it is tried again, something late may have come.
                assert all(steps[send.step].order > one.order for one in later), "undone in reverse order"
            assert self.saga.status is Status.COMPENSATING
            was_done = ("do", send.step) in self.ledger or send.step in self.maybe_done
            assert was_done or "marked_done" in self.notes, "only what was done is undone"
        else:
            stage = self.spec.steps[send.step].stage
            before = [steps[n] for n, one in enumerate(self.spec.steps) if one.stage < stage]
            assert all(one.state in (StepState.COMPLETED, StepState.SKIPPED) for one in before), "what ran is a prefix"

    def _check(self) -> None:
        """Holds at every moment."""
        steps = self.saga.steps
        assert sum(one.state is StepState.COMPENSATING for one in steps) <= 1
        known = {one.id for step in steps for one in step.out}
        assert known == set(self.letters), "the saga knows exactly the messages that have not ended"
        if self.saga.status is Status.COMPLETED:
            assert all(one.state in (StepState.COMPLETED, StepState.SKIPPED) for one in steps)
        if self.saga.status in (Status.COMPENSATED, Status.CANCELED):
            assert not any(one.state is StepState.COMPLETED and one.undoable for one in steps)
            assert not any(one.undoing and one.state is not StepState.COMPENSATED for one in steps)
            assert not any(not letter.undo for letter in self.letters.values()), "nothing can still happen"
        if self.saga.status is Status.COMPENSATION_FAILED:
            assert any(one.undoing and one.state is StepState.FAILED for one in steps)
        assert self.open_notice == self.saga.needs_someone, "who has to look is told, and only then"
        assert all(len(one) <= len(steps) for one in self.saga.signals.values())
