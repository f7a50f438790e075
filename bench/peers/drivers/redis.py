"""Redis Streams with a consumer group: XADD, XREADGROUP in batches, XACK and XDEL; pipelines where there are many."""

from typing import Any

import orjson
from redis import Redis

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

STREAM, GROUP = "bench", "workers"
BATCH = 1_000
BLOCK_MILLISECONDS = 100


class RedisStream:
    async def open(self, url: str) -> None:
        self.redis = Redis.from_url(url)
        self.name = f"worker-{self.redis.client_id()}"

    async def create(self) -> None:
        self.redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)

    async def enqueue(self, body: dict[str, Any]) -> None:
        self.redis.xadd(STREAM, {"body": orjson.dumps(body)})

    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None:
        pipeline = self.redis.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(STREAM, {"body": orjson.dumps(body)})
        pipeline.execute()

    async def work(self, meter: Meter) -> None:
        meter.start()
        while not meter.is_done():
            found = self.redis.xreadgroup(GROUP, self.name, {STREAM: ">"}, count=BATCH, block=BLOCK_MILLISECONDS)
            if not found:
                continue
            entries = found[0][1]
            for _, fields in entries:
                meter.handle(orjson.loads(fields[b"body"]))
            ids = [entry for entry, _ in entries]
            self.redis.pipeline(transaction=False).xack(STREAM, GROUP, *ids).xdel(STREAM, *ids).execute()
            meter.settled()

    async def left(self) -> int:
        return int(self.redis.xlen(STREAM))

    async def close(self) -> None:
        self.redis.close()


if __name__ == "__main__":
    serve(RedisStream())
