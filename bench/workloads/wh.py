"""Wh: signed webhooks over fifty connections, and how soon one of them can be claimed.

`ref` is a bare Starlette route that reads the JSON and answers 202, served by uvicorn with uvloop and httptools: it
checks no signature and keeps nothing. Each contender is one process, and whoever sends is another.
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.cases import ONLY_HOLDFAST, Case, Goal, Outcome, Row
from bench.places import Place
from bench.processes import Failed, Gate, alone, together
from bench.queues import Target
from bench.serving import QUEUE, SECRET, served
from bench.sizes import Sizes
from holdfast import Holdfast

CONNECTIONS = 50
BODY = {"title": "payments is down", "urgency": "high", "details": "x" * 200}


def cases(sizes: Sizes) -> Iterator[Case]:
    name = f"webhooks, {CONNECTIONS} connections"
    rows = [Row(name, goals=(Goal("ref", 0.4),)), Row("answer to a webhook, p99", "p99", "ms")]
    yield Case("wh", name, partial(measure_rate, sizes.webhooks), rows)
    rows = [
        Row("webhook to claimed, p50", "p50", "ms"),
        Row("webhook to claimed, p99", "p99", "ms", goals=(Goal("value", 100, below=True),)),
    ]
    measured = partial(measure_visibility, sizes.latency_messages, sizes.latency_rate)
    yield Case("wh", "webhook to claimed", measured, rows, ONLY_HOLDFAST)


def measure_rate(count: int, place: Place, target: Target) -> Outcome:
    """Deliveries per second, from the first one to the last answer."""
    with served(target) as port:
        outcome: Outcome = alone(send_many, port, count)
    if target.contender == "holdfast":
        with Holdfast(target.url) as hf:
            stored = hf.stats(QUEUE).pending
        if stored != count:
            raise Failed(f"{count} were accepted, and {stored} are there")
    return outcome


def measure_visibility(count: int, rate: float, place: Place, target: Target) -> Outcome:
    """From the first byte of a delivery to the moment when another process has claimed it."""
    with served(target) as port:
        sent, seen = together([(send_slowly, (port, count, rate)), (watch, (target, count))])
    took = sorted(1000 * (seen[number] - sent[number]) for number in range(count))
    return {"p50": took[count // 2], "p99": took[int(count * 0.99)]}


# --- those who send ---------------------------------------------------------------------------------------------------


def request(number: int) -> bytes:
    """A signed delivery, with a key that no other one has."""
    body = json.dumps({"id": f"{time.time_ns()}-{number}", "number": number, "incident": BODY}).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return (
        "POST /hook/bench HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"X-Signature: sha256={signature}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


def send_many(gate: Gate, port: int, count: int) -> Outcome:
    """As fast as the answers come, over all connections."""
    requests = [request(number) for number in range(count)]
    gate()
    return asyncio.run(_send_many(port, requests))


async def _send_many(port: int, requests: list[bytes]) -> Outcome:
    loop = asyncio.get_running_loop()
    waiting, took, over = iter(requests), [], loop.create_future()

    class Line(asyncio.Protocol):
        """One connection: the next delivery when the last one is answered."""

        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.answer = b""
            self.send()

        def send(self) -> None:
            following = next(waiting, None)
            self.began = time.perf_counter()
            if following is not None:
                self.transport.write(following)

        def data_received(self, data: bytes) -> None:
            self.answer += data
            head, blank, body = self.answer.partition(b"\r\n\r\n")
            if not blank or len(body) < int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]):
                return
            if not head.startswith(b"HTTP/1.1 202 "):
                over.set_exception(Failed(self.answer.decode()))
                return
            took.append(time.perf_counter() - self.began)
            self.answer = b""
            if len(took) == len(requests):
                over.set_result(None)
            self.send()

    began = time.perf_counter()
    for _ in range(CONNECTIONS):
        await loop.create_connection(Line, "127.0.0.1", port)
    await over
    seconds = time.perf_counter() - began
    return {"rate": len(requests) / seconds, "p99": 1000 * sorted(took)[int(len(took) * 0.99)]}


def send_slowly(gate: Gate, port: int, count: int, rate: float) -> list[float]:
    """At a steady rate, over one connection; when each was sent."""
    import http.client

    line = http.client.HTTPConnection("127.0.0.1", port)
    sent = []
    gate()
    for number in range(count):
        head, _, body = request(number).partition(b"\r\n\r\n")
        headers = dict(pair.split(": ", 1) for pair in head.decode().split("\r\n")[1:])
        sent.append(time.monotonic())
        line.request("POST", "/hook/bench", body, headers)
        line.getresponse().read()
        time.sleep(max(0.0, sent[0] + (number + 1) / rate - time.monotonic()))
    line.close()
    return sent


def watch(gate: Gate, target: Target, count: int) -> dict[int, float]:
    """Claims whatever comes; when each was there."""
    seen: dict[int, float] = {}
    with Holdfast(target.url) as hf:
        hf.queue(QUEUE, history=0)
        gate()
        while len(seen) < count:
            claims = hf.claim(QUEUE, n=100, wait=30)
            now = time.monotonic()
            seen.update((claim.message.body["payload"]["number"], now) for claim in claims)
            hf.ack(claims)
    return seen
