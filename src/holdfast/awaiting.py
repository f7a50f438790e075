"""What an operator does, for asyncio: every call runs on a thread of the client's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from holdfast.core.deadletter import AuditRecord, BlockedKey, DeadLetterRecord
from holdfast.core.duration import Duration
from holdfast.core.message import Message, MessageStatus
from holdfast.core.notice import Notice, OwnerSpec
from holdfast.core.stats import Stats
from holdfast.letters import Moment, Progress
from holdfast.notices import Escalating
from holdfast.operating import KEPT, Operating
from holdfast.receipts import Receipt
from holdfast.threads import Threads

P = ParamSpec("P")
Result = TypeVar("Result")


class Awaiting:
    """Calls run on the client's threads."""

    _threads: Threads

    async def _run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        return await self._threads.work(partial(call, *args, **kwargs))


class AsyncEscalating(Awaiting):
    """Owners and their notices."""

    _hf: Escalating

    async def owner(
        self,
        name: str,
        *,
        inbox: str | None = None,
        owner: str | None = None,
        escalate_after: Duration | None = "15m",
        notify: str = "each",
        digest_every: Duration = "1h",
    ) -> None:
        """Declares who answers for dead letters. See `Holdfast.owner`."""
        await self._run(
            self._hf.owner,
            name,
            inbox=inbox,
            owner=owner,
            escalate_after=escalate_after,
            notify=notify,
            digest_every=digest_every,
        )

    async def owners(self) -> dict[str, OwnerSpec]:
        """Everyone who was declared, by name."""
        return await self._run(self._hf.owners)

    async def report(
        self,
        kind: str,
        about: str,
        error: str | BaseException,
        *,
        owner: str | None = None,
        queue: str | None = None,
    ) -> str:
        """Puts something else than a dead letter before an owner. See `Holdfast.report`."""
        return await self._run(self._hf.report, kind, about, error, owner=owner, queue=queue)

    async def notices(
        self,
        owner: str | None = None,
        *,
        queue: str | None = None,
        acknowledged: bool = False,
        n: int = 100,
        after: str | None = None,
    ) -> list[Notice]:
        """Notices that wait for an answer. See `Holdfast.notices`."""
        call = self._hf.notices
        return await self._run(call, owner, queue=queue, acknowledged=acknowledged, n=n, after=after)

    async def acknowledge(self, *notice_ids: str, remark: str | None = None) -> int:
        """Someone looks after these. See `Holdfast.acknowledge`."""
        return await self._run(self._hf.acknowledge, *notice_ids, remark=remark)

    async def on_notice(self, callback: Callable[[list[Notice]], Any], owner: str | None = None) -> None:
        """Has `callback` told of notices, on a thread, or on this loop if it has to be awaited."""
        if iscoroutinefunction(callback):
            loop = asyncio.get_running_loop()
            self._hf.on_notice(lambda told: asyncio.run_coroutine_threadsafe(callback(told), loop).result(), owner)
        else:
            self._hf.on_notice(callback, owner)

    async def escalate(self) -> int:
        """Passes on notices that nobody answered in time. See `Holdfast.escalate`."""
        return await self._run(self._hf.escalate)


class AsyncOperating(AsyncEscalating):
    """The same, awaited."""

    _hf: Operating

    async def pause(self, queue: str) -> None:
        """No claim gets anything from this queue any more until `resume`."""
        await self._run(self._hf.pause, queue)

    async def resume(self, queue: str) -> None:
        """Ends a pause."""
        await self._run(self._hf.resume, queue)

    async def is_paused(self, queue: str) -> bool:
        """Whether the queue is paused."""
        return await self._run(self._hf.is_paused, queue)

    async def cancel(self, message_id: str) -> bool:
        """Ends a message that is pending or being worked on."""
        return await self._run(self._hf.cancel, message_id)

    async def status(self, message_id: str) -> MessageStatus | None:
        """Where a message is and how often it was tried."""
        return await self._run(self._hf.status, message_id)

    async def search(
        self,
        queue: str | None = None,
        *,
        key: str | None = None,
        correlation_id: str | None = None,
        headers: dict[str, Any] | None = None,
        n: int = 100,
        after: str | None = None,
    ) -> list[MessageStatus]:
        """Messages with this key, correlation id and headers. See `Holdfast.search`."""
        call = self._hf.search
        return await self._run(call, queue, key=key, correlation_id=correlation_id, headers=headers, n=n, after=after)

    async def peek(self, queue: str, n: int = 10) -> list[Message]:
        """The next messages in the order of claiming, without claiming them."""
        return await self._run(self._hf.peek, queue, n)

    async def stats(self, queue: str) -> Stats:
        """How many messages are pending, waiting for their time, being worked on, dead."""
        return await self._run(self._hf.stats, queue)

    async def purge(self, queue: str) -> int:
        """Removes every pending message of a queue; how many."""
        return await self._run(self._hf.purge, queue)

    async def blocked_keys(self, queue: str, n: int = 100) -> list[BlockedKey]:
        """The keys of an `on_dead="block"` queue that wait for a decision, longest first."""
        return await self._run(self._hf.blocked_keys, queue, n)

    async def unblock(self, queue: str, key: str | None = None) -> bool:
        """Lets a blocked key go on without the one that died; False if it was not blocked."""
        return await self._run(self._hf.unblock, queue, key)

    async def dead_letters(
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
        """Dead letters, oldest first. See `Holdfast.dead_letters`."""
        call = self._hf.dead_letters
        return await self._run(call, queue, n=n, after=after, error=error, key=key, since=since, before=before)

    async def find_dead_letter(self, dead_id: str) -> DeadLetterRecord | None:
        """The dead letter of this id; None if there is none."""
        return await self._run(self._hf.find_dead_letter, dead_id)

    async def count_dead_letters(
        self,
        queue: str | None = None,
        *,
        error: str | None = None,
        key: str | None = None,
        since: Moment | None = None,
        before: Moment | None = None,
        fresh: bool = False,
    ) -> int:
        """How many there are. See `Holdfast.count_dead_letters`."""
        call = self._hf.count_dead_letters
        return await self._run(call, queue, error=error, key=key, since=since, before=before, fresh=fresh)

    async def replay(self, dead_id: str, *, body: Any = KEPT) -> Receipt:
        """Gives a dead letter another life as a new message; once per death."""
        return await self._run(self._hf.replay, dead_id, body=body)

    async def replay_many(
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
        """Replays every chosen dead letter. See `Holdfast.replay_many`."""
        call = self._hf.replay_many
        return await self._run(
            call, queue, error=error, key=key, since=since, before=before, rate=rate, progress=progress
        )

    async def delete_dead_letters(
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
        call = self._hf.delete_dead_letters
        return await self._run(call, queue, error=error, key=key, since=since, before=before, progress=progress)

    async def delete_dead_letter(self, dead_id: str) -> bool:
        """Removes one dead letter for good; False if there is none of this id."""
        return await self._run(self._hf.delete_dead_letter, dead_id)

    async def sweep(self, queue: str) -> int:
        """Takes back leases that ended in silence, and more. See `Holdfast.sweep`."""
        return await self._run(self._hf.sweep, queue)

    async def maintain(self) -> int:
        """Sweeps all queues of this tenant once. See `Holdfast.maintain`."""
        return await self._run(self._hf.maintain)

    async def audit(self, n: int = 100, *, before: int | None = None) -> list[AuditRecord]:
        """Who replayed or deleted dead letters, newest first."""
        return await self._run(self._hf.audit, n, before=before)

    @property
    def actor(self) -> str:
        """Who operates."""
        return self._hf.actor
