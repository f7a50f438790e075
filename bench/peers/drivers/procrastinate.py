"""Procrastinate: asynchronous tasks, several at once, woken by NOTIFY; done jobs are deleted."""

import asyncio
import logging
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

CONCURRENCY = 10
_LEFT = "SELECT count(*) AS jobs FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"


class Procrastinate:
    async def open(self, url: str) -> None:
        logging.disable(logging.ERROR)
        self.app = App(connector=PsycopgConnector(conninfo=url))
        self.meter = Meter()
        self.task = self.app.task(name="bench")(self.receive)
        await self.app.open_async()

    async def receive(self, **body: Any) -> None:
        self.meter.handle(body)

    async def create(self) -> None:
        await self.app.schema_manager.apply_schema_async()

    async def enqueue(self, body: dict[str, Any]) -> None:
        await self.task.defer_async(**body)

    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None:
        await self.task.batch_defer_async(*bodies)

    async def work(self, meter: Meter) -> None:
        self.meter = meter
        meter.start()
        running = asyncio.create_task(
            self.app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="always", install_signal_handlers=False)
        )
        await asyncio.wait([running, asyncio.create_task(meter.done())], return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        await asyncio.wait([running])

    async def left(self) -> int:
        return int((await self.app.connector.execute_query_one_async(_LEFT))["jobs"])

    async def close(self) -> None:
        await self.app.close_async()


if __name__ == "__main__":
    serve(Procrastinate())
