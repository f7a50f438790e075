"""The way of messages into queues and topics, for asyncio. See `producer`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.client.async_group_commit import AsyncGather
from holdfast.client.compose import EnqueueOptions, listed
from holdfast.client.middleware import await_through, outgoing_of
from holdfast.client.producer import for_groups
from holdfast.client.receipts import Receipt, receipts
from holdfast.client.thread_pool import Threads
from holdfast.client.user_connection import async_driver_connection, is_awaited
from holdfast.core.message import MessageId
from holdfast.core.queue import channel_name
from holdfast.store.api import Topic
from holdfast.store.join import OnLoop
from holdfast.topics.rules import routing

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts
    from holdfast.core.message import Duplicate, NewMessage

Result = TypeVar("Result")


class AsyncProducer:
    """Stores what an asyncio client enqueues and publishes."""

    def __init__(self, parts: ClientParts, threads: Threads) -> None:
        self._producer = parts.producer
        self._catalog = parts.catalog
        self._around_enqueue = parts.around_enqueue.awaited
        self._threads = threads
        self.inserts: AsyncGather[NewMessage, Duplicate | None] = AsyncGather(parts.inserts, threads)

    async def put(self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        around = self._around_enqueue
        if around:
            outgoing = outgoing_of(queue, bodies, options)
            return await await_through(around, partial(self.insert, conn=conn), outgoing)
        return await self.insert(queue, bodies, options, conn)

    async def insert(
        self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any, topic: str | None = None
    ) -> list[Receipt]:
        if conn is not None:
            return await self.within(conn, partial(self._producer.insert, queue, bodies, options, topic=topic))
        known = self._catalog.knows(queue)
        if not known:
            channel_name(queue)
        trial = partial(self._producer.draft, bodies=bodies if known else listed(bodies), options=options, topic=topic)
        find = partial(self._catalog.channel, queue, trial, create=topic is None)
        new = trial(self._catalog.channel(queue) if known else await self._threads.work(find))
        return receipts(new, await self.inserts.call(new)) if new else []

    def hand_in(
        self,
        queue: str,
        body: Any,
        options: EnqueueOptions,
        tell: Callable[[list[Duplicate | None] | BaseException], None],
    ) -> MessageId | None:
        """Hands one message over, if there is nothing to wait for but its commit, and tells of that; its id."""
        channel = self._catalog.known(queue)
        if channel is None or self._around_enqueue:
            return None
        new = self._producer.draft(channel, [body], options)
        self.inserts.put(new, tell)
        return new[0].id

    async def within(self, conn: Any, call: Callable[..., Result]) -> Result:
        """Runs a call in the caller's transaction. A connection that is not awaited stays on the caller's thread."""
        connection = await async_driver_connection(conn)
        if not is_awaited(connection):
            return call(conn=connection)
        place = OnLoop(connection, asyncio.get_running_loop())
        return await self._threads.finish(partial(call, conn=place), place.given_up.set)

    async def publish(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        routing.topic_name(name, "topic")
        around = self._around_enqueue
        if around:
            outgoing = outgoing_of(name, bodies, options)
            return await await_through(around, partial(self.distribute, conn=conn), outgoing)
        return await self.distribute(name, bodies, options, conn)

    async def distribute(self, name: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        find = partial(self._catalog.destination, name)
        owner = self._catalog.known_destination(name)
        if owner is None:
            owner = await self._threads.work(find)
        if not isinstance(owner, Topic):
            return await self.insert(owner, bodies, options, conn, name)
        if conn is not None:
            return await self.within(conn, partial(self._producer.distribute, name, bodies, options))
        new = for_groups(owner, name, bodies, options)
        return receipts(new, await self.inserts.call(new)) if new else []
