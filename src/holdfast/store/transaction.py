"""What the shared parts of the stores need of a transaction: named queries, the clock, and the bells to ring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from holdfast.core.message import NewMessage
from holdfast.sagas.steps.step_ends import Happening

Row = tuple[Any, ...]


class Transaction(Protocol):
    """A running transaction. The parameter `now` is filled in for every query that wants it."""

    rings: set[int]
    tallies: dict[int, dict[str, int]]
    """What to add to the tally of each group when the transaction ends."""
    endings: list[Happening]
    """What happened to messages of sagas, which move on before the transaction ends."""
    overdue: set[int]
    """Groups in whose full queue there was room because the time of messages was over: these are ended soon."""
    ended_keys: set[tuple[int, str]]
    """Groups and order keys whose heads have ended: the next of each is promoted before the transaction ends."""

    @property
    def again(self) -> bool:
        """Whether an earlier try of the same work had an unknown outcome."""

    def all(self, query: str, **parameters: Any) -> list[Row]:
        """Every row of a query."""

    def one(self, query: str, **parameters: Any) -> Row | None:
        """The first row, if any."""

    def run(self, query: str, **parameters: Any) -> int:
        """Runs a query without rows; how many rows it changed."""

    def each(self, query: str, parameters: Sequence[dict[str, Any]]) -> list[Row | None]:
        """Runs a query once per set of parameters; the first row of each, in order."""

    def insert(self, new: Sequence[NewMessage]) -> None:
        """Store messages: plain ones in their lanes, the others as rows."""

    def clock(self) -> int:
        """The database's time, in microseconds since 1970."""
