"""PgQueuer on asyncpg: the queue manager fetches and logs in batches, handlers run as tasks."""

import asyncio
import logging
from typing import Any

import asyncpg
import orjson
import uvloop
from pgqueuer import AsyncpgDriver, Job, Queries, QueueManager

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

ENTRYPOINT = "bench"
BATCH = 1_000


class PgQueuer:
    async def open(self, url: str) -> None:
        logging.disable(logging.WARNING)
        self.url = url
        self.connection = await asyncpg.connect(url)
        self.queries = Queries(AsyncpgDriver(self.connection))

    async def create(self) -> None:
        await self.queries.install()

    async def enqueue(self, body: dict[str, Any]) -> None:
        await self.queries.enqueue(ENTRYPOINT, orjson.dumps(body))

    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None:
        count = len(bodies)
        await self.queries.enqueue([ENTRYPOINT] * count, [orjson.dumps(body) for body in bodies], [0] * count)

    async def work(self, meter: Meter) -> None:
        # The manager closes the driver it was given, so it has a connection of its own.
        connection = await asyncpg.connect(self.url)
        manager = QueueManager(Queries(AsyncpgDriver(connection)))

        async def handle(job: Job) -> None:
            meter.handle(orjson.loads(job.payload or b""))

        manager.entrypoint(ENTRYPOINT)(handle)
        meter.start()
        running = asyncio.create_task(manager.run(batch_size=BATCH))
        await asyncio.wait([running, asyncio.create_task(meter.done())], return_when=asyncio.FIRST_COMPLETED)
        manager.shutdown.set()
        await running
        await connection.close()

    async def left(self) -> int:
        return sum(line.count for line in await self.queries.queue_size())

    async def close(self) -> None:
        await self.connection.close()


if __name__ == "__main__":
    uvloop.install()
    serve(PgQueuer())
