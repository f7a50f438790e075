"""The inside of a handler's process: takes one message after the other from the worker that started it."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import msgspec

from holdfast import errors
from holdfast.budgets import rules as budgets_rules
from holdfast.client.receipts import Receipt
from holdfast.core import priority as priorities
from holdfast.core.dead_letter import ErrorText, trouble_of
from holdfast.core.duration import Duration, seconds
from holdfast.core.message import Message, MessageId, clean_text, encode_json, plain_text
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.sagas.rules.step_messages import KEY_HEADER
from holdfast.worker import import_guard, import_path
from holdfast.worker.consumer import Consumer
from holdfast.worker.executors import ipc
from holdfast.worker.executors.ipc import Border
from holdfast.worker.outcomes import BudgetSpent, GaveUp
from holdfast.worker.signals import STOPPING


def main(pipe: int, lifeline: int) -> None:
    """The whole life of the process. It ends when told to, or with the worker."""
    for own in (pipe, lifeline):
        os.set_inheritable(own, False)
    end_with_worker(lifeline)
    for number in STOPPING:
        # The worker decides when this ends. Not SIG_IGN: programs that the handler starts would inherit that.
        signal.signal(number, lambda *_: None)
    Cell(Border(Connection(pipe))).run()


def end_with_worker(lifeline: int) -> None:
    """Linux ends this process and all that it started when the other end of this pipe is closed, even if the handler
    never gives any thread of ours a turn. Elsewhere `Cell` notices the end of the worker when it listens."""
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


class CellContext:
    """What a handler in a process of its own may know and do. The same names as `Context`, which answers."""

    def __init__(self, cell: Cell, work: ipc.HandlerWork) -> None:
        self._cell = cell
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()
        self.message = _message(work)
        self.queue = work.queue
        self.attempt = work.attempt
        self.max_attempts = work.max_attempts
        self.deadline = None if work.deadline is None else datetime.fromtimestamp(work.deadline, UTC)
        self._body_type = work.body_type
        self.cancelled = False

    def on_cancel(self, callback: Callable[[], object]) -> None:
        """Calls this, from another thread, when the handler is to stop; at once if it is."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return
        callback()

    def progress(self, value: Any) -> None:
        """Says how far it is, as any JSON value."""
        self._cell.tell(self, ipc.ProgressReport(encode_json(value, "progress")))

    def extend(self, duration: Duration | None = None) -> None:
        """Makes the lease last for `duration` from now; never for less than it does anyway."""
        self._cell.ask(self, ipc.Extend(None if duration is None else seconds(duration)))

    def enqueue(
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
        """A message that arrives in the transaction of this one's ack; if the attempt fails, it never was."""
        options = {
            "queue": queue,
            "priority": priority,
            "key": key,
            "delay": delay,
            "headers": headers,
            "correlation_id": correlation_id,
            "reply_to": reply_to,
            "ttl": ttl,
            "idempotency_key": idempotency_key,
            "budget": budget,
            "commitments": commitments,
        }
        asked = ipc.Enqueue(encode_json(body), encode_json(options, "an option of enqueue"))
        return Receipt(MessageId(self._cell.ask(self, asked).id or b""))

    def reply(self, body: Any, *, headers: dict[str, Any] | None = None) -> Receipt:
        """Answers whoever asked, in the transaction of this message's ack."""
        asked = ipc.Reply(encode_json(body), encode_json(headers, "headers"))
        return Receipt(MessageId(self._cell.ask(self, asked).id or b""))

    def spend(self, amount: float) -> float:
        """Counts what this message costs; what it has cost in all. Ends the attempt when a budget is over."""
        spent = self._cell.ask(self, ipc.Spend(budgets_rules.spending(amount))).value
        assert isinstance(spent, float), "it is a sum"
        return spent

    def action(self, text: str) -> None:
        """Says what is about to be done; ends the attempt when it was the same too often in a row."""
        budgets_rules.fingerprint(text)
        self._cell.ask(self, ipc.Action(clean_text(text)))

    @property
    def session(self) -> str | None:
        """A text that is kept with the message from attempt to attempt."""
        kept = self._cell.ask(self, ipc.Recall()).value
        return None if kept is None else str(kept)

    @session.setter
    def session(self, text: str | None) -> None:
        self._cell.ask(self, ipc.Remember(plain_text(text, "session")))

    @property
    def step_key(self) -> str | None:
        """For a step of a saga: the same text at every attempt."""
        return self.message.headers.get(KEY_HEADER)

    def grace(self, wanted: float) -> float:
        """The worker ends this process in time, and the programs that it started with it."""
        return wanted

    def halt(self) -> None:
        """The worker's warning; once."""
        with self._lock:
            callbacks = [] if self.cancelled else list(self._callbacks)
            self.cancelled = True
        for callback in callbacks:
            callback()


class Cell:
    """Runs handlers in the main thread, as any program would; another thread listens to the worker."""

    def __init__(self, outside: Border) -> None:
        self._outside = outside
        self._speaking = threading.Lock()
        self._current: CellContext | None = None
        self._work: SimpleQueue[CellContext | None] = SimpleQueue()
        self._answers: SimpleQueue[ipc.IpcAnswer] = SimpleQueue()

    def run(self) -> None:
        """Until there is no more work."""
        home = self._outside.hear_inside()
        assert isinstance(home, ipc.Home), "it is the first word"
        threading.Thread(target=self._listen, name="holdfast-cell", daemon=True).start()
        try:
            handler = _handler(home)
        except BaseException as problem:
            self._outside.send(_failure(problem))
            return
        self._outside.send(ipc.Ready())
        while (context := self._work.get()) is not None:
            end = _call(handler, context, home.wants_context)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()  # A process that may be killed any time keeps nothing back.
            with self._speaking:
                self._current = None
                self._outside.send(end)

    def tell(self, context: CellContext, progress: ipc.ProgressReport) -> None:
        """Nothing comes back."""
        with self._speaking:
            self._say(context, progress)

    def _say(self, context: CellContext, word: ipc.ProgressReport | ipc.Question) -> None:
        """About this message; refused when it is no longer the one at work."""
        if self._current is not context:
            raise HoldfastError("the handler has ended, and its context with it: what it left running cannot use that")
        self._outside.send(word)

    def ask(self, context: CellContext, question: ipc.Question) -> ipc.IpcAnswer:
        """What the worker says to it; its errors are raised here."""
        with self._speaking:
            self._say(context, question)
            answer = self._answers.get()
        if answer.error is not None:
            raise _refusal(answer.error, answer)
        return answer

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                match self._outside.hear_inside():
                    case ipc.HandlerWork() as work:
                        self._current = CellContext(self, work)
                        self._work.put(self._current)
                    case ipc.IpcAnswer() as answer:
                        self._answers.put(answer)
                    case ipc.Warn() if (context := self._current) is not None:
                        threading.Thread(target=context.halt, name="holdfast-cancel", daemon=True).start()
                    case ipc.Bye():
                        self._work.put(None)
        os.killpg(os.getpgrp(), signal.SIGKILL)  # The worker is gone: nobody waits for this any more.


def _refusal(kind: str, answer: ipc.IpcAnswer) -> Exception:
    if kind == GaveUp.__name__:
        return GaveUp(answer.text)
    if kind == BudgetSpent.__name__:
        return BudgetSpent(answer.text, is_first=answer.is_first)
    error: Exception = getattr(errors, kind, HoldfastError)(answer.text)
    return error


def _handler(home: ipc.Home) -> Callable[..., Any]:
    sys.argv[:] = [os.fsdecode(argument) for argument in home.argv]
    import_guard.in_a_cell = True
    try:
        if home.script is not None:
            import_path.load_script(os.fsdecode(home.script))
        found = import_path.find(home.module, home.name)
    finally:
        import_guard.in_a_cell = False
    return found.handler if isinstance(found, Consumer) else found


def _call(handler: Callable[..., Any], context: CellContext, wants_context: bool) -> ipc.Outward:
    try:
        if context._body_type is not None:
            context.message.decoder = _decoder(*context._body_type)
        result = handler(context.message, context) if wants_context else handler(context.message)
    except BaseException as problem:
        return _end(problem)
    try:
        return ipc.HandlerReturned(None if result is None else encode_json(result, "result"))
    except InvalidInput as problem:
        trouble = trouble_of(problem)
        return ipc.Raised(trouble.error, [], trouble.traceback)


def _end(problem: BaseException) -> ipc.Outward:
    decided = None
    with suppress(Exception):
        decided = ipc.Decided.of(problem)
    return decided or _failure(problem)


def _failure(problem: BaseException) -> ipc.Raised:
    try:
        trouble = trouble_of(problem)
    except Exception:
        trouble = ErrorText(f"{type(problem).__qualname__}, which cannot be described")
    return ipc.Raised(trouble.error, import_path.names(type(problem)), trouble.traceback)


def _message(work: ipc.HandlerWork) -> Message:
    return Message(
        MessageId(work.id),
        work.lane,
        work.body,
        work.headers,
        work.key,
        work.correlation_id,
        work.reply_to,
        work.topic,
        work.expires_at,
        work.enqueued_at,
    )


@cache
def _decoder(module: str, name: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(import_path.find(module, name))
