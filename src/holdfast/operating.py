"""What an operator does: looks, cancels, pauses, deals with dead letters. (`awaiting` has it for asyncio.)"""

from __future__ import annotations

from typing import Any

from holdfast import letters, limits
from holdfast.budgets import Budgeting
from holdfast.channels import ChannelBook
from holdfast.core.deadletter import AuditRecord, BlockedKey, DeadLetterRecord, Selection
from holdfast.core.message import Message, MessageStatus, encode_json, id_bytes, id_text, plain_text
from holdfast.core.queue import blocked_order_key
from holdfast.core.search import wanted
from holdfast.core.stats import Stats
from holdfast.groups import Grouping
from holdfast.letters import Moment, Progress
from holdfast.limits import checked_count
from holdfast.message_types import MessageTypes
from holdfast.receipts import Receipt
from holdfast.sagas import Orchestrating
from holdfast.schedules import Scheduling
from holdfast.settings import Settings
from holdfast.store.api import Store
from holdfast.store.ids import new_id
from holdfast.transport import Transport

KEPT: Any = object()
"""A body that stays as it was."""


class Operating(Budgeting, Scheduling, Grouping, Orchestrating):
    """The part of a client that needs no claim."""

    settings: Settings
    store: Store
    transport: Transport
    _book: ChannelBook
    _types: MessageTypes

    def pause(self, queue: str) -> None:
        """No claim gets anything from this queue any more, anywhere, until `resume`. Enqueueing goes on.

        When this returns, consumers of this client start no handler of this queue; others stop within a second.
        Running handlers may finish. Messages that were claimed ahead are released, which spends no attempt.
        A group is owed everything meanwhile; one that was counted as dead is alive again.

        >>> hf.pause("emails")
        """
        channel = self._book.channel(queue)
        if channel.source is not None:
            self._beat(channel)
        self.store.channels.pause(channel, True, self.actor)
        self._starts_changed(lambda context: context.claim.lease.group == channel.group)

    def resume(self, queue: str) -> None:
        """Ends a pause; sleeping consumers wake up. A queue whose budget is spent stays paused until there is more."""
        self.store.channels.pause(self._book.channel(queue), False, self.actor)
        self._starts_changed()

    def is_paused(self, queue: str) -> bool:
        """Whether the queue is paused."""
        return self.store.channels.is_paused(self._book.channel(queue))

    def cancel(self, message_id: str) -> bool:
        """Ends a message that is pending or being worked on; False if it had ended or expired before (or never was).

        What was published to a topic cannot be taken back.
        """
        self._book.open()
        return self.store.acts.cancel(self.settings.tenant, id_bytes(message_id))

    def status(self, message_id: str) -> MessageStatus | None:
        """Where a message is and how often it was tried; None if it is unknown, or its history is over."""
        self._book.open()
        return self.store.reads.status(self.settings.tenant, id_bytes(message_id))

    def search(
        self,
        queue: str | None = None,
        *,
        key: str | None = None,
        correlation_id: str | None = None,
        headers: dict[str, Any] | None = None,
        n: int = 100,
        after: str | None = None,
    ) -> list[MessageStatus]:
        """Messages with this key, correlation id and headers, in whatever state, oldest first.

        The next page is `after` the last id of this one. By headers alone, every message of the queue is read.
        """
        self._book.open()
        chosen = wanted(queue, key, correlation_id, headers)
        return self.store.reads.search(
            self.settings.tenant, chosen, checked_count(n), id_bytes(after) if after is not None else None
        )

    def peek(self, queue: str, n: int = 10) -> list[Message]:
        """The next messages in the order of claiming, without claiming them."""
        limit = checked_count(n)
        return self._types.dress_messages(queue, self.store.reads.peek(self._book.channel(queue), limit))

    def stats(self, queue: str) -> Stats:
        """How many messages are pending, waiting for their time, being worked on, dead."""
        return self.store.reads.stats(self._book.channel(queue))

    def purge(self, queue: str) -> int:
        """Removes every pending message of a queue; how many. Claims in progress are left alone.

        A group passes by what it has not claimed yet; its topic keeps it for the others.
        """
        return self.store.acts.purge(self._book.channel(queue), self.actor)

    def blocked_keys(self, queue: str, n: int = 100) -> list[BlockedKey]:
        """The keys of an `on_dead="block"` queue that wait for a decision, longest first."""
        limit = checked_count(n)
        return self.store.reads.blocked(self._book.channel(queue), limit)

    def unblock(self, queue: str, key: str | None = None) -> bool:
        """Lets a blocked key go on without the one that died; False if it was not blocked. (Replaying unblocks too.)"""
        order_key = blocked_order_key(plain_text(key, "key"))
        return self.store.acts.unblock(self._book.channel(queue), order_key)

    def dead_letters(
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
        self._book.open()
        chosen = letters.selection(queue, error, key, since, before, fresh=False)
        return self.store.letters.find(
            self.settings.tenant, chosen, checked_count(n), None if after is None else id_bytes(after)
        )

    def find_dead_letter(self, dead_id: str) -> DeadLetterRecord | None:
        """The dead letter of this id; None if there is none."""
        wanted = id_bytes(dead_id)
        self._book.open()
        found = self.store.letters.find(self.settings.tenant, Selection(), 1, letters.just_before(wanted))
        return found[0] if found and found[0].id == id_text(wanted) else None

    def count_dead_letters(
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
        self._book.open()
        chosen = letters.selection(queue, error, key, since, before, fresh)
        return self.store.letters.matching(self.settings.tenant, chosen)[0]

    def replay(self, dead_id: str, *, body: Any = KEPT) -> Receipt:
        """Gives a dead letter another life as a new message, with another `body` if given; once per death.

        A `body` that does not fit the message type of the queue is refused.
        """
        self._book.open()
        fresh, raw = new_id(), None if body is KEPT else encode_json(body)
        if raw is not None and (found := self.find_dead_letter(dead_id)) is not None:
            self._types.check_body(found.queue, raw)
        self.store.letters.replay(self.settings.tenant, self.actor, id_bytes(dead_id), fresh, raw)
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
        self._book.open()
        chosen = letters.selection(queue, error, key, since, before, fresh=True)
        return letters.act_on_many(
            self.store.letters, self.settings.tenant, self.actor, "replay", chosen, rate, progress
        )

    def delete_dead_letters(
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
        self._book.open()
        chosen = letters.selection(queue, error, key, since, before, fresh=False)
        return letters.act_on_many(
            self.store.letters, self.settings.tenant, self.actor, "delete", chosen, None, progress
        )

    def delete_dead_letter(self, dead_id: str) -> bool:
        """Removes one dead letter for good; False if there is none of this id."""
        wanted = id_bytes(dead_id)
        self._book.open()
        return self.store.letters.delete(self.settings.tenant, self.actor, wanted)

    def sweep(self, queue: str) -> int:
        """Takes back leases that ended in silence, ends messages past their time, and removes what was kept long enough
        (history, results, idempotency keys, dead letters); how much it did. One call does a bounded part of it.

        Every client that claims does this by itself, now and then; calling it is never needed and always safe.
        """
        return self.store.messages.sweep(self._book.channel(queue), limits.SWEEP_LIMIT)

    def maintain(self) -> int:
        """Sweeps all queues and groups once, removes what topics need not keep, looks whether groups are alive, looks
        after notices, fires schedules, advances sagas, forgets dead consumers and old receipts of commands.

        How much it found to do, of this tenant.

        For queues that nobody claims from, and for those who like to do it by hand: `while hf.maintain(): pass`.
        """
        self._book.open()
        due = self.store.upkeep.due(self._book.readers())
        swept = sum(self.store.messages.sweep(channel, limits.SWEEP_LIMIT) for channel in due)
        forgotten = self.store.crew.forget(self.settings.tenant, limits.SWEEP_LIMIT)
        forgotten += self.store.replies.forget(self.settings.tenant, limits.SWEEP_LIMIT)
        forgotten += self.store.commands.forget(self.settings.tenant, limits.SWEEP_LIMIT)
        topics = self._watch_groups() + self._retain() + self.transport.reconcile(self._book.readers())
        return swept + topics + self.escalate() + self.fire_schedules() + self.advance_sagas() + forgotten

    def audit(self, n: int = 100, *, before: int | None = None) -> list[AuditRecord]:
        """What operators did, and to how many, newest first; the next page is `before` the last id of this one."""
        self._book.open()
        return self.store.letters.audit(self.settings.tenant, checked_count(n), letters.record(before, "before"))
