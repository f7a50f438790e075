"""Hands for `async def` handlers: tasks on one event loop, each running one handler after the other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.budgets import spend_reports
from holdfast.client.compose import EnqueueOptions
from holdfast.client.middleware import await_through, outgoing_of
from holdfast.client.receipts import Receipt
from holdfast.core import priority as priorities
from holdfast.core.duration import Duration
from holdfast.core.message import NewMessage
from holdfast.errors import InvalidInput
from holdfast.worker.call import Call, before, verify
from holdfast.worker.consumer import Consumer
from holdfast.worker.context import Context
from holdfast.worker.executors.threads import REFUSED, Hand
from holdfast.worker.handler_begin import FirstLine, is_running

if TYPE_CHECKING:
    from holdfast.worker.worker import Worker

_BREATH = 0.01
"""Seconds after which a busy hand lets others on the loop have their turn."""


class Loop:
    """An event loop: the caller's own, or one in a thread of ours."""

    def __init__(self, given: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = given or asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        if given is None:
            self._thread = threading.Thread(target=self._run, name="holdfast-loop", daemon=True)
            self._thread.start()

    def close(self, timeout: float) -> None:
        """Ends our own loop; one that a handler blocks is left behind."""
        if self._thread is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.close()


class LoopHand(Hand):
    """A task. An interrupt is the cancellation of what it awaits."""

    def __init__(self, worker: Worker, loop: Loop, filled: Filled) -> None:
        super().__init__(worker)
        self._loop = loop.loop
        self._filled = filled
        self._done = threading.Event()
        self._task: asyncio.Task[None] | None = None
        self._loop_thread: int | None = None
        self._loop.call_soon_threadsafe(self._start)

    def interrupt(self, context: Context) -> None:
        self._loop.call_soon_threadsafe(self._cancel, context)

    def join(self, timeout: float) -> None:
        self._done.wait(timeout)

    def has_begun(self, line: FirstLine) -> bool:
        """A task that does not run at this moment awaits something in its handler: nothing before that is awaited."""
        thread = self._loop_thread
        return line.is_reached(thread) or not is_running(thread, LoopHand._work.__code__)

    def _start(self) -> None:
        self._loop_thread = threading.get_ident()
        self._task = self._loop.create_task(self._run())

    def _cancel(self, context: Context) -> None:
        if self.current is context and self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        shelf, breath = self.worker.shelf, time.monotonic() + _BREATH
        try:
            while not self.abandoned:
                context = shelf.take_now()
                if context is not None and context.stop is not None:
                    self.worker.skip(context)
                elif context is not None:
                    await self._work(context)
                elif shelf.closed:
                    return
                else:
                    await self._filled.wait()
                if time.monotonic() > breath:
                    await asyncio.sleep(0)
                    breath = time.monotonic() + _BREATH
        finally:
            self._done.set()

    async def _work(self, context: Context) -> None:
        result: Any = None
        problem: BaseException | None = None
        assert self._task is not None, "it is running"
        try:
            now = time.monotonic()
            self.begin(context, now)
            is_open = now < self.worker.gate.until or await self._is_let_in(context)
            result = await self.worker.call(context) if is_open else REFUSED
        except asyncio.CancelledError as cancelled:
            if context.stop is None and self._task.cancelling():
                self._hand_back(context)  # Someone else ends the whole loop.
                raise
            problem = cancelled
        except BaseException as raised:
            problem = raised
        self.let_go()
        while self._task.cancelling():
            self._task.uncancel()
        if result is REFUSED:
            self.worker.skip(context)
        elif not self.abandoned:
            self.worker.finished(context, result, problem)

    async def _is_let_in(self, context: Context) -> bool:
        """As `is_let_in`; the loop does not wait for the database."""
        gate = self.worker.gate
        while True:
            self.let_go()
            if not await asyncio.to_thread(gate.admits, context):
                return False
            now = time.monotonic()
            self.begin(context, now)
            if gate.is_open(context, now):
                return True

    def _hand_back(self, context: Context) -> None:
        self.let_go()
        if not self.abandoned:
            self.worker.cut_off(context)


class Filled:
    """Tells the hands of one worker that there is something on the shelf."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop.loop
        self._waiting: list[asyncio.Future[None]] = []

    def __call__(self) -> None:
        """From any thread."""
        self._loop.call_soon_threadsafe(self._wake)

    async def wait(self) -> None:
        """Until it is called."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(future)
        await future

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def awaited(consumer: Consumer) -> Call:
    """An `async def` handler with what has to be true before and after; checks do not block the loop."""
    handler, wants_context = consumer.handler, consumer.wants_context

    async def call(context: Context) -> Any:
        message = context.claim.message
        promises = before(consumer, context)
        result = await (handler(message, context) if wants_context else handler(message))
        if promises:
            await asyncio.to_thread(verify, consumer, context, promises, result)
        return result

    return call


class AsyncContext(Context):
    """A context whose calls that ask the database are awaited."""

    @property
    def session(self) -> str | None:
        """For functions that run in a thread beside the loop; on it, `get_session` and `set_session` are awaited."""
        _refuse_on_loop("await context.get_session()")
        return spend_reports.session(self._worker.parts, self.claim)

    @session.setter
    def session(self, text: str | None) -> None:
        _refuse_on_loop("await context.set_session(text)")
        spend_reports.remember(self._worker.parts, self.claim, text)

    async def get_session(self) -> str | None:
        """A text that is kept with the message from attempt to attempt. See `Context.session`."""
        return await asyncio.to_thread(spend_reports.session, self._worker.parts, self.claim)

    async def set_session(self, text: str | None) -> None:
        """Keeps a text with the message, for the attempts after this one; None forgets it."""
        await asyncio.to_thread(spend_reports.remember, self._worker.parts, self.claim, text)

    async def extend(self, duration: Duration | None = None) -> None:  # type: ignore[override]
        """Makes the lease last for `duration` from now. See `Context.extend`."""
        await asyncio.to_thread(super().extend, duration)

    async def enqueue(  # type: ignore[override]
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
    ) -> Receipt:
        """A message that arrives in the transaction of this one's ack. See `Context.enqueue`."""
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
        new: list[NewMessage] = []

        async def draft(*parts: Any) -> list[Receipt]:
            return await asyncio.to_thread(self._draft, new, *parts)

        around = self._worker.parts.around_enqueue.awaited
        [receipt] = await await_through(around, draft, outgoing_of(queue, [body], options))
        self.following = [*self.following, *new]
        return receipt

    async def reply(self, body: Any, *, headers: dict[str, Any] | None = None) -> Receipt:  # type: ignore[override]
        """Answers whoever asked, in the transaction of this message's ack. See `Context.reply`."""
        receipt = await self.enqueue(self._asker(), body, headers=headers, correlation_id=self.message.correlation_id)
        self.replied = True
        return receipt

    async def spend(self, amount: float) -> float:  # type: ignore[override]
        """Counts what this message costs. See `Context.spend`."""
        return await asyncio.to_thread(super().spend, amount)

    async def action(self, text: str) -> None:  # type: ignore[override]
        """Says what is about to be done. See `Context.action`."""
        await asyncio.to_thread(super().action, text)


def _refuse_on_loop(instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise InvalidInput(f"context.session asks the database and would block the event loop: write {instead} instead")
