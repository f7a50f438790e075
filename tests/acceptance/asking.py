"""Processes that ask, and one that answers."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast import Holdfast, Message
from holdfast.worker.context import Context
from tests.acceptance.history import Log
from tests.acceptance.working import Orders
from tests.waiting import spend


def asker(log: Log, url: str, queue: str) -> None:
    """Asks what it is told to, and says the answers."""
    with Holdfast(url) as hf:
        for verb, details in Orders():
            if verb == "fork":
                forked(lambda details=details: say(hf.ask(queue, **details)))
            elif verb == "ask_many":
                with ThreadPoolExecutor(20) as pool:
                    say(list(pool.map(lambda body: hf.ask(queue, body), range(details["count"]))))
            else:
                say(hf.ask(queue, **details))


def answerer(log: Log, url: str, queue: str) -> None:
    """Says what it begins; "slow" takes its first attempt for ever."""
    with Holdfast(url, sweep_every=0.1) as hf:

        @hf.consumer(queue)
        def answer(message: Message, context: Context) -> None:
            say([message.body, context.attempt])
            if message.body == "slow" and context.attempt == 1:
                context.reply("never sent")
                spend(600)
            elif message.body == "late":
                spend(1)
            context.reply(
                {"asked": message.body, "attempt": context.attempt, "by": os.getpid(), "at": message.reply_to}
            )

        hf.run()


def forked(work: Any) -> None:
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    os.waitpid(child, 0)


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)
