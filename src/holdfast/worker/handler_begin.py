"""Whether a handler has begun, seen from outside: its first line was reached.

A thread may be stopped by the system at any place, also between the look at the gate and the handler. Whoever pauses a
queue has to know where it is, for as long as it takes. A handler that told of its begin would pay for that each time;
to look at the thread's frames costs only those who pause.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from functools import partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from holdfast.client.client import internals

if TYPE_CHECKING:
    from holdfast.client.client import Holdfast
    from holdfast.worker.consumer import Consumer


class FirstLine:
    """The begin of a function."""

    def __init__(self, code: CodeType) -> None:
        self._code = code
        resumes = [one.offset for one in dis.get_instructions(code) if one.opname == "RESUME"]
        self._begin = resumes[0] if resumes else -1
        """What comes up to here is the call: a thread that has just made it may wait there for its turn."""

    def is_reached(self, thread: int | None) -> bool:
        """Whether this thread is inside of the function."""
        return any(one.f_code is self._code and one.f_lasti > self._begin for one in _frames(thread))


def is_running(thread: int | None, code: CodeType) -> bool:
    """Whether this thread runs this function."""
    return any(one.f_code is code for one in _frames(thread))


def first_line_of(hf: Holdfast, consumer: Consumer) -> FirstLine | None:
    """Where a consumer's handler begins; None if that cannot be seen in our threads, or if middleware goes before."""
    if consumer.isolation == "process" or consumer.middleware or internals(hf).consumers.middleware_for(consumer):
        return None
    handler: Any = consumer.handler
    while isinstance(handler, partial):
        handler = handler.func
    calls = getattr(type(handler), "__call__", None)  # noqa: B004
    for one in (handler, getattr(handler, "__func__", None), calls):
        code = getattr(one, "__code__", None)
        if isinstance(code, CodeType):
            return FirstLine(code)
    return None


def _frames(thread: int | None) -> Iterator[FrameType]:
    frame = sys._current_frames().get(thread or 0)
    while frame is not None:
        yield frame
        frame = frame.f_back
