"""What the processes of the acceptance tests do: `python -m tests.acceptance.workers ROLE LOG SETTINGS`.

Orders come as lines on stdin, answers go to stdout, and everything that matters goes to the log first.
"""

import faulthandler
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from holdfast import Claim, Holdfast, HoldfastError, LeaseLost
from tests import through_sqs
from tests.acceptance.history import Log
from tests.acceptance.working import Orders, is_drained, send, settle, take

POISON = "poison"
"""A message that kills whoever works on it."""

Role = Callable[..., None]


# --- producers and consumers ------------------------------------------------------------------------------------------


def produce(log: Log, url: str, queue: str, name: str, count: int, batch: int = 1, **options: Any) -> None:
    """Sends `count` messages, whose bodies are `name-0`, `name-1`, …"""
    with Holdfast(url) as hf:
        for start in range(0, count, batch):
            send(log, hf, queue, [f"{name}-{number}" for number in range(start, min(start + batch, count))], **options)


def stream(log: Log, url: str, queue: str, name: str, batch: int = 1, pause: float = 0.0) -> None:
    """Sends until it is told to stop."""
    orders, number = Orders(), 0
    with Holdfast(url) as hf:
        while not orders.over:
            send(log, hf, queue, [f"{name}-{number + more}" for more in range(batch)])
            number += batch
            orders.wait(pause)


def consume(
    log: Log,
    url: str,
    queue: str,
    n: int = 1,
    fused: bool = False,
    moody: bool = False,
    worker: str | None = None,
) -> None:
    """Works until there are no more orders and nothing is left in the queue, waiting or in someone's hands."""
    orders = Orders()
    with Holdfast(url, worker=worker, sweep_every=0.1) as hf:
        held: list[Claim] = []
        while True:
            held = take(log, hf, queue, n, held)
            if not held and orders.over and is_drained(hf, queue):
                return
            if any(claim.message.body == POISON for claim in held):
                os.kill(os.getpid(), signal.SIGKILL)
            if moody:
                held = settle_moodily(log, hf, held)
            elif not fused:
                settle(log, "ack", held, hf.ack)
                held = []


def settle_moodily(log: Log, hf: Holdfast, held: list[Claim]) -> list[Claim]:
    """Ends some of the claims in one of the many ways; the rest may be acked with the next claim, or is forgotten."""
    chance = random.random()
    some = [claim for claim in held if random.random() < 0.5]
    if chance < 0.2:
        settle(log, "nack", some, lambda claims: hf.nack(claims, "a bad mood", delay=random.choice([0, 0.05])))
    elif chance < 0.3:
        settle(log, "release", some, hf.release)
    elif chance < 0.4:
        settle(log, "snooze", some, lambda claims: hf.snooze(claims, 0.05))
    elif chance < 0.7:
        settle(log, "ack", some, hf.ack)
    else:
        some = []
    return [] if chance < 0.05 else [claim for claim in held if claim not in some]


# --- a worker on strings ----------------------------------------------------------------------------------------------


def puppet(log: Log, url: str, queue: str, worker: str | None = None, patience: float = 60.0) -> None:
    """Does what it is told, one order at a time, and says what came of it."""
    orders = Orders()
    with Holdfast(url, worker=worker, patience=patience, sweep_every=3600) as hf:
        strings = Strings(log, hf, queue)
        for verb, details in orders:
            try:
                answer = getattr(strings, verb)(**details)
            except HoldfastError as problem:
                answer = type(problem).__name__
            print(json.dumps(answer), flush=True)


class Strings:
    """The orders that a puppet knows."""

    def __init__(self, log: Log, hf: Holdfast, queue: str) -> None:
        self._log, self._hf, self._queue = log, hf, queue
        self._held: list[Claim] = []

    def send(self, value: str, **options: Any) -> str:
        send(self._log, self._hf, self._queue, [value], **options)
        return value

    def send_many(self, values: list[str], **options: Any) -> int:
        send(self._log, self._hf, self._queue, values, **options)
        return len(values)

    def claim(self, **options: Any) -> list[Any]:
        self._held = self._hf.claim(self._queue, **options)
        self._log.claimed(self._held)
        return [claim.message.body for claim in self._held]

    def settle(self, op: str, **options: Any) -> str:
        """Ends what it holds; the answer is the name of the error, if any."""
        self._log.settling(op, self._held)
        try:
            getattr(self._hf, op)(self._held, **options)
        except LeaseLost:
            self._log.refused(op, self._held)
            raise
        self._log.settled(op, self._held)
        return ""

    def extend(self, duration: float) -> str:
        self._hf.extend(self._held, duration)
        return ""

    def sweep(self) -> int:
        return self._hf.queues.sweep(self._queue)

    def take(self, count: int) -> int:
        """Claims and acks so many, one by one."""
        for _ in range(count):
            self._hf.ack(self._hf.claim(self._queue))
        return count

    def close(self) -> str:
        """Ends its sessions; the next order opens new ones."""
        self._hf.close()
        return ""

    def stats(self) -> list[int]:
        found = self._hf.stats(self._queue)
        return [found.pending, found.waiting, found.processing, found.dead]


# --- special ones -----------------------------------------------------------------------------------------------------


def onlooker(log: Log, url: str, queue: str) -> None:
    """A busy process of many clients that look, come and go, beside one that sends and works."""
    orders = Orders()
    watching = threading.Thread(target=look_around, args=(log, url, queue, orders), daemon=True)
    watching.start()
    with Holdfast(url) as hf:
        number = 0
        while not orders.over:
            send(log, hf, queue, [f"{os.getpid()}-{number + more}" for more in range(3)])
            settle(log, "ack", take(log, hf, queue, 2, []), hf.ack)
            number += 3


def look_around(log: Log, url: str, queue: str, orders: Orders) -> None:
    try:
        while not orders.over:
            with Holdfast(url) as hf:
                found = hf.queues.peek(queue, 5)
                hf.stats(queue)
                hf.status(found[0].id if found else str(os.urandom(16).hex()))
                hf.dead_letters.list(queue)
                hf.queues.list()
            log.write("look", "ok")
    except BaseException as problem:
        log.write("error", "fail", error=repr(problem))
        raise


# --- running ----------------------------------------------------------------------------------------------------------


ROLES: dict[str, Role] = {role.__name__: role for role in (produce, stream, consume, puppet, onlooker)}

ELSEWHERE = {
    "asking": ("asker", "answerer"),
    "commanders": ("commander",),
    "consumers": ("consumer",),
    "forking": ("forker", "fork_while_opening", "fork_in_threads"),
    "members": ("member",),
    "publishers": ("late_publisher",),
    "rivals": ("racer", "sweeper", "late_writer", "duelist", "firer"),
    "sitting": ("sitter",),
}
"""Module → its roles. A process loads what its own role needs: there are very many of them."""


def role_called(name: str) -> Role:
    for module, roles in ELSEWHERE.items():
        if name in roles:
            found: Role = getattr(import_module(f"tests.acceptance.{module}"), name)
            return found
    return ROLES[name]


def main(arguments: Sequence[str]) -> int:
    role, path, settings = arguments
    faulthandler.dump_traceback_later(290, exit=True)
    random.seed(f"{os.environ.get('HOLDFAST_SEED')}/{Path(path).name}")
    if through_sqs.FOR_CHILDREN in os.environ:
        through_sqs.install()
    log = Log(Path(path))
    try:
        role_called(role)(log, **json.loads(settings))
    except BaseException as problem:
        log.write("error", "fail", error=repr(problem))
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
