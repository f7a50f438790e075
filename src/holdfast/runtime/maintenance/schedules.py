"""Messages that are sent by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 1.0


def turn(hf: Holdfast) -> int:
    """Of a hundred schedules at most."""
    return hf.fire_schedules()
