"""Telling someone outside of deaths: a DeadTaskEvent to a queue of SQS, and to functions of the program.

The dead letter is the truth, and says whether its event was sent. It is sent after the death is stored, best effort: a
maintenance duty sends what a crash or an outage left unsent. One that was sent and not noted is sent twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from holdfast.core.dead_letter import shortened
from holdfast.core.message import id_text
from holdfast.core.times import text_of, utc
from holdfast.events import DeadTaskEvent, Listeners
from holdfast.sqs.queue import Sqs, in_batches
from holdfast.sqs.rules.names import CALLBACK
from holdfast.sqs.steps.values import Death
from holdfast.store.api import Channel, Store

AT_ONCE = 100
LONGEST_ERROR = 2_000
"""Characters of an error that travel, and of its traceback."""


def tell(store: Store, sqs: Sqs, listeners: Listeners, worker: str, channel: Channel) -> int:
    """Sends what is unsent of a queue, a hundred at most; how many."""
    target = channel.spec.dead_events
    is_ours = target != CALLBACK or listeners.want(DeadTaskEvent)
    if target is None or not is_ours:  # Without a listener here, it waits for a process that has one.
        return 0
    unsent = store.deaths.unsent(channel, AT_ONCE)
    if not unsent:
        return 0
    told = unsent if target == CALLBACK else _send(sqs, target, unsent)
    for one in told if listeners.want(DeadTaskEvent) else ():
        listeners.tell(_event(channel, one, worker))
    store.deaths.sent([one.dead_id for one in told])
    return len(told)


def _send(sqs: Sqs, target: str, deaths: Sequence[Death]) -> list[Death]:
    """Those that SQS says it has."""
    queue, told = sqs.queue(target), []
    for some in in_batches(deaths):
        answers = queue.send([_text(one) for one in some], [id_text(one.dead_id) for one in some])
        told += [one for one, has_it in zip(some, answers, strict=True) if has_it]
    return told


def _text(death: Death) -> str:
    """In ASCII: an error may hold what SQS would not carry."""
    return json.dumps(
        {
            "taskId": death.message_id,
            "workerId": death.worker,
            "attemptCount": death.attempts,
            "maxAttempts": death.max_attempts,
            "error": shortened(death.error, LONGEST_ERROR),
            "traceback": death.traceback and death.traceback[-LONGEST_ERROR:],
            "timestamp": text_of(death.failed_at),
        }
    )


def _event(channel: Channel, death: Death, worker: str) -> DeadTaskEvent:
    return DeadTaskEvent(
        worker=worker,
        queue=channel.name,
        task_id=death.message_id,
        worker_id=death.worker,
        attempt_count=death.attempts,
        max_attempts=death.max_attempts,
        error=shortened(death.error, LONGEST_ERROR),
        traceback=death.traceback and death.traceback[-LONGEST_ERROR:],
        timestamp=utc(death.failed_at),
    )
