"""Dead letters for users."""

from __future__ import annotations

from typing import Any

from holdfast.client.namespace import Namespace
from holdfast.client.receipts import Receipt
from holdfast.client.validate import checked_count
from holdfast.core.dead_letter import DeadLetterRecord, Selection
from holdfast.core.message import encode_json, id_bytes, id_text
from holdfast.dead_letters import bulk
from holdfast.dead_letters.bulk import Moment, Progress
from holdfast.store.ids import new_id

KEPT: Any = object()
"""A body that stays as it was."""


class DeadLetters(Namespace):
    """`hf.dead_letters`: finds, replays and deletes messages that have died."""

    def list(
        self,
        queue: str | None = None,
        *,
        n: int = 100,
        after: str | None = None,
        error: str | None = None,
        key: str | None = None,
        since: Moment | None = None,
        before: Moment | None = None,
    ) -> list[DeadLetterRecord]:
        """Dead letters, oldest first; the next page begins `after` the last id of this one.

        Chosen by a part of their `error` text, by `key`, and by the time of death (`since` … `before`).
        """
        self._catalog.open()
        chosen = bulk.selection(queue, error, key, since, before, fresh=False)
        return self._store.letters.find(
            self._tenant, chosen, checked_count(n), None if after is None else id_bytes(after)
        )

    def get(self, dead_id: str) -> DeadLetterRecord | None:
        """The dead letter of this id; None if there is none."""
        wanted = id_bytes(dead_id)
        self._catalog.open()
        found = self._store.letters.find(self._tenant, Selection(), 1, bulk.just_before(wanted))
        return found[0] if found and found[0].id == id_text(wanted) else None

    def count(
        self,
        queue: str | None = None,
        *,
        error: str | None = None,
        key: str | None = None,
        since: Moment | None = None,
        before: Moment | None = None,
        fresh: bool = False,
    ) -> int:
        """How many there are; with `fresh` only those that `replay_many` would replay."""
        self._catalog.open()
        chosen = bulk.selection(queue, error, key, since, before, fresh)
        return self._store.letters.matching(self._tenant, chosen)[0]

    def replay(self, dead_id: str, *, body: Any = KEPT) -> Receipt:
        """Gives a dead letter another life as a new message, with another `body` if given; once per death.

        A `body` that does not fit the message type of the queue is refused.
        """
        self._catalog.open()
        fresh, raw = new_id(), None if body is KEPT else encode_json(body)
        if raw is not None and (found := self.get(dead_id)) is not None:
            self._parts.types.check_body(found.queue, raw)
        self._store.letters.replay(self._tenant, self._parts.actor, id_bytes(dead_id), fresh, raw)
        return Receipt(fresh)

    def replay_many(
        self,
        queue: str | None = None,
        *,
        error: str | None = None,
        key: str | None = None,
        since: Moment | None = None,
        before: Moment | None = None,
        rate: float | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Replays every chosen dead letter that was not replayed before, at most `rate` per second; how many."""
        self._catalog.open()
        chosen = bulk.selection(queue, error, key, since, before, fresh=True)
        act = (self._store.letters, self._tenant, self._parts.actor, "replay")
        return bulk.act_on_many(*act, chosen, rate, progress)

    def delete(self, dead_id: str) -> bool:
        """Removes one dead letter for good; False if there is none of this id."""
        wanted = id_bytes(dead_id)
        self._catalog.open()
        return self._store.letters.delete(self._tenant, self._parts.actor, wanted)

    def delete_many(
        self,
        queue: str | None = None,
        *,
        error: str | None = None,
        key: str | None = None,
        since: Moment | None = None,
        before: Moment | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Removes every chosen dead letter for good; how many."""
        self._catalog.open()
        chosen = bulk.selection(queue, error, key, since, before, fresh=False)
        act = (self._store.letters, self._tenant, self._parts.actor, "delete")
        return bulk.act_on_many(*act, chosen, None, progress)
