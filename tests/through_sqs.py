"""Delivery through SQS for every client, for tests and programs that do not ask for it."""

import msgspec

from holdfast.client import client
from holdfast.settings import Settings

FOR_CHILDREN = "HOLDFAST_TEST_THROUGH_SQS"
"""Set in the environment of processes that a test starts: `tests.acceptance.workers` delivers through SQS then."""

SEAM = "holdfast.client.client.adjusted"


def deliver_through_sqs(settings: Settings) -> Settings:
    """Stand in for `SEAM`: queues that do not say how they are delivered go through SQS."""
    return msgspec.structs.replace(settings, delivery="sqs", sqs_create=True)


def install() -> None:
    """Deliver through SQS for as long as this process lives."""
    client.adjusted = deliver_through_sqs
