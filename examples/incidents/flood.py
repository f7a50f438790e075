"""An alert flood: signed webhooks over many connections, sent again until they are answered, as PagerDuty does."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

CONNECTIONS = 50
PATIENCE = 60.0
"""Seconds after which a webhook that was never accepted is given up."""


@dataclass
class Flood:
    """What was sent, and what became of it: by incident, the ids that the server has answered with."""

    accepted: dict[str, set[str]] = field(default_factory=dict)
    answers: Counter[int] = field(default_factory=Counter)
    cut: set[int] = field(default_factory=set)
    """Those that had no answer at first, because the connection ended."""


def alerts(count: int) -> Iterator[dict[str, object]]:
    """Alerts of an outage; every tenth is urgent, and every fiftieth about a service that nobody has heard of."""
    for number in range(count):
        service = "billing" if number % 50 == 7 else ("payments", "search", "login", "mail")[number % 4]
        yield {
            "incident": {
                "id": f"PD-{number:05}",
                "title": f"{service} is down",
                "urgency": "low" if number % 10 else "high",
            }
        }


def signed(body: bytes, secret: str) -> str:
    return "v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def send(
    port: int, path: str, secret: str, bodies: list[dict[str, object]], told: Callable[[Flood], object] = lambda _: None
) -> Flood:
    """Sends all of them over fifty connections. `told` is called after each answer."""
    flood, waiting = Flood(), iter(bodies)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_sender(port, path, secret, waiting, flood, told))
    return flood


async def _sender(
    port: int,
    path: str,
    secret: str,
    waiting: Iterator[dict[str, object]],
    flood: Flood,
    told: Callable[[Flood], object],
) -> None:
    line: _Line | None = None
    for payload in waiting:
        body = json.dumps(payload).encode()
        request = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"X-PagerDuty-Signature: {signed(body, secret)}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body
        while True:
            try:
                line = line or await _Line.open(port)
                status, answer = await line.call(request)
            except (OSError, EOFError):  # The server was killed: nobody knows whether this one has arrived.
                flood.cut.add(id(payload))
                line = None
                await asyncio.sleep(0.05)
                continue
            flood.answers[status] += 1
            told(flood)
            if status in (200, 202):
                incident = payload["incident"]
                assert isinstance(incident, dict)
                flood.accepted.setdefault(str(incident["id"]), set()).add(str(answer["id"]))
                break
            await asyncio.sleep(0.1)  # Full, or not there: later.
    if line:
        line.close()


class _Line:
    """One connection that stays open."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.close = writer.close

    @classmethod
    async def open(cls, port: int) -> _Line:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, request: bytes) -> tuple[int, dict[str, object]]:
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        return int(head.split()[1]), json.loads(await self._reader.readexactly(length))
