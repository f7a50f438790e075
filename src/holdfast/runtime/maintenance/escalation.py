"""Notices that nobody has answered climb, digests are delivered, callbacks are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 5.0


def turn(hf: Holdfast) -> int:
    """A hundred; the last digest may make it more."""
    return hf.escalate()
