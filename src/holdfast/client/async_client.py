"""AsyncHoldfast: the same names for asyncio. No rule and no SQL of its own.

Every call runs on a small pool of threads over the one implementation. Enqueues and settlements that are awaited at the
same time are handed over together, so that a thousand of them cost one commit and one change of thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from holdfast.client import async_namespaces
from holdfast.client import settlements as settling
from holdfast.client.async_group_commit import AsyncGather
from holdfast.client.async_producer import AsyncProducer
from holdfast.client.async_run import AsyncRunning
from holdfast.client.awaited import Awaiting, awaited
from holdfast.client.claim import Claim
from holdfast.client.client import Holdfast, internals, to_run
from holdfast.client.compose import EnqueueOptions, Key
from holdfast.client.declared_consumers import GRACE
from holdfast.client.middleware import AroundEnqueue
from holdfast.client.receipts import Receipt, one_for_each
from holdfast.client.thread_pool import Threads
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration, seconds
from holdfast.core.given import KEPT, Default, KeptSentinel
from holdfast.core.message import Lease, Message
from holdfast.core.settlement import Settlement
from holdfast.errors import InvalidInput
from holdfast.events import Happened
from holdfast.notices.rules import Notice
from holdfast.replies import async_client
from holdfast.replies.client import PATIENCE
from holdfast.settings import Settings
from holdfast.sqs.rules.names import PREFIX

if TYPE_CHECKING:
    from holdfast.client.parts import ClientParts
    from holdfast.worker.consumer import Consumer, ConsumerOptions, Handler, Middleware
    from holdfast.worker.pools.pool import Pool, PoolOptions
    from holdfast.worker.runner import Runner
    from holdfast.worker.sd_notify import Notifier

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])
AroundFunction = TypeVar("AroundFunction", bound=AroundEnqueue)


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


class AsyncParts:
    """What an asyncio client consists of beside the parts of the client whose verbs it awaits."""

    def __init__(self, hf: Holdfast, threads: Threads) -> None:
        self.hf = hf
        self.parts: ClientParts = internals(hf)
        self.threads = threads
        self.producer = AsyncProducer(self.parts, threads)
        self.settlements = AsyncGather(self.parts.settlements, threads)


class AsyncHoldfast(Awaiting[Holdfast]):
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
        super().__init__(hf, threads)
        own = self._parts = AsyncParts(hf, threads)
        self._producer, self._settlements = own.producer, own.settlements
        self.queues = async_namespaces.AsyncQueues(hf.queues, threads)
        self.messages = async_namespaces.AsyncMessages(hf.messages, threads)
        self.dead_letters = async_namespaces.AsyncDeadLetters(hf.dead_letters, threads)
        self.topics = async_namespaces.AsyncTopics(hf.topics, threads)
        self.groups = async_namespaces.AsyncGroups(hf.groups, threads)
        self.sagas = async_namespaces.AsyncSagas(hf.sagas, threads)
        self.schedules = async_namespaces.AsyncSchedules(hf.schedules, threads)
        self.notices = async_namespaces.AsyncNotices(hf.notices, threads)
        self.consumers = async_namespaces.AsyncConsumers(hf.consumers, threads)
        self.pools = async_namespaces.AsyncPools(hf.pools, threads)
        self.commands = async_namespaces.AsyncCommands(hf.commands, threads, own.parts)
        self.audit = async_namespaces.AsyncAudit(hf.audit, threads)

    @property
    def settings(self) -> Settings:
        """What this client was told when it was made."""
        return self._sync.settings

    @property
    def worker(self) -> str:
        """Who claims."""
        return self._sync.worker

    @property
    def actor(self) -> str:
        """The name that operations are recorded under."""
        return self._sync.actor

    # --- declare ------------------------------------------------------------------------------------------------------

    queue = awaited(Holdfast.queue)
    subscribe = awaited(Holdfast.subscribe)
    schedule = awaited(Holdfast.schedule)
    saga = awaited(Holdfast.saga)
    owner = awaited(Holdfast.owner)

    async def topic(self, name: str, *, mode: str | Default | KeptSentinel = KEPT, **settings: Any) -> None:
        """Declares a topic, or changes settings of one. See `Holdfast.topic`."""
        await self._threads.work(partial(self._sync.topic, name, mode=mode, **settings))

    def consumer(self, *queues: str, **options: Unpack[ConsumerOptions]) -> Callable[[Handler], Consumer]:
        """Makes a function the handler of these queues' messages. See `Holdfast.consumer`."""
        return self._sync.consumer(*queues, **options)

    def subscriber(
        self,
        *patterns: str,
        group: str,
        topic: str | None = None,
        start: str | float | datetime = "latest",
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[Handler], Consumer]:
        """Makes a function the handler of what a group of a topic gets. See `Holdfast.subscriber`."""
        return self._sync.subscriber(*patterns, group=group, topic=topic, start=start, **options)

    def pool(self, consumer: Consumer | str, **options: Unpack[PoolOptions]) -> Pool:
        """Runs several of a consumer, as many as its queues need. See `Holdfast.pool`."""
        return self._sync.pool(consumer, **options)

    def command(self, name: str) -> Callable[[CommandFunction], CommandFunction]:
        """Makes a function the command of this name. See `Holdfast.command`."""
        return self._sync.command(name)

    # --- put in -------------------------------------------------------------------------------------------------------

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
        return (await self._producer.put(queue, [body], options, conn))[0]

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
        return await self._producer.put(queue, bodies, options, conn)

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
        return (await self._producer.publish(topic, [body], options, conn))[0]

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
        return await self._producer.publish(topic, bodies, options, conn)

    async def ask(
        self,
        queue: str,
        body: Any,
        *,
        timeout: Duration = PATIENCE,
        priority: int | str = priorities.NORMAL,
        key: str | None = None,
        headers: dict[str, Any] | None = None,
        expires: bool = True,
    ) -> Any:
        """Enqueues a message and waits for what its handler answers. See `Holdfast.ask`."""
        return await async_client.ask(self._parts, queue, body, timeout, priority, key, headers, expires)

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
        call = partial(self._sync.start_saga, name, data, id=id, delay=delay)
        return await (self._threads.work(call) if conn is None else self._producer.within(conn, call))

    signal = awaited(Holdfast.signal)

    # --- take out and settle ------------------------------------------------------------------------------------------

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
        call = partial(self._sync.claim, *queues, group=group, n=n, lease=lease, wait=wait, ack=_plain(ack))
        claims = await self._threads.sleep(call, undo=self._sync.release)
        return [AsyncClaim(self, claim) for claim in claims]

    async def ack(self, claims: AsyncClaims, result: Any = None, *, conn: Any = None) -> None:
        """Ends claims: the work is done; with `conn`, when your transaction commits."""
        held = _plain(claims)
        if conn is not None:
            await self._producer.within(conn, partial(self._sync.ack, held, result))
        else:
            await self._settle(held, settling.acked(held, result))

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
        await self._settle(held, settling.nacked(held, error, delay, permanent))

    async def release(self, claims: AsyncClaims) -> None:
        """Ends claims as if they had never been."""
        held = _plain(claims)
        await self._settle(held, settling.released(held))

    async def snooze(self, claims: AsyncClaims, delay: Duration) -> None:
        """Ends claims for now: claimable again after `delay`, no attempt spent."""
        held = _plain(claims)
        await self._settle(held, settling.snoozed(held, delay))

    async def dead_letter(self, claims: AsyncClaims, error: str | BaseException) -> None:
        """Ends claims for good."""
        await self.nack(claims, error, permanent=True)

    async def extend(self, claims: AsyncClaims, duration: Duration | None = None) -> None:
        """Renews leases for `duration` from now."""
        await self._threads.work(partial(self._sync.extend, _plain(claims), duration))

    # --- look ---------------------------------------------------------------------------------------------------------

    status = awaited(Holdfast.status)
    cancel = awaited(Holdfast.cancel)
    stats = awaited(Holdfast.stats)

    # --- run consumers ------------------------------------------------------------------------------------------------

    async def run(self, *consumers: Consumer | str, grace: Duration = GRACE) -> None:
        """Works until SIGTERM, Ctrl-C or `stop()`. See `Holdfast.run`."""
        await async_run_and_notify(self, consumers, grace)

    def running(self, *consumers: Consumer | str, grace: Duration = GRACE) -> AsyncRunning:
        """Works until the end of an `async with` block. See `Holdfast.running`."""
        return AsyncRunning(self._sync, to_run(self._sync, consumers), seconds(grace, "grace"))

    def stop(self) -> None:
        """Makes `run` stop."""
        self._sync.stop()

    maintain = awaited(Holdfast.maintain)

    # --- be told, and take part ---------------------------------------------------------------------------------------

    def on(self, kind: type[Happened], callback: Callable[[Happened], object]) -> None:
        """Calls this whenever something of that kind happens. See `Holdfast.on`."""
        self._sync.on(kind, callback)

    async def on_notice(self, callback: Callable[[list[Notice]], Any], owner: str | None = None) -> None:
        """Calls `callback` with notices, on a thread, or on this loop if it is an `async def`."""
        if iscoroutinefunction(callback):
            loop = asyncio.get_running_loop()
            self._sync.on_notice(lambda told: asyncio.run_coroutine_threadsafe(callback(told), loop).result(), owner)
        else:
            self._sync.on_notice(callback, owner)

    def around_enqueue(self, middleware: AroundFunction) -> AroundFunction:
        """Runs a function around every enqueue of this client. See `Holdfast.around_enqueue`."""
        return self._sync.around_enqueue(middleware)

    def around_execute(self, middleware: Middleware) -> Middleware:
        """Runs a function around every handler. See `Holdfast.around_execute`."""
        return self._sync.around_execute(middleware)

    # --- connections --------------------------------------------------------------------------------------------------

    def acting_as(self, actor: str | None = None, *, tenant: str | None = None) -> AsyncHoldfast:
        """A client over the same connections, in another name or for another tenant. See `Holdfast.acting_as`."""
        other = AsyncHoldfast.__new__(AsyncHoldfast)
        other._adopt(self._sync.acting_as(actor, tenant=tenant), self._threads)
        return other

    async def close(self) -> None:
        """Closes every connection."""
        await self._threads.work(self._sync.close)
        self._threads.close()

    async def __aenter__(self) -> AsyncHoldfast:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _settle(self, claims: list[Claim], settlements: list[Settlement]) -> None:
        with settling.Attempt(claims, settlements) as attempt:
            attempt.note(await self._settlements.call(attempt.asks) if attempt.asks else [])
        if attempt.lost:
            await self._threads.sleep(attempt.refuse, undo=lambda _: None)


