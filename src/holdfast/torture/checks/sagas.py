"""Sagas: each one that was started ends; all of its steps are done, or what was done is undone in reverse."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.torture.account import Account
from holdfast.torture.ending import SagaEnd
from holdfast.torture.history import OK

ENDED = frozenset({"completed", "compensated", "failed", "canceled", "compensation_failed"})
"""One whose undo failed waits for a person; that is an end too, as long as nobody calls it compensated."""


DONE = frozenset({"completed", "completed_late", "outcome_unknown"})
"""Lines of a timeline that say that a step was done, or may have been."""


def broken_sagas(found: Account) -> Iterator[str]:
    ends = {saga.id: saga for saga in found.final.sagas}
    for id, outcome in found.sagas.items():
        if outcome == OK and id not in ends and not found.final.forgets_sagas:
            yield f"saga {id} was started and is nowhere"
    for saga in found.final.sagas:
        if saga.id not in found.sagas:
            yield f"saga {saga.id} was started by nobody"
        if saga.status not in ENDED:
            yield f"saga {saga.id} is still {saga.status}: {saga.steps}"
            continue
        yield from _wrong_steps(saga)
        yield from _wrong_way_back(saga)


def _wrong_steps(saga: SagaEnd) -> Iterator[str]:
    statuses = [status for _, status, _ in saga.steps]
    if saga.status == "completed" and set(statuses) - {"completed", "skipped"}:
        yield f"saga {saga.id} is called completed, but its steps are {statuses}"
    if saga.status == "compensated" and any(status == "completed" and undo for _, status, undo in saga.steps):
        yield f"saga {saga.id} is called compensated, but its steps are {statuses}"


def _wrong_way_back(saga: SagaEnd) -> Iterator[str]:
    """What was completed and can be undone is undone once, the last first. So is what may have been done, because its
    lease ended without an answer. Nothing is completed any more once the first undo is through."""
    undoable = {name for name, _, undo in saga.steps if undo}
    done: list[str] = []
    undone: list[str] = []
    for what, step in saga.timeline:
        if step not in undoable:
            continue
        if what in DONE:
            if step in undone or step in done:
                yield f"saga {saga.id} completed {step} twice: {saga.timeline}"
            elif undone:
                yield f"saga {saga.id} completed {step} after it had begun to undo: {saga.timeline}"
            done.append(step)
        elif what == "compensated":
            undone.append(step)
            if not done or done[-1] != step:
                yield f"saga {saga.id} undid {step} out of its turn: {saga.timeline}"
            done = [one for one in done if one != step]
    if saga.status == "completed" and undone:
        yield f"saga {saga.id} is completed, but undid {undone}"
