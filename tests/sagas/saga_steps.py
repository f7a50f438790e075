"""Playing the workers of sagas, message by message."""

from __future__ import annotations

from typing import Any

from holdfast import Claim, Holdfast, SagaStatus, Step

NAMES = ("flight", "hotel", "car")


def trip(*names: str, **settings: Any) -> list[Step]:
    """Steps that can all be undone."""
    return [Step(name, f"{name}.book", undo=f"{name}.cancel", **settings) for name in names or NAMES]


def take(hf: Holdfast, queue: str) -> Claim:
    """The one message that waits in a queue."""
    [claim] = hf.claim(queue, n=10)
    return claim


def do(hf: Holdfast, *steps: str, output: Any = None) -> None:
    """Steps go well."""
    for step in steps:
        take(hf, f"{step}.book").ack({"id": step} if output is None else output)


def undo(hf: Holdfast, *steps: str) -> None:
    """Undoing goes well; nothing but the next one waits to be undone."""
    for step in steps:
        assert waiting(hf) == [f"{step}.cancel"]
        take(hf, f"{step}.cancel").ack()


def die(hf: Holdfast, queue: str, error: str = "no seat") -> None:
    """A message becomes a dead letter."""
    take(hf, queue).dead_letter(error)


def waiting(hf: Holdfast) -> list[str]:
    """The queues of steps that have something to claim."""
    queues = [queue for queue in hf.queues.list() if queue.endswith((".book", ".cancel"))]
    return [queue for queue in queues if hf.stats(queue).pending]


def shown(hf: Holdfast, saga_id: str) -> SagaStatus:
    found = hf.sagas.get(saga_id)
    assert found is not None
    return found


def states(hf: Holdfast, saga_id: str) -> list[str]:
    return [step.status for step in shown(hf, saga_id).steps]


def lines(hf: Holdfast, saga_id: str) -> list[str]:
    return [f"{line.what} {line.step or ''}".strip() for line in shown(hf, saga_id).timeline]
