"""What an operator does, for asyncio: every call runs on a thread of the client's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, wraps
from inspect import cleandoc, iscoroutinefunction
from typing import Any, Concatenate, ParamSpec, TypeVar

from holdfast.budgets import Budgeting
from holdfast.commitments import Committing
from holdfast.core.notice import Notice
from holdfast.crew import Crewing
from holdfast.groups import Grouping
from holdfast.notices import Escalating
from holdfast.operating import Operating
from holdfast.sagas import Orchestrating
from holdfast.schedules import Scheduling
from holdfast.seeking import Seeking
from holdfast.threads import Threads

P = ParamSpec("P")
Client = TypeVar("Client")
Result = TypeVar("Result")


def awaited(
    method: Callable[Concatenate[Client, P], Result],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, Result]]:
    """Return a method of the asynchronous client that runs this one on a thread, with the same arguments."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        done: Result = await self._run(partial(method, self._hf, *args, **kwargs))
        return done

    summary = cleandoc(method.__doc__ or "").partition("\n\n")[0]
    call.__doc__ = f"{summary}\n\nThe awaited form of `Holdfast.{method.__name__}`."
    return call


class Awaiting:
    """Calls run on the client's threads."""

    _hf: Any
    _threads: Threads

    async def _run(self, call: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        return await self._threads.work(partial(call, *args, **kwargs))


class AsyncOperating(Awaiting):
    """The verbs that only wait for the database, awaited."""

    owner = awaited(Escalating.owner)
    owners = awaited(Escalating.owners)
    report = awaited(Escalating.report)
    notices = awaited(Escalating.notices)
    acknowledge = awaited(Escalating.acknowledge)
    escalate = awaited(Escalating.escalate)

    pause = awaited(Operating.pause)
    resume = awaited(Operating.resume)
    is_paused = awaited(Operating.is_paused)
    stats = awaited(Operating.stats)
    peek = awaited(Operating.peek)
    purge = awaited(Operating.purge)
    blocked_keys = awaited(Operating.blocked_keys)
    unblock = awaited(Operating.unblock)
    spent = awaited(Budgeting.spent)
    reset_budget = awaited(Budgeting.reset_budget)

    status = awaited(Operating.status)
    search = awaited(Operating.search)
    cancel = awaited(Operating.cancel)
    commitments = awaited(Committing.commitments)

    dead_letters = awaited(Operating.dead_letters)
    find_dead_letter = awaited(Operating.find_dead_letter)
    count_dead_letters = awaited(Operating.count_dead_letters)
    replay = awaited(Operating.replay)
    replay_many = awaited(Operating.replay_many)
    delete_dead_letter = awaited(Operating.delete_dead_letter)
    delete_dead_letters = awaited(Operating.delete_dead_letters)
    audit = awaited(Operating.audit)

    groups = awaited(Grouping.groups)
    heartbeat = awaited(Grouping.heartbeat)
    accept_loss = awaited(Grouping.accept_loss)
    seek = awaited(Seeking.seek)
    skip = awaited(Seeking.skip)
    cancel_group = awaited(Seeking.cancel_group)

    consumers = awaited(Crewing.consumers)
    amplification = awaited(Crewing.amplification)
    attach = awaited(Crewing.attach)
    detach = awaited(Crewing.detach)
    attachments = awaited(Crewing.attachments)

    schedule = awaited(Scheduling.schedule)
    unschedule = awaited(Scheduling.unschedule)
    schedules = awaited(Scheduling.schedules)
    pause_schedule = awaited(Scheduling.pause_schedule)
    resume_schedule = awaited(Scheduling.resume_schedule)
    run_schedule = awaited(Scheduling.run_schedule)
    fire_schedules = awaited(Scheduling.fire_schedules)

    saga = awaited(Orchestrating.saga)
    signal = awaited(Orchestrating.signal)
    sagas = awaited(Orchestrating.sagas)
    saga_status = awaited(Orchestrating.saga_status)
    cancel_saga = awaited(Orchestrating.cancel_saga)
    retry_saga = awaited(Orchestrating.retry_saga)
    skip_saga_step = awaited(Orchestrating.skip_saga_step)
    mark_saga_step_done = awaited(Orchestrating.mark_saga_step_done)
    advance_sagas = awaited(Orchestrating.advance_sagas)

    sweep = awaited(Operating.sweep)
    maintain = awaited(Operating.maintain)

    async def on_notice(self, callback: Callable[[list[Notice]], Any], owner: str | None = None) -> None:
        """Calls `callback` with notices, on a thread, or on this loop if it is an `async def`."""
        if iscoroutinefunction(callback):
            loop = asyncio.get_running_loop()
            self._hf.on_notice(lambda told: asyncio.run_coroutine_threadsafe(callback(told), loop).result(), owner)
        else:
            self._hf.on_notice(callback, owner)

    @property
    def actor(self) -> str:
        """The name that operations are recorded under."""
        actor: str = self._hf.actor
        return actor
