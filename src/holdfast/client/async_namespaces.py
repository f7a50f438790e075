"""The namespaces of the asyncio client: the names and arguments of the synchronous ones, awaited."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from holdfast.audit.client import Audit
from holdfast.client.awaited import Awaiting, awaited
from holdfast.client.parts import ClientParts
from holdfast.client.thread_pool import SLEEPERS, Threads
from holdfast.commands import async_run
from holdfast.commands import run as command_run
from holdfast.commands.client import Commands
from holdfast.commands.rules import Command
from holdfast.consumers.client import Consumers, Pools
from holdfast.dead_letters.client import DeadLetters
from holdfast.messages.client import Messages
from holdfast.notices.client import Notices
from holdfast.queues.client import Queues
from holdfast.sagas.client import Sagas
from holdfast.schedules.client import Schedules
from holdfast.topics.client import Groups, Topics


class AsyncQueues(Awaiting[Queues]):
    """`hf.queues`, awaited."""

    list = awaited(Queues.list)
    settings = awaited(Queues.settings)
    pause = awaited(Queues.pause)
    resume = awaited(Queues.resume)
    is_paused = awaited(Queues.is_paused)
    peek = awaited(Queues.peek)
    purge = awaited(Queues.purge)
    blocked = awaited(Queues.blocked)
    unblock = awaited(Queues.unblock)
    budget = awaited(Queues.budget)
    reset_budget = awaited(Queues.reset_budget)
    sweep = awaited(Queues.sweep)


class AsyncMessages(Awaiting[Messages]):
    """`hf.messages`, awaited."""

    get = awaited(Messages.get)
    search = awaited(Messages.search)
    cancel = awaited(Messages.cancel)
    commitments = awaited(Messages.commitments)


class AsyncDeadLetters(Awaiting[DeadLetters]):
    """`hf.dead_letters`, awaited."""

    list = awaited(DeadLetters.list)
    get = awaited(DeadLetters.get)
    count = awaited(DeadLetters.count)
    replay = awaited(DeadLetters.replay)
    replay_many = awaited(DeadLetters.replay_many)
    delete = awaited(DeadLetters.delete)
    delete_many = awaited(DeadLetters.delete_many)


class AsyncTopics(Awaiting[Topics]):
    """`hf.topics`, awaited."""

    list = awaited(Topics.list)
    settings = awaited(Topics.settings)


class AsyncGroups(Awaiting[Groups]):
    """`hf.groups`, awaited."""

    list = awaited(Groups.list)
    settings = awaited(Groups.settings)
    pause = awaited(Groups.pause)
    resume = awaited(Groups.resume)
    heartbeat = awaited(Groups.heartbeat)
    accept_loss = awaited(Groups.accept_loss)
    seek = awaited(Groups.seek)
    skip = awaited(Groups.skip)
    cancel = awaited(Groups.cancel)
    remove = awaited(Groups.remove)


class AsyncSagas(Awaiting[Sagas]):
    """`hf.sagas`, awaited."""

    list = awaited(Sagas.list)
    get = awaited(Sagas.get)
    cancel = awaited(Sagas.cancel)
    retry = awaited(Sagas.retry)
    skip = awaited(Sagas.skip)
    mark_done = awaited(Sagas.mark_done)
    advance = awaited(Sagas.advance)


class AsyncSchedules(Awaiting[Schedules]):
    """`hf.schedules`, awaited."""

    list = awaited(Schedules.list)
    get = awaited(Schedules.get)
    pause = awaited(Schedules.pause)
    resume = awaited(Schedules.resume)
    run = awaited(Schedules.run)
    remove = awaited(Schedules.remove)
    fire = awaited(Schedules.fire)


class AsyncNotices(Awaiting[Notices]):
    """`hf.notices`, awaited."""

    list = awaited(Notices.list)
    acknowledge = awaited(Notices.acknowledge)
    report = awaited(Notices.report)
    owners = awaited(Notices.owners)
    escalate = awaited(Notices.escalate)


class AsyncConsumers(Awaiting[Consumers]):
    """`hf.consumers`, awaited."""

    list = awaited(Consumers.list)
    amplification = awaited(Consumers.amplification)
    attach = awaited(Consumers.attach)
    detach = awaited(Consumers.detach)
    attachments = awaited(Consumers.attachments)


class AsyncPools(Awaiting[Pools]):
    """`hf.pools`, awaited."""

    list = awaited(Pools.list)


class AsyncCommands(Awaiting[Commands]):
    """`hf.commands`: an `async def` runs on the loop that awaits it, a `def` in a thread."""

    def __init__(self, sync: Commands, threads: Threads, parts: ClientParts) -> None:
        super().__init__(sync, threads)
        self._parts = parts

    def list(self) -> list[Command]:
        """What this client can run, by name. See `Commands.list`."""
        return self._sync.list()

    async def run(self, name: str, input: Mapping[str, Any], *, idempotency_key: str | None = None) -> Any:
        """Runs a command now; what it gave back, as JSON. See `Commands.run`."""
        parts = self._parts
        declared, arguments, of = parts.commands.request(parts.settings.tenant, name, input, idempotency_key)
        if declared.is_async:
            context = async_run.AsyncDirectContext(parts, idempotency_key)
            return await async_run.run(command_run.CommandRun(parts, declared, arguments, context, of))
        call = partial(self._sync.run, name, input, idempotency_key=idempotency_key)
        return await self._threads.finish(call, lambda: None, SLEEPERS)


class AsyncAudit(Awaiting[Audit]):
    """`hf.audit`, awaited."""

    list = awaited(Audit.list)
