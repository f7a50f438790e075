"""Processes that run consumers with `hf.run()`: what each handler was given, and what became of it, is in the log."""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from holdfast import Claim, Holdfast, Message
from holdfast.events import MessageEvent, MessageFailed, MessageLost, MessageSucceeded
from holdfast.worker.context import Context
from holdfast.worker.maintenance import leader
from tests.acceptance.history import Log
from tests.acceptance.working import Orders, is_drained
from tests.waiting import spend

POISON = "poison"
"""A message whose handler kills the process."""


def consumer(
    log: Log,
    url: str,
    queue: str,
    worker: str | None = None,
    grace: float = 30.0,
    patience: float = 60.0,
    shift: float = 0.0,
    term: float | None = None,
    pause: float = 0.0,
    kind: str = "def",
    **options: Any,
) -> None:
    """Runs until a signal; or until there are no more orders and nothing is left in the queue."""
    if shift:
        shift_clock(shift)
    if term is not None:
        leader.TERM = term
    with Holdfast(url, worker=worker, sweep_every=0.1, patience=patience) as hf:
        records = Records(log, hf, pause)
        hf.consumer(queue, name="handler", **options)(records.awaited if kind == "async def" else records.handle)
        threading.Thread(target=stop_when_drained, args=(hf, queue, records.go_on.set), daemon=True).start()
        try:
            hf.run(grace=grace)
        finally:
            log.write("run", "ok")


def shift_clock(seconds: float) -> None:
    """This process's clock goes wrong by so much; the databases have their own."""
    true = time.time
    time.time = lambda: true() + seconds


def stop_when_drained(hf: Holdfast, queue: str, on_no_more: Callable[[], object] = lambda: None) -> None:
    orders = Orders()
    for _ in orders:
        pass
    on_no_more()
    while True:  # It may not even have begun to run.
        if is_drained(hf, queue):
            hf.stop()
        spend(0.05)


class Records:
    """A handler that writes down what happens to it. The body is what to do: sleep for so many seconds, or a word.

    "wait" is until there are no more orders."""

    def __init__(self, log: Log, hf: Holdfast, pause: float) -> None:
        self._log = log
        self._pause = pause
        self.go_on = threading.Event()
        self._held: dict[tuple[str, int], Claim] = {}
        hf.on(MessageSucceeded, lambda event: self._log.settled("ack", [self._claim(event)]))
        hf.on(MessageFailed, lambda event: self._log.settled("nack", [self._claim(event)]))
        hf.on(MessageLost, lambda event: self._log.refused("ack", [self._claim(event)]))

    def handle(self, message: Message, context: Context) -> None:
        self._do(message, context)
        if self._pause:
            spend(self._pause)
        self._log.settling("ack", [context.claim])

    async def awaited(self, message: Message, context: Context) -> None:
        """The same on an event loop, which everything but the pause blocks, as careless code does."""
        self._do(message, context)
        if self._pause:
            await asyncio.sleep(self._pause)
        self._log.settling("ack", [context.claim])

    def _do(self, message: Message, context: Context) -> None:
        self._held[message.id, context.attempt] = context.claim
        self._log.claimed([context.claim])
        if isinstance(message.body, float):
            self._say("started", message.body)
            spend(message.body)
        elif message.body == POISON:
            self._log.write("poisoned", "ok", run=context.claim.lease.size)
            os.kill(os.getpid(), signal.SIGKILL)
        elif message.body == "spin":
            self._say("started", message.body)
            while True:
                pass
        elif message.body == "wait":
            self._say("started", message.body)
            self.go_on.wait()

    def _claim(self, event: MessageEvent) -> Claim:
        return self._held[event.id, event.attempt]

    def _say(self, *words: Any) -> None:
        print(json.dumps(words) + "\n", end="", flush=True)  # At once: handlers in other threads speak too.
