"""Huey: one worker thread, and nothing to enqueue several at once. A message is deleted when it is taken."""

import logging
from typing import Any

from huey import SqliteHuey

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

POLL = 0.01


class Huey:
    async def open(self, url: str) -> None:
        logging.disable(logging.ERROR)
        self.huey = SqliteHuey(filename=url.removeprefix("sqlite:///"), fsync=True, results=False)
        self.meter = Meter()
        self.send = self.huey.task()(self.receive)

    def receive(self, body: dict[str, Any]) -> None:
        self.meter.handle(body)

    async def create(self) -> None:
        """Opening the file has created the tables."""

    async def enqueue(self, body: dict[str, Any]) -> None:
        self.send(body)

    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None:
        for body in bodies:
            self.send(body)

    async def work(self, meter: Meter) -> None:
        self.meter = meter
        consumer = self.huey.create_consumer(
            workers=1, periodic=False, initial_delay=POLL, max_delay=POLL, backoff=1, check_worker_health=False
        )
        meter.start()
        consumer.start()
        await meter.done()
        consumer.stop(graceful=True)

    async def left(self) -> int:
        return int(self.huey.pending_count())

    async def close(self) -> None:
        self.huey.storage.close()


if __name__ == "__main__":
    serve(Huey())
