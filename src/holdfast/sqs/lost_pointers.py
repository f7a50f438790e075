"""Pointers that nobody has come with for long: lost, expired, purged; or only far behind in a long queue.

SQS is asked how many wait there. As long as that is at least as many as are missed, none of them need be lost, and
patience grows; what cannot be there any more is sent again. So a backlog breeds no twins. After an hour a message is
sent again whatever SQS says, for in a queue that is never empty one that is lost would not be noticed.
"""

from __future__ import annotations

from holdfast.sqs.queue import SqsQueue
from holdfast.sqs.send import PATIENCE
from holdfast.store.api import Channel, Store

LONGEST_PATIENCE = 900.0
"""Seconds after which somebody asks again, at the latest."""

MOST_AWAY = 3600.0
"""Seconds that a pointer may be away, whatever waits in SQS."""

AT_ONCE = 1_000
"""So many messages are looked after in one transaction."""


def reconcile(store: Store, channel: Channel, queue: SqsQueue) -> int:
    """How many messages are to be handed over anew."""
    overdue = store.deliveries.overdue(channel)
    if not overdue.count:
        return 0
    waiting = queue.waiting()
    if overdue.count > waiting:
        return store.deliveries.send_again(channel, AT_ONCE, 0, waiting)
    sent_again = 0
    if overdue.away >= MOST_AWAY * 1_000_000:
        sent_again = store.deliveries.send_again(channel, AT_ONCE, round(MOST_AWAY * 1_000_000))
    patience = min(LONGEST_PATIENCE, max(PATIENCE, overdue.away / 1_000_000))
    store.deliveries.wait_longer(channel, AT_ONCE, round(patience * 1_000_000))
    return sent_again
