"""What can be said of a queue in numbers."""

from __future__ import annotations

import msgspec

WINDOW = 60
"""Seconds over which rates and times are taken."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in numbers, all of one moment. Rates are per second, over the last minute; times are seconds.

    `pending` can be claimed now, `waiting` is not due yet (a delay, a backoff), `processing` is in someone's hands,
    `dead` are dead letters. `avg_processing_time` is from claim to ack and None if nothing was acked in that minute,
    `age_of_oldest_item` is None for an empty queue. `timeout_rate` counts leases that ended without a word. `enqueued`
    are those of the pending ones that are handed over to SQS.
    """

    pending: int = 0
    waiting: int = 0
    processing: int = 0
    dead: int = 0
    consumer_count: int = 0
    claim_rate: float = 0.0
    completion_rate: float = 0.0
    failure_rate: float = 0.0
    timeout_rate: float = 0.0
    avg_processing_time: float | None = None
    age_of_oldest_item: float | None = None
    enqueued: int = 0

    @property
    def queue_depth(self) -> int:
        """How many messages wait, due or not."""
        return self.pending + self.waiting

    @property
    def in_flight_count(self) -> int:
        """How many are claimed and not settled."""
        return self.processing

    @property
    def dlq_depth(self) -> int:
        """How many dead letters there are."""
        return self.dead


METRICS = (
    "queue_depth",
    "in_flight_count",
    "consumer_count",
    "claim_rate",
    "completion_rate",
    "failure_rate",
    "dlq_depth",
    "avg_processing_time",
    "timeout_rate",
    "age_of_oldest_item",
)
"""The ten by their names."""


def metrics(stats: Stats) -> dict[str, float | int | None]:
    """The ten as a dict."""
    return {name: getattr(stats, name) for name in METRICS}
