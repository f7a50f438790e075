"""A look at the queues of SQS that queues are delivered through, for `holdfast doctor`; nothing is changed there."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.health import HealthFinding, advise, ok, problem
from holdfast.errors import DeliveryFailed
from holdfast.sqs.queue import Sqs

REDRIVE = (
    "Remove the redrive policy: SQS would move pointers away whose messages wait for their turn, and giving up is the "
    "database's decision. What was moved is missed after a minute, and sent again."
)


def look(sqs: Sqs, queues: Iterable[tuple[str, str]]) -> list[HealthFinding]:
    """One finding per queue: whether its queue of SQS can be reached, and what is to be known of that."""
    return [_look(sqs, name, place) for name, place in queues]


def _look(sqs: Sqs, name: str, place: str) -> HealthFinding:
    try:
        state = sqs.queue(place).state()
    except DeliveryFailed as failure:
        return problem(
            "SQS", f"{name}: {failure}", "Messages wait in the database. Look at boto3's settings and rights."
        )
    found = f"{name}: {place}, {state.waiting} waiting, {state.hidden} hidden, visibility {state.visibility} s"
    if state.redrive is None:
        return ok("SQS", f"{found}, no redrive policy")
    return advise("SQS", f"{found}, redrive policy {state.redrive}", REDRIVE)
