"""Processes that run a command for messages: it writes down each body in a table of its own, and sends it on."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

from holdfast import Holdfast
from holdfast.worker.command_handler import MessageRun, consume
from tests.acceptance.consumers import stop_when_drained
from tests.acceptance.history import Log
from tests.waiting import spend


def commander(log: Log, url: str, queue: str, kind: str = "def", dies: str = "", pause: float = 0.0) -> None:
    """Runs until there are no more orders and nothing is left; or kills itself at the point that `dies` names."""
    with Holdfast(url, sweep_every=0.1) as hf:

        def write(what: str, context: Any, conn: Any) -> str:
            log.write("command", "invoke", what=what)
            conn.execute(f"INSERT INTO effect VALUES ('{what}')")
            context.enqueue("sent on", what)
            spend(pause)
            if dies == "before the commit":
                os.kill(os.getpid(), signal.SIGKILL)
            if dies == "never":
                print('"holds"', flush=True)
                spend(60)
            return what

        async def write_later(what: str, context: Any, conn: Any) -> str:
            log.write("command", "invoke", what=what)
            found = conn.execute(f"INSERT INTO effect VALUES ('{what}')")
            if asyncio.iscoroutine(found):
                await found
            await context.enqueue("sent on", what)
            await asyncio.sleep(pause)
            if dies == "before the commit":
                os.kill(os.getpid(), signal.SIGKILL)
            return what

        if dies == "after the commit":
            MessageRun.settled = lambda run: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment, method-assign]
        hf.command("Thing.Write")(write if kind == "def" else write_later)
        consume(hf, queue, "Thing.Write", lambda message: {"what": message.body})
        threading.Thread(target=stop_when_drained, args=(hf, queue), daemon=True).start()
        hf.run()
