"""Timeouts and waits of sagas."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 1.0


def turn(hf: Holdfast) -> int:
    """Of a hundred sagas at most."""
    return hf.advance_sagas()
