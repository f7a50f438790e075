"""Feeding on SQLite, step by step inside the write lock. PostgreSQL does this in a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core import priority
from holdfast.core.lifecycle import must_be_alone
from holdfast.core.queue import order_key
from holdfast.store.api import Channel
from holdfast.store.engine import rows
from holdfast.store.engine.rows import Content, NewRow
from holdfast.store.sqlite.limits import Past
from holdfast.topics.rules import routing
from holdfast.topics.steps import feed as feeding
from holdfast.topics.steps import skip

if TYPE_CHECKING:
    from holdfast.store.sqlite.connection import SqliteTransaction


class Feeder:
    """One claim's feeding of one lane, which ends when the lane does, or when it is enough for one turn."""

    def __init__(
        self,
        tx: SqliteTransaction,
        channel: Channel,
        lane: int,
        position: int,
        live_from: int,
        ordering: str,
        wanted: str | None,
        past: Past | None,
    ) -> None:
        self._tx = tx
        self._channel = channel
        self._lane = lane
        self._position = position
        self._live_from = live_from
        self._past = past
        self._ordering = ordering
        self._wanted = wanted
        self._fed = 0
        self._passed = 0

    def feed(self, room: int) -> bool:
        """Copies the next messages of the lane; False if there was nothing to look at, or no more for today."""
        tx, group, lane = self._tx, self._channel.group, self._lane
        if self._fed >= feeding.MOST_FED or self._passed >= feeding.MOST_PASSED or feeding.is_full(tx, group, lane):
            return False
        end, most = priority.lane_start(lane + 1), max(room, feeding.STEP)
        past = self._past if self._position < self._live_from else None
        if past is not None:
            end, most = self._live_from + 1, past.room(room)
        found = tx.all("lanes.read", after=self._position, end=end, limit=most)
        if not found:
            return False
        skipped = skip.skipped(tx, group)
        own = [
            Content(row[1], lane, *row[2:])
            for row in found
            if row[1] not in skipped and (self._wanted is None or routing.is_wanted(self._wanted, row[7]))
        ]
        rows.add(tx, [self._row(content) for content in own])
        skip.pass_by(tx, group, skipped.intersection(row[1] for row in found))
        self._position = found[-1][0]
        tx.run("lanes.move_cursor", group=group, lane=lane, position=self._position)
        self._fed += len(own)
        if past is not None:
            past.note(len(own))
        self._passed += len(found) - len(own)
        return True

    def _row(self, content: Content) -> NewRow:
        """Due since it was published, as if it had been a row from the start."""
        return NewRow(
            self._channel.group,
            content,
            delay=min(0, (content.enqueued_at or 0) - self._tx.clock()),
            alone=must_be_alone(self._channel.spec, 0),
            order_key=order_key(self._ordering, content.key),
        )
