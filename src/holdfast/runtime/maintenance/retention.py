"""Messages that no group of their topic needs any more, or that are too old."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 1.0


def turn(hf: Holdfast) -> int:
    """Of every topic, a few."""
    return hf._retain()
