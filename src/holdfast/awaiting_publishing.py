"""Topics for asyncio. See `publishing`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.awaiting import Awaiting, awaited
from holdfast.core import priority as priorities
from holdfast.core import routing
from holdfast.core.duration import Duration
from holdfast.core.given import KEPT, Default, Kept
from holdfast.drafting import EnqueueOptions, Key
from holdfast.outgoing import AsyncSending, await_through, outgoing_of
from holdfast.publishing import Publishing, for_groups
from holdfast.receipts import Receipt, one_for_each, receipts
from holdfast.store.api import Topic

if TYPE_CHECKING:
    from holdfast.awaiting_gather import AsyncGather
    from holdfast.core.message import Duplicate, NewMessage


class AsyncPublishing(Awaiting, AsyncSending):
    """The part of a client that knows topics. See `Publishing`."""

    _hf: Publishing
    _inserts: AsyncGather[NewMessage, Duplicate | None]
    _insert: Callable[..., Coroutine[Any, Any, list[Receipt]]]
    _within: Callable[..., Coroutine[Any, Any, list[Receipt]]]

    async def topic(self, name: str, *, mode: str | Default | Kept = KEPT, **settings: Any) -> None:
        """Declares a topic, or changes settings of one. See `Holdfast.topic`."""
        await self._run(self._hf.topic, name, mode=mode, **settings)

    topics = awaited(Publishing.topics)
    subscribe = awaited(Publishing.subscribe)
    unsubscribe = awaited(Publishing.unsubscribe)

    async def publish(
        self,
        topic: str,
        body: Any,
        *,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        conn: Any = None,
    ) -> Receipt:
        """Stores one message for every group of a topic. See `Holdfast.publish`."""
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=idempotency_key,
        )
        return (await self._publish(topic, [body], options, conn))[0]

    async def publish_many(
        self,
        topic: str,
        bodies: Iterable[Any],
        *,
        priority: int | str = priorities.NORMAL,
        key: Key = None,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: Callable[[Any], str | None] | None = None,
        conn: Any = None,
    ) -> list[Receipt]:
        """Publishes many messages in one transaction: all of them or none. See `Holdfast.publish_many`."""
        options = EnqueueOptions(
            priority=priority,
            key=key,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=one_for_each(idempotency_key),
        )
        return await self._publish(topic, bodies, options, conn)

    async def _publish(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        routing.topic_name(name, "topic")
        around = self._hf._awaited_around_enqueue
        if around:
            outgoing = outgoing_of(name, bodies, options)
            return await await_through(around, partial(self._distribute, conn=conn), outgoing)
        return await self._distribute(name, bodies, options, conn)

    async def _distribute(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        book = self._hf._book
        owner = book.known_destination(name) or await self._run(book.destination, name)
        if not isinstance(owner, Topic):
            return await self._insert(owner, bodies, options, conn, name)
        if conn is not None:
            return await self._within(conn, partial(self._hf._distribute, name, bodies, options))
        new = for_groups(owner, name, bodies, options)
        return receipts(new, await self._inserts.call(new)) if new else []
