"""pgmq through its Python client, on its SQL alone: read a batch with a visibility timeout, delete the batch.

It has no groups: each is a queue of its own, bound to a topic, and every message is stored once in each of them.
"""

from typing import Any

from pgmq import PGMQueue
from pgmq.install import install_pgmq_from_sql

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

QUEUE = "bench"
TOPIC = "bench.some.thing"
BATCH = 1_000
VISIBILITY = 300
POLL_MILLISECONDS = 5


class Pgmq:
    async def open(self, url: str) -> None:
        self.url = url
        self.client = PGMQueue(conn_string=url, init_extension=False, vt=VISIBILITY)

    async def create(self) -> None:
        install_pgmq_from_sql(dsn=self.url)
        self.client.create_queue(QUEUE)

    async def enqueue(self, body: dict[str, Any]) -> None:
        self.client.send(QUEUE, body)

    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None:
        self.client.send_batch(QUEUE, bodies)

    async def work(self, meter: Meter) -> None:
        await self.read(QUEUE, meter)

    async def left(self) -> int:
        return await self.left_for(QUEUE)

    async def subscribe(self, groups: list[str]) -> None:
        for group in groups:
            self.client.create_queue(group)
            self.client.bind_topic(TOPIC, group)

    async def publish_many(self, bodies: list[dict[str, Any]]) -> None:
        self.client.send_batch_topic(TOPIC, bodies)

    async def read(self, group: str, meter: Meter) -> None:
        meter.start()
        while not meter.is_done():
            messages = self.client.read_with_poll(
                group, qty=BATCH, max_poll_seconds=1, poll_interval_ms=POLL_MILLISECONDS
            )
            for message in messages:
                meter.handle(message.message)
            if messages:
                self.client.delete_batch(group, [message.msg_id for message in messages])
                meter.settled()

    async def left_for(self, group: str) -> int:
        return int(self.client.metrics(group).queue_length)

    async def close(self) -> None:
        self.client.close()


if __name__ == "__main__":
    serve(Pgmq())
