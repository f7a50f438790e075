"""AsyncHoldfast: the same names for asyncio. No rule and no SQL of its own.

Every call runs on a small pool of threads over the one implementation. Enqueues and settlements that are awaited at the
same time are handed over together, so that a thousand of them cost one commit and one change of thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from holdfast import endings
from holdfast.awaiting import AsyncOperating, awaited
from holdfast.awaiting_answers import AsyncAsking
from holdfast.awaiting_commands import AsyncCommanding
from holdfast.awaiting_consumers import AsyncConsuming
from holdfast.awaiting_gather import AsyncGather
from holdfast.awaiting_publishing import AsyncPublishing
from holdfast.claims import Claim
from holdfast.client import Holdfast
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration
from holdfast.core.message import Duplicate, Lease, Message, MessageId
from holdfast.core.queue import channel_name
from holdfast.core.settlement import Settlement
from holdfast.core.sqs_names import PREFIX
from holdfast.drafting import EnqueueOptions, Key, listed
from holdfast.errors import InvalidInput
from holdfast.joining import async_driver_connection, is_awaited
from holdfast.outgoing import await_through, outgoing_of
from holdfast.receipts import Receipt, one_for_each, receipts
from holdfast.store.joining import OnLoop
from holdfast.threads import Threads

Result = TypeVar("Result")


class AsyncClaim:
    """A claim whose endings are awaited. See `Claim`."""

    __slots__ = ("_client", "claim")

    def __init__(self, client: AsyncHoldfast, claim: Claim) -> None:
        self._client = client
        self.claim = claim

    @property
    def message(self) -> Message:
        """The message."""
        return self.claim.message

    @property
    def attempt(self) -> int:
        """1 for the first attempt."""
        return self.claim.attempt

    @property
    def lease(self) -> Lease:
        """The right to work on it, and until when."""
        return self.claim.lease

    @property
    def queue(self) -> str:
        """The name of the queue that it came from."""
        return self.claim.queue

    async def ack(self, result: Any = None, *, conn: Any = None) -> None:
        """The work is done."""
        await self._client.ack(self, result, conn=conn)

    async def nack(
        self, error: str | BaseException = "", *, delay: Duration | None = None, permanent: bool = False
    ) -> None:
        """The work failed."""
        await self._client.nack(self, error, delay=delay, permanent=permanent)

    async def extend(self, duration: Duration | None = None) -> None:
        """Keeps the lease for another `duration` from now."""
        await self._client.extend(self, duration)

    async def release(self) -> None:
        """Hands it back at once, as if it had never been claimed."""
        await self._client.release(self)

    async def snooze(self, delay: Duration) -> None:
        """Hands it back for later; no attempt is spent."""
        await self._client.snooze(self, delay)

    async def dead_letter(self, error: str | BaseException) -> None:
        """Gives up on it now."""
        await self._client.dead_letter(self, error)

    def __repr__(self) -> str:
        return f"Async{self.claim!r}"


AsyncClaims = AsyncClaim | Iterable[AsyncClaim]


class AsyncHoldfast(
    AsyncOperating,
    AsyncConsuming,
    AsyncPublishing,
    AsyncAsking,
    AsyncCommanding,
):
    """Holdfast for asyncio.

    >>> async def main():
    ...     async with AsyncHoldfast("sqlite:///work.db") as hf:
    ...         await hf.enqueue("emails", {"to": "a@b.c"})
    ...         for claim in await hf.claim("emails", n=10):
    ...             await claim.ack()
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = "default",
        strict: bool = False,
        worker: str | None = None,
        migrate: bool = True,
        patience: float = 60.0,
        sweep_every: float = 1.0,
        clock: Callable[[], int] | None = None,
        actor: str | None = None,
        delivery: str = "database",
        sqs_prefix: str = PREFIX,
        sqs_create: bool = False,
    ) -> None:
        sync = Holdfast(
            url,
            tenant=tenant,
            strict=strict,
            worker=worker,
            migrate=migrate,
            patience=patience,
            sweep_every=sweep_every,
            clock=clock,
            actor=actor,
            delivery=delivery,
            sqs_prefix=sqs_prefix,
            sqs_create=sqs_create,
        )
        self._adopt(sync, Threads(sync.settings.patience))

    def _adopt(self, hf: Holdfast, threads: Threads) -> None:
        self._hf: Holdfast = hf
        self.settings = hf.settings
        self._threads = threads
        self._inserts = AsyncGather(hf._inserts, threads)
        self._settlements = AsyncGather(hf._settlements, threads)

    @property
    def worker(self) -> str:
        """Who claims."""
        return self._hf.worker

    queue = awaited(Holdfast.queue)
    queue_settings = awaited(Holdfast.queue_settings)
    queues = awaited(Holdfast.queues)

    async def enqueue(
        self,
        queue: str,
        body: Any,
        *,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        delay: Duration = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: str | None = None,
        budget: float | None = None,
        commitments: Sequence[Any] | None = None,
        conn: Any = None,
    ) -> Receipt:
        """Stores one message; when this returns, it survives a crash. See `Holdfast.enqueue`."""
        options = EnqueueOptions(
            priority=priority,
            key=key,
            delay=delay,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=idempotency_key,
            budget=budget,
            commitments=commitments,
        )
        return (await self._put(queue, [body], options, conn))[0]

    async def enqueue_many(
        self,
        queue: str,
        bodies: Iterable[Any],
        *,
        priority: int | str = priorities.NORMAL,
        key: Key = None,
        delay: Duration = 0,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        reply_to: str | None = None,
        ttl: Duration | None = None,
        idempotency_key: Callable[[Any], str | None] | None = None,
        budget: float | None = None,
        commitments: Sequence[Any] | None = None,
        conn: Any = None,
    ) -> list[Receipt]:
        """Stores many messages in one transaction: all of them or none. See `Holdfast.enqueue_many`."""
        options = EnqueueOptions(
            priority=priority,
            key=key,
            delay=delay,
            headers=headers,
            correlation_id=correlation_id,
            reply_to=reply_to,
            ttl=ttl,
            idempotency_key=one_for_each(idempotency_key),
            budget=budget,
            commitments=commitments,
        )
        return await self._put(queue, bodies, options, conn)

    async def claim(
        self,
        *queues: str,
        group: str | None = None,
        n: int = 1,
        lease: Duration | None = None,
        wait: Duration = 0,
        ack: AsyncClaims = (),
    ) -> list[AsyncClaim]:
        """Takes up to `n` messages, waiting up to `wait` for the first one. See `Holdfast.claim`."""
        call = partial(self._hf.claim, *queues, group=group, n=n, lease=lease, wait=wait, ack=_plain(ack))
        claims = await self._threads.sleep(call, undo=self._hf.release)
        return [AsyncClaim(self, claim) for claim in claims]

    async def ack(self, claims: AsyncClaims, result: Any = None, *, conn: Any = None) -> None:
        """Ends claims: the work is done; with `conn`, when your transaction commits."""
        held = _plain(claims)
        if conn is not None:
            await self._within(conn, partial(self._hf.ack, held, result))
        else:
            await self._settle(held, endings.acked(held, result))

    async def nack(
        self,
        claims: AsyncClaims,
        error: str | BaseException = "",
        *,
        delay: Duration | None = None,
        permanent: bool = False,
    ) -> None:
        """Ends claims: the work failed."""
        held = _plain(claims)
        await self._settle(held, endings.nacked(held, error, delay, permanent))

    async def release(self, claims: AsyncClaims) -> None:
        """Ends claims as if they had never been."""
        held = _plain(claims)
        await self._settle(held, endings.released(held))

    async def snooze(self, claims: AsyncClaims, delay: Duration) -> None:
        """Ends claims for now: claimable again after `delay`, no attempt spent."""
        held = _plain(claims)
        await self._settle(held, endings.snoozed(held, delay))

    async def dead_letter(self, claims: AsyncClaims, error: str | BaseException) -> None:
        """Ends claims for good."""
        await self.nack(claims, error, permanent=True)

    async def extend(self, claims: AsyncClaims, duration: Duration | None = None) -> None:
        """Renews leases for `duration` from now."""
        await self._run(self._hf.extend, _plain(claims), duration)

    async def start_saga(
        self,
        name: str,
        data: dict[str, Any] | None = None,
        *,
        id: str | None = None,
        delay: Duration = 0,
        conn: Any = None,
    ) -> str:
        """Starts a saga and returns its id. See `Holdfast.start_saga`."""
        call = partial(self._hf.start_saga, name, data, id=id, delay=delay)
        return await (self._run(call) if conn is None else self._within(conn, call))

    def acting_as(self, actor: str | None = None, *, tenant: str | None = None) -> AsyncHoldfast:
        """A client over the same connections, in another name or for another tenant. See `Holdfast.acting_as`."""
        other = AsyncHoldfast.__new__(AsyncHoldfast)
        other._adopt(self._hf.acting_as(actor, tenant=tenant), self._threads)
        return other

    async def close(self) -> None:
        """Closes every connection."""
        await self._run(self._hf.close)
        self._threads.close()

    async def __aenter__(self) -> AsyncHoldfast:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _put(self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any) -> list[Receipt]:
        around = self._hf._awaited_around_enqueue
        if around:
            outgoing = outgoing_of(queue, bodies, options)
            return await await_through(around, partial(self._insert, conn=conn), outgoing)
        return await self._insert(queue, bodies, options, conn)

    async def _insert(
        self, queue: str, bodies: Iterable[Any], options: EnqueueOptions, conn: Any, topic: str | None = None
    ) -> list[Receipt]:
        if conn is not None:
            return await self._within(conn, partial(self._hf._insert, queue, bodies, options, topic=topic))
        book = self._hf._book
        known = book.knows(queue)
        if not known:
            channel_name(queue)
        trial = partial(self._hf._draft, bodies=bodies if known else listed(bodies), options=options, topic=topic)
        find = partial(book.channel, queue, trial, create=topic is None)
        new = trial(book.channel(queue) if known else await self._run(find))
        return receipts(new, await self._inserts.call(new)) if new else []

    def _hand_in(
        self,
        queue: str,
        body: Any,
        options: EnqueueOptions,
        tell: Callable[[list[Duplicate | None] | BaseException], None],
    ) -> MessageId | None:
        """Hands one message over, if there is nothing to wait for but its commit, and tells of that; its id."""
        channel = self._hf._book.known(queue)
        if channel is None or self._hf._awaited_around_enqueue:
            return None
        new = self._hf._draft(channel, [body], options)
        self._inserts.put(new, tell)
        return new[0].id

    async def _within(self, conn: Any, call: Callable[..., Result]) -> Result:
        """Runs a call in the caller's transaction. A connection that is not awaited stays on the caller's thread."""
        connection = await async_driver_connection(conn)
        if not is_awaited(connection):
            return call(conn=connection)
        place = OnLoop(connection, asyncio.get_running_loop())
        return await self._threads.finish(partial(call, conn=place), place.given_up.set)

    async def _settle(self, claims: list[Claim], settlements: list[Settlement]) -> None:
        with endings.Attempt(claims, settlements) as attempt:
            attempt.note(await self._settlements.call(attempt.asks) if attempt.asks else [])
        if attempt.lost:
            await self._threads.sleep(attempt.refuse, undo=lambda _: None)


def asynchronous(hf: Holdfast) -> AsyncHoldfast:
    """The same client for asyncio: one store, one set of consumers, message types and functions around."""
    client = AsyncHoldfast.__new__(AsyncHoldfast)
    client._adopt(hf, Threads(hf.settings.patience))
    return client


def _plain(claims: AsyncClaims) -> list[Claim]:
    held = list(claims) if isinstance(claims, Iterable) else [claims]
    if not all(isinstance(claim, AsyncClaim) for claim in held):
        raise InvalidInput("expected claims, as hf.claim() returns them")
    return [claim.claim for claim in held]
