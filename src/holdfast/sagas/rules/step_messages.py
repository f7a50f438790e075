"""What the messages of a saga's steps say, and what they are known by."""

from __future__ import annotations

from typing import Any

from holdfast.commands.rules import command_of
from holdfast.sagas.rules.data_selection import evaluate
from holdfast.sagas.rules.declaration import Instance, SagaSpec, StepSpec

KEY_HEADER = "holdfast-step-key"
WHOLE_HEADER = "holdfast-step-whole"
"""Of a command's message that has all of the saga's data as its body: nothing says what it should have."""


def body_of(spec: SagaSpec, saga: Instance, step: int, undo: bool) -> Any:
    """What a step's message says."""
    node = spec.steps[step].undo_input if undo else spec.steps[step].input
    return saga.data if node is None else evaluate(node, saga.data)


def step_key(saga_id: str, number: int, step: str, undo_round: int | None) -> str:
    """The same at every attempt. An undo has another one, and yet another if the step was done again after it.

    The saga's number is in it because its id may come again, once the saga is forgotten.
    """
    direction = "do" if undo_round is None else "undo" if undo_round == 1 else f"undo/{undo_round}"
    return f"{saga_id}/{number}/{step}/{direction}"


def headers_of(saga_id: str, step: StepSpec, undo: bool, key: str) -> dict[str, str]:
    """What a step's message carries."""
    chosen, queue = (step.undo_input, step.undo) if undo else (step.input, step.queue)
    whole = {WHOLE_HEADER: "yes"} if chosen is None and queue is not None and command_of(queue) else {}
    return {"holdfast-saga": saga_id, "holdfast-step": step.name, KEY_HEADER: key, **whole}
