"""persist-queue: a queue whose messages are acked, one at a time; nothing to enqueue several at once, and no worker.

Who waits looks again after a millisecond, which its own waiting cannot do: that hears of its own process alone.
"""

import asyncio
from pathlib import Path
from typing import Any

from persistqueue import Empty, SQLiteAckQueue
from persistqueue.serializers import json

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

POLL = 0.001


class PersistQueue:
    async def open(self, url: str) -> None:
        path = Path(url.removeprefix("sqlite:///"))
        self.queue = SQLiteAckQueue(
            str(path.parent), db_file_name=path.name, multithreading=True, serializer=json, auto_resume=False
        )

    async def create(self) -> None:
        """Opening the file has created the tables."""

    async def enqueue(self, body: dict[str, Any]) -> None:
        self.queue.put(body)

    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None:
        for body in bodies:
            self.queue.put(body)

    async def work(self, meter: Meter) -> None:
        meter.start()
        while not meter.is_done():
            try:
                message = self.queue.get(block=False, raw=True)
            except Empty:
                await asyncio.sleep(POLL)
                continue
            meter.handle(message["data"])
            self.queue.ack(id=message["pqid"])
            meter.settled()

    async def left(self) -> int:
        return int(self.queue.size + self.queue.unack_count())

    async def close(self) -> None:
        self.queue.close()


if __name__ == "__main__":
    serve(PersistQueue())
