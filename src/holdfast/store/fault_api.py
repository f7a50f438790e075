"""Harm that can be done to a database on purpose, to see what becomes of it: for `holdfast torture`."""

from __future__ import annotations

from typing import Protocol


class Faults(Protocol):
    """What a database can be asked to do to its own users. Nothing of it changes any data."""

    def fill(self, full: bool) -> bool:
        """From now on this client finds no room for anything new, or room again. False where it cannot be had."""
        ...

    def end_sessions(self, named: str) -> int:
        """Ends all sessions whose application name begins so; how many (none where there are no sessions)."""
        ...

    def unheard(self) -> int:
        """How many answers to this process were lost so far, each of which it asked for again by itself."""
        ...

    def size(self) -> int:
        """How many bytes the database takes."""
        ...
