"""Queues for users: declared, paused, looked at, purged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.client.namespace import Namespace
from holdfast.client.validate import SWEEP_LIMIT, checked_count
from holdfast.core.dead_letter import BlockedKey
from holdfast.core.message import Message, plain_text
from holdfast.core.queue import QueueSettings, blocked_order_key, queue_change
from holdfast.notices.client import mention_inbox
from holdfast.store.api import Channel
from holdfast.topics.rules.declaration import settings_of

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts


def declare_queue(parts: ClientParts, name: str, settings: QueueSettings) -> None:
    """See `Holdfast.queue`."""
    parts.catalog.declare(name, queue_change(settings, parts.settings.delivery))
    parts.starts.changed()
    parts.types.declare_given(name, settings)
    mention_inbox(parts.store, parts.settings.tenant, f"queue {name!r}", settings.get("owner"))


def pause(parts: ClientParts, channel: Channel) -> None:
    """Pauses a queue or a group."""
    if channel.source is not None:
        parts.groups.beat(channel)
    parts.store.channels.pause(channel, True, parts.actor)
    parts.starts.changed(lambda context: context.claim.lease.group == channel.group)


def resume(parts: ClientParts, channel: Channel) -> None:
    """Ends a pause of a queue or a group."""
    parts.store.channels.pause(channel, False, parts.actor)
    parts.starts.changed()


class Queues(Namespace):
    """`hf.queues`: operates queues. Where a queue is asked for, the address of a group ("orders/email") will do."""

    def settings(self, name: str) -> dict[str, Any]:
        """Return all settings of a queue as stored, in the words of `hf.queue`; durations are seconds.

        The address of a group ("orders/email") returns those of `hf.subscribe`, the name of a topic those of
        `hf.topic`. Raises `UnknownQueue` if there is none of this name.

        >>> hf.queue("emails", lease="2m")
        >>> hf.queues.settings("emails")["lease"]
        120.0
        """
        return settings_of(self._catalog.settings(name))

    def pause(self, queue: str) -> None:
        """No claim gets anything from this queue any more, anywhere, until `resume`. Enqueueing goes on.

        When this returns, consumers of this client start no handler of this queue; others stop within a second.
        Running handlers may finish. Messages that were claimed ahead are released, which spends no attempt.
        A group is owed everything meanwhile; one that was counted as dead is alive again.

        >>> hf.queues.pause("emails")
        """
        pause(self._parts, self._catalog.channel(queue))

    def resume(self, queue: str) -> None:
        """Ends a pause; sleeping consumers wake up. A queue whose budget is spent stays paused until there is more."""
        resume(self._parts, self._catalog.channel(queue))

    def is_paused(self, queue: str) -> bool:
        """Whether the queue is paused."""
        return self._store.channels.is_paused(self._catalog.channel(queue))

    def peek(self, queue: str, n: int = 10) -> list[Message]:
        """The next messages in the order of claiming, without claiming them."""
        limit = checked_count(n)
        return self._parts.types.dress_messages(queue, self._store.reads.peek(self._catalog.channel(queue), limit))

    def purge(self, queue: str) -> int:
        """Removes every pending message of a queue; how many. Claims in progress are left alone.

        A group passes by what it has not claimed yet; its topic keeps it for the others.
        """
        return self._store.acts.purge(self._catalog.channel(queue), self._parts.actor)

    def blocked(self, queue: str, n: int = 100) -> list[BlockedKey]:
        """The keys of an `on_dead="block"` queue that wait for a decision, longest first."""
        limit = checked_count(n)
        return self._store.reads.blocked(self._catalog.channel(queue), limit)

    def unblock(self, queue: str, key: str | None = None) -> bool:
        """Lets a blocked key go on without the one that died; False if it was not blocked. (Replaying unblocks too.)"""
        order_key = blocked_order_key(plain_text(key, "key"))
        return self._store.acts.unblock(self._catalog.channel(queue), order_key)

    def budget(self, queue: str) -> float:
        """How much the messages of a queue have spent together, since the beginning or the last `reset_budget`."""
        return self._store.efforts.spent(self._catalog.channel(queue))

    def reset_budget(self, queue: str) -> float:
        """The queue has spent nothing from now on; how much it was. Who did it stands in the audit.

        A queue that was paused because its budget was spent stays so until `resume`.
        """
        before = self._store.efforts.reset(self._catalog.channel(queue), self._parts.actor)
        self._parts.starts.changed()
        return before

    def sweep(self, queue: str) -> int:
        """Takes back leases that ended in silence, ends messages past their time, and removes what was kept long enough
        (history, results, idempotency keys, dead letters); how much it did. One call does a bounded part of it.

        Every client that claims does this by itself, now and then; calling it is never needed and always safe.
        """
        return self._store.messages.sweep(self._catalog.channel(queue), SWEEP_LIMIT)

    def list(self) -> list[str]:
        """The names of all declared queues of this tenant."""
        self._catalog.open()
        return self._store.channels.names(self._tenant)