def asynchronous(hf: Holdfast) -> AsyncHoldfast:
    """The same client for asyncio: one store, one set of consumers, message types and functions around."""
    client = AsyncHoldfast.__new__(AsyncHoldfast)
    client._adopt(hf, Threads(hf.settings.patience))
    return client


def async_internals(client: AsyncHoldfast) -> AsyncParts:
    """Return what an asyncio client is made of. Not public; see `holdfast.client.client.internals`."""
    return client._parts


async def async_run_and_notify(
    client: AsyncHoldfast, consumers: Sequence[Consumer | str], grace: Duration, notifier: Notifier | None = None
) -> Runner:
    """Run consumers as `AsyncHoldfast.run` does, and tell a supervisor of it; what ran them."""
    from holdfast.worker.signals import Signals

    running = client.running(*consumers, grace=grace)
    runner = running.prepare()
    runner.notifier = notifier or runner.notifier
    with Signals(runner.on_signal):  # From before the first handler runs.
        async with running:
            runner.tell_ready()
            await running.wait()
    return runner


def _plain(claims: AsyncClaims) -> list[Claim]:
    held = list(claims) if isinstance(claims, Iterable) else [claims]
    if not all(isinstance(claim, AsyncClaim) for claim in held):
        raise InvalidInput("expected claims, as hf.claim() returns them")
    return [claim.claim for claim in held]
