"""A process of the release before: `python -m tests.upgrades.old_process URL BEHIND`.

Its clock is so many microseconds behind. It claims, runs a consumer, and then does what lines on stdin say; each line
gets an answer in JSON on stdout.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import apsw
import psycopg

from holdfast import Holdfast, Message
from holdfast.client.client import internals


def main() -> None:
    url, behind = sys.argv[1], int(sys.argv[2])
    settings: dict[str, Any] = {"worker": "old", "clock": lambda: time.time_ns() // 1_000 - behind}
    hf = Holdfast(url, **settings)
    hf.enqueue_many("held", ["run-1", "run-2", "row"])
    run = hf.claim("held", n=2, lease="1h")
    hf.claim("held")[0].release()
    claims = [*run, *hf.claim("held", lease="1h")]
    handled: list[Any] = []
    changed = threading.Condition()

    @hf.consumer("consumed")
    def consume(message: Message) -> None:
        with changed:
            handled.append(message.body)
            changed.notify_all()

    def wait_for(count: int) -> list[Any]:
        with changed:
            changed.wait_for(lambda: len(handled) >= count, 60)
            return handled

    def do(what: str, more: str) -> Any:
        match what:
            case "settle":
                return hf.ack(claims)
            case "use":
                return use(hf, url)
            case "warm":
                return warm(hf)
            case "handled":
                return wait_for(int(more))
            case "replay":
                return [hf.dead_letters.replay(one.id).duplicate for one in hf.dead_letters.list(more)]
            case "take":
                topic, _, group = more.partition("/")
                taken = hf.claim(topic, group=group or None, n=100)
                hf.ack(taken)
                return [claim.message.body for claim in taken]
            case "open":
                with Holdfast(url, **settings) as another:
                    return another.queues.list()
        raise ValueError(what)

    with hf.running():
        print(json.dumps("ready"), flush=True)
        for line in sys.stdin:
            what, _, more = line.strip().partition(" ")
            try:
                answer = do(what, more)
            except Exception as problem:
                answer = f"{type(problem).__name__}: {problem}"
            print(json.dumps(answer), flush=True)
    hf.close()


def warm(hf: Holdfast) -> str:
    """Let the sessions of a server plan what claims do: they keep these plans."""
    hf.topic("warm")
    hf.subscribe("warm", "fed", ordering="per_key")
    hf.subscribe("warm", "picky", patterns=["warm.good"])
    for number in range(3):
        hf.publish("warm.good", number, key="k")
        hf.publish("warm.bad", number)
        for group in ("fed", "picky"):
            while claims := hf.claim("warm", group=group, n=10):
                hf.ack(claims)
    return "warm"


def use(hf: Holdfast, url: str) -> str:
    """Everything that users do all day, on a queue and a topic that are there and on ones that are not."""
    hf.topic("news")
    hf.subscribe("news", "fed", ordering="per_key")
    hf.subscribe("news", "picky", patterns=["news.good"])
    hf.queue("kept", ordering="per_key", history="1h", max_attempts=2, backoff=None)
    for number in range(3):
        hf.publish("news.good", number, key="k")
        hf.publish("news.bad", number)
    for group, count in (("fed", 6), ("picky", 3)):
        found = 0
        while claims := hf.claim("news", group=group, n=10):
            found += len(claims)
            hf.ack(claims)
        assert found == count, (group, found)
    receipt = hf.enqueue("kept", {"n": 1}, key="a", delay=0, idempotency_key="once", priority="high", ttl=3600)
    assert hf.enqueue("kept", {"n": 1}, key="a", idempotency_key="once", priority="high", ttl=3600).duplicate
    for _ in range(2):
        hf.claim("kept")[0].nack("no")
    [dead] = hf.dead_letters.list("kept")
    again = hf.dead_letters.replay(dead.id)
    hf.claim("kept")[0].ack({"done": True})
    found = hf.status(again.id)
    assert found is not None
    assert found.result == {"done": True}
    assert receipt.id == dead.message.id
    joined(hf, url)
    return "used"


def joined(hf: Holdfast, url: str) -> None:
    """A message in a transaction of the user's own, the first of this process."""
    if url.startswith("sqlite") and "stdlib" in url:
        import sqlite3

        file = sqlite3.connect(internals(hf).store.database.path)  # type: ignore[attr-defined]
        with file:
            hf.enqueue("joined", 1, conn=file)
        file.close()
    elif url.startswith("sqlite"):
        with apsw.Connection(internals(hf).store.database.path) as connection:  # type: ignore[attr-defined]
            hf.enqueue("joined", 1, conn=connection)
        connection.close()
    else:
        with psycopg.connect(url) as server:
            hf.enqueue("joined", 1, conn=server)
    hf.claim("joined")[0].ack()


if __name__ == "__main__":
    main()
