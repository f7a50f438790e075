"""Why a handler has to stop before it is done."""

from __future__ import annotations

from enum import StrEnum


class Stop(StrEnum):
    """The reasons, as they stand in error histories."""

    LOST = "the lease was lost: someone else has the message, or it was canceled"
    LEASE = "the lease could not be renewed in time: the database did not answer"
    UNWANTED = "its saga does not need this step any more: it was canceled, its time was over, or another step failed"
    TIMEOUT = "timed out"
    TIME = "gave up (max_time): the time of all attempts together is over"
    SHUTDOWN = "the worker had to stop while this was running"


class Interrupted(BaseException):
    """Raised inside a handler that has to stop. Not an `Exception`: one that survives any error would survive it."""
