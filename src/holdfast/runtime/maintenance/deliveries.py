"""Pointers that got lost in SQS, and deaths that nobody outside was told of yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 5.0


def turn(hf: Holdfast) -> int:
    """Of every queue that SQS has to do with, a few. If SQS refuses, it is tried again later; nobody waits for it."""
    hf.messages.aftercare.look_after(hf._book.readers(), never_waits=True)
    return 0
