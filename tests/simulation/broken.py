"""Stores with one mistake each, all of which queues in use have made. A checker that misses one proves nothing.

Each is the real store with a query or a step exchanged for as long as the context lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw
from msgspec.structs import replace

from holdfast.core import priority
from holdfast.core.message import Duplicate, NewMessage
from holdfast.store.api import Channel, ClaimRequest, ClaimResult, Make
from holdfast.store.engine import expire_leases, history, idempotency
from holdfast.store.engine import insert as inserting
from holdfast.store.sqlite import claim as claiming
from holdfast.store.sqlite import connection
from holdfast.store.sqlite.messages import SqliteMessages
from holdfast.store.sqlite.statements import QUERIES
from tests.simulation.scheduler import Actor
from tests.simulation.simulation import Play
from tests.simulation.sqlite_stage import Content

Break = Callable[[], AbstractContextManager[Any]]


def exchanged(**texts: tuple[str, str]) -> AbstractContextManager[Any]:
    """Queries (`rows__lock` is rows.lock) in which one text stands instead of another."""
    changed = {}
    for name, (old, new) in texts.items():
        query = name.replace("__", ".")
        assert old in QUERIES[query], f"{query} has no {old!r} any more"
        changed[query] = QUERIES[query].replace(old, new)
    return patch.dict(QUERIES, changed)


def no_token_check() -> AbstractContextManager[Any]:
    """Whoever held a message once may settle it for ever."""
    fence = ("AND token = :token", "AND state = 'processing' AND :token IS NOT NULL")
    return exchanged(rows__lock=fence, rows__succeed=fence, rows__extend=fence)


def reaper_without_guard() -> AbstractContextManager[Any]:
    """Reads which leases are over, and later puts these messages back, whatever happened to them meanwhile."""

    def sweep(self: SqliteMessages, channel: Channel, limit: int, worker: str | None = None) -> int:
        lapsed = self._database.read(lambda tx: tx.all("rows.lapsed", group=channel.group, limit=limit))
        if lapsed:
            connection.time.sleep(2)  # sleeps: in virtual time; it has a long list to go through
        self._database.write(
            lambda tx: expire_leases._take_back_rows(Remembering(tx, "rows.lapsed", lapsed), channel, limit)
        )
        self._database.write(lambda tx: expire_leases._take_back_runs(tx, channel, limit))
        return self._database.write(lambda tx: history.prune(tx, channel, limit))

    return patch.object(SqliteMessages, "sweep", sweep)


class Remembering:
    """A transaction that knows the answer to one query already."""

    def __init__(self, tx: Any, query: str, answer: list[Any]) -> None:
        self._tx, self._query, self._answer = tx, query, answer

    def all(self, query: str, **parameters: Any) -> list[Any]:
        return self._answer if query == self._query else self._tx.all(query, **parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def select_then_update() -> AbstractContextManager[Any]:
    """Looks for what is due, and takes it in another transaction without looking again."""

    def claim(self: SqliteMessages, request: ClaimRequest, make: Make[Any]) -> ClaimResult[Any]:
        acked = self._database.write(lambda tx: claiming.settle(tx, request.ack))
        lost = self._database.write(lambda tx: [claiming.finish(tx, lease) for lease in request.done])
        rest = replace(request, ack=(), done=())
        for channel in request.channels:
            due = self._database.read(partial(_due, channel, request.limit))
            if due:
                grants = self._database.write(
                    partial(claiming._take_rows, request=request, make=make, channel=channel, due=due)
                )
                return ClaimResult(grants, acked, lost)
        claimed = self._database.write(lambda tx: claiming.claim(tx, rest, make))
        return ClaimResult(claimed.grants, acked, lost, claimed.silent)

    return patch.object(SqliteMessages, "claim", claim)


def _due(channel: Channel, limit: int, tx: Any) -> list[Any]:
    lanes_of_it = [channel.lane(level) for level in priority.ALL]
    due = [
        row
        for lane in lanes_of_it
        for row in tx.all("rows.due", group=channel.group, lane=lane, limit=limit, alone=True)
    ]
    return due[:limit]


def attempt_at_failure() -> AbstractContextManager[Any]:
    """Counts an attempt when it fails: one that kills its worker is never counted."""
    return exchanged(rows__take=("attempts = attempts + 1, ", ""))


def no_head_rule() -> AbstractContextManager[Any]:
    """Whatever is due of a key may be claimed."""
    return exchanged(rows__insert=(":first OR :order_key = ''", ":first OR :order_key IS NOT NULL"))


@contextmanager
def dedup_without_unique_index() -> Iterator[None]:
    """Looks whether a key is known, and if not, stores the message in another transaction."""

    def insert(self: SqliteMessages, new: Sequence[NewMessage]) -> list[Duplicate | None]:
        known = self._database.read(lambda tx: [_first(tx, message) for message in new])
        fresh = [message for message, first in zip(new, known, strict=True) if first is None]
        if fresh:
            self._database.write(lambda tx: inserting.insert(tx, fresh))
        return known

    with ExitStack() as stack:
        stack.enter_context(
            exchanged(
                idempotency__remember=(
                    "WHERE holdfast_idempotency.ended AND holdfast_idempotency.expires_at <= :now",
                    "",
                )
            )
        )
        stack.enter_context(patch.object(SqliteMessages, "insert", insert))
        yield


def _first(tx: Any, message: NewMessage) -> Duplicate | None:
    return None if message.once is None else idempotency.find(tx, *idempotency._place(message))


def cleanup_by_age_only() -> AbstractContextManager[Any]:
    """A topic forgets what is old, whoever still waits for it."""
    return exchanged(
        retention__readers=("m WHERE m.position > k.position", "m WHERE false AND m.position > k.position"),
        retention__held=("WHERE g.source", "WHERE false AND g.source"),
    )


@contextmanager
def lost_tail() -> Iterator[None]:
    """Says that something is stored before it is: with a crash the last commits are gone."""
    tick, replace_killed = Play._tick, Play.replace
    kept: list[Content] = []

    def remembering(self: Play) -> int:
        if len(self.events) % 10 == 0:
            kept[:] = [self.stage.content()]  # type: ignore[attr-defined]
        return tick(self)

    def crash(self: Play, killed: Actor) -> None:
        with suppress(apsw.BusyError):
            self.stage.restore(*kept)
        replace_killed(self, killed)

    with patch.object(Play, "_tick", remembering), patch.object(Play, "replace", crash):
        yield


class Broken(NamedTuple):
    """A mistake, the check that has to notice, and where it shows soonest."""

    mistake: Break
    check: str
    queues: Sequence[str] = ("keyed",)
    cast: Sequence[str] = ("produce", "work", "work", "work", "work", "clean", "clean")


SQLITE: dict[str, Broken] = {
    "no token check": Broken(no_token_check, "stale accepted"),
    "reaper without guard": Broken(reaper_without_guard, "double lease"),
    "select then update": Broken(select_then_update, "double lease"),
    "attempt at failure": Broken(attempt_at_failure, "claimed twice"),
    "lost tail": Broken(lost_tail, "lost", ("plain",)),
    "no head rule": Broken(no_head_rule, "out of order"),
    "dedup without unique index": Broken(dedup_without_unique_index, "duplicate", ("plain",), ("produce",) * 6),
    "clean-up by age only": Broken(
        cleanup_by_age_only, "group", ("plain",), ("produce", "subscribe", "clean", "clean")
    ),
}
