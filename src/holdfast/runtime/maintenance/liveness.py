"""Groups that nobody has heard of for too long: nothing is kept for them any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 5.0


def turn(hf: Holdfast) -> int:
    """Of every group that can die."""
    return hf._watch_groups()
