"""The Python end of the protocol: `serve(Driver)` answers one command per line until its input ends."""

import asyncio
import json
import random
import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from bench import payload
from bench.peers.drivers.meter import Meter, Watch

Command = dict[str, Any]
Answer = dict[str, Any]


class Driver(Protocol):
    """A peer's queue. Blocking peers block: there is nothing else to do in the process."""

    async def open(self, url: str) -> None:
        """Connects, ready to enqueue or to work; nothing of the worker runs yet."""

    async def create(self) -> None:
        """Makes the peer's tables, once per database, before any other process opens it."""

    async def enqueue(self, body: dict[str, Any]) -> None: ...
    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None: ...

    async def work(self, meter: Meter) -> None:
        """Hands every message to the meter until it is done; returns when every ack is written."""

    async def left(self) -> int:
        """How many messages are waiting or taken but not acked."""

    async def close(self) -> None: ...


class FanOut(Protocol):
    """A peer that can give every message to each of several groups; it may be no queue."""

    async def open(self, url: str) -> None: ...
    async def create(self) -> None: ...
    async def subscribe(self, groups: list[str]) -> None:
        """Makes the groups, after `create`, before anything is published."""

    async def publish_many(self, bodies: list[dict[str, Any]]) -> None: ...

    async def read(self, group: str, meter: Meter) -> None:
        """As `work`, for one group."""

    async def left_for(self, group: str) -> int:
        """How many messages the group has not got, or not acked."""

    async def close(self) -> None: ...


class Sagas(Protocol):
    """A peer that does several steps one after the other, and is no queue."""

    async def open(self, url: str) -> None: ...
    async def create(self) -> None: ...
    async def sagas(self, count: int, seconds: float) -> tuple[list[int], float]:
        """Up to `count`, none begun after so many seconds: those that came to their end, and how long it took."""

    async def left(self) -> int:
        """How many have begun and not ended."""

    async def close(self) -> None: ...


def serve(driver: Driver | FanOut | Sagas) -> None:
    asyncio.run(_serve(driver))


async def _serve(driver: Driver | FanOut | Sagas) -> None:
    # What a peer prints must not be taken for an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    await driver.open(sys.argv[-1])
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = await _COMMANDS[command["do"]](driver, command)
        except Exception as problem:
            traceback.print_exc()
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    await driver.close()


async def _ready(driver: Driver, command: Command) -> Answer:
    return {}


async def _create(driver: Driver, command: Command) -> Answer:
    await driver.create()
    return {}


async def _enqueue(driver: Driver, command: Command) -> Answer:
    """One by one for so many seconds."""
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < command["seconds"]:
        await driver.enqueue(payload.body(count))
        count += 1
    return {"count": count, "took": time.perf_counter() - started}


async def _enqueue_many(driver: Driver, command: Command) -> Answer:
    """Up to `count` in calls of `call`, but no longer than so many seconds."""
    sent, started = 0, time.perf_counter()
    while sent < command["count"] and time.perf_counter() - started < command["seconds"]:
        size = min(command["call"], command["count"] - sent)
        await driver.enqueue_many(payload.bodies(sent, size))
        sent += size
    return {"count": sent, "took": time.perf_counter() - started}


async def _subscribe(driver: FanOut, command: Command) -> Answer:
    await driver.subscribe(command["groups"])
    return {}


async def _publish_many(driver: FanOut, command: Command) -> Answer:
    """As `enqueue_many`, but the bodies are there before the clock starts, as they are for Holdfast."""
    calls = [payload.bodies(start, command["call"]) for start in range(0, command["count"], command["call"])]
    sent, started = 0, time.perf_counter()
    for bodies in calls:
        await driver.publish_many(bodies)
        sent += len(bodies)
        if time.perf_counter() - started > command["seconds"]:
            break
    return {"count": sent, "took": time.perf_counter() - started}


async def _read_groups(driver: FanOut, command: Command) -> Answer:
    """One group after the other: what each got, and when all of it began and ended."""
    limits = {name: value for name, value in command.items() if name not in ("do", "groups")}
    meters = [Meter(**limits) for _ in command["groups"]]
    for group, meter in zip(command["groups"], meters, strict=True):
        await driver.read(group, meter)
    return {"numbers": [meter.numbers for meter in meters], "started": meters[0].started, "ended": meters[-1].ended}


async def _left_for(driver: FanOut, command: Command) -> Answer:
    return {"left": sum([await driver.left_for(group) for group in command["groups"]])}


async def _sagas(driver: Sagas, command: Command) -> Answer:
    numbers, took = await driver.sagas(command["count"], command["seconds"])
    return {"numbers": numbers, "took": took}


async def _produce(driver: Driver, command: Command) -> Answer:
    for number in range(command["count"]):
        # A random moment of each slot, so that no poller can fall into step.
        await asyncio.sleep(random.uniform(0.5, 1.5) / command["rate"])
        await driver.enqueue({**payload.body(number), "sent": time.monotonic()})
    return {}


async def _work(driver: Driver, command: Command) -> Answer:
    meter = Meter(**{name: value for name, value in command.items() if name != "do"})
    await driver.work(meter)
    return meter.answer()


async def _idle(driver: Driver, command: Command) -> Answer:
    """Works on an empty queue: the processor's seconds while it waited, once it had settled, and its memory."""
    watch = Watch(command["seconds"])
    await driver.work(watch)
    return watch.answer()


async def _left(driver: Driver, command: Command) -> Answer:
    return {"left": await driver.left()}


_COMMANDS: dict[str, Callable[[Any, Command], Awaitable[Answer]]] = {
    "ready": _ready,
    "create": _create,
    "enqueue": _enqueue,
    "enqueue_many": _enqueue_many,
    "subscribe": _subscribe,
    "publish_many": _publish_many,
    "read_groups": _read_groups,
    "left_for": _left_for,
    "sagas": _sagas,
    "produce": _produce,
    "work": _work,
    "idle": _idle,
    "left": _left,
}
