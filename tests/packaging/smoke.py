"""A program that uses an installed Holdfast on the database it is given: `python smoke.py URL`.

It stands alone: an environment that has only Holdfast and the extras for the URL can run it.
"""

import asyncio
import sys
import threading
from queue import SimpleQueue

from holdfast import AsyncHoldfast, Holdfast, LeaseLost, Step
from holdfast.client import claim_loop

FOR_EVER = 60.0
RINGS = 20
"""A message that comes before the sleeper sleeps needs no wake-up; of so many, some come later."""


def main(url: str) -> None:
    with Holdfast(url) as hf:
        queue(hf)
        topic(hf)
        saga(hf)
        consumer(hf)
        wake_up(hf, url)
    asyncio.run(tasks(url))
    print("all of it works")


def queue(hf: Holdfast) -> None:
    first, second = hf.enqueue_many("emails", [{"n": 1}, {"n": 2}])
    hf.queue("emails", max_attempts=1)
    [one] = hf.claim("emails")
    assert (one.message.id, one.message.body) == (first.id, {"n": 1})
    one.ack({"sent": True})
    [two] = hf.claim("emails")
    two.nack("no route")
    assert (str(hf.status(first.id).state), str(hf.status(second.id).state)) == ("succeeded", "dead")
    try:
        two.ack()
    except LeaseLost:
        return
    raise AssertionError("a dead message was acked")


def topic(hf: Holdfast) -> None:
    hf.topic("news", retention="7d")
    hf.subscribe("news", "mail", patterns=["news.*.urgent"])
    hf.subscribe("news", "archive")
    hf.publish("news.weather.urgent", {"storm": True})
    hf.publish("news.sports", {"goals": 3})
    for group, expected in (("mail", 1), ("archive", 2)):
        claims = hf.claim("news", group=group, n=10)
        assert len(claims) == expected, (group, claims)
        for claim in claims:
            claim.ack()


def saga(hf: Holdfast) -> None:
    hf.saga("trip", steps=[Step("flight", "flights.book", undo="flights.cancel"), Step("car", "cars.book")])
    hf.start_saga("trip", {"city": "Rome"}, id="trip-1")
    hf.claim("flights.book")[0].ack({"seat": "12A"})
    hf.claim("cars.book")[0].dead_letter("no car left")
    hf.claim("flights.cancel")[0].ack()
    assert str(hf.sagas.get("trip-1").status) == "compensated"


def consumer(hf: Holdfast) -> None:
    done = threading.Event()

    @hf.consumer("tasks", concurrency=2)
    def work(message: object) -> str:
        done.set()
        return "done"

    sent = hf.enqueue("tasks", {"n": 1})
    with hf.running():
        assert done.wait(FOR_EVER)
    assert str(hf.status(sent.id).state) == "succeeded"


def wake_up(hf: Holdfast, url: str) -> None:
    """A sleeper that looks by itself only once an hour hears of messages of another client."""
    claim_loop.LONGEST_NAP = 3600.0
    heard: SimpleQueue[object] = SimpleQueue()

    def sleep() -> None:
        for _ in range(RINGS):
            for claim in hf.claim("bells", wait=FOR_EVER):
                claim.ack()
                heard.put(claim.message.body)

    threading.Thread(target=sleep, daemon=True).start()
    with Holdfast(url) as other:
        for ring in range(RINGS):
            other.enqueue("bells", ring)
            assert heard.get(timeout=FOR_EVER / 2) == ring


async def tasks(url: str) -> None:
    async with AsyncHoldfast(url) as hf:
        await hf.enqueue("later", {"n": 1})
        [claim] = await hf.claim("later")
        await claim.ack()


if __name__ == "__main__":
    main(sys.argv[1])
