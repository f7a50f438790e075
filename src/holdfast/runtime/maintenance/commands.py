"""Receipts of commands are removed when their time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.limits import SWEEP_LIMIT

if TYPE_CHECKING:
    from holdfast.client import Holdfast

EVERY = 60.0


def turn(hf: Holdfast) -> int:
    """A hundred at most."""
    return hf.store.commands.forget(hf.settings.tenant, SWEEP_LIMIT)
