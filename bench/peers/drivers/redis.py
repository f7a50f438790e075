"""Redis Streams with a consumer group: XADD, XREADGROUP in batches, XACK and XDEL; pipelines where there are many.

With several groups nothing is deleted, because another group may not have read it yet.
"""

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
            if ids := self._take(GROUP, meter):
                self.redis.pipeline(transaction=False).xack(STREAM, GROUP, *ids).xdel(STREAM, *ids).execute()
                meter.settled()

    async def left(self) -> int:
        return int(self.redis.xlen(STREAM))

    async def subscribe(self, groups: list[str]) -> None:
        for group in groups:
            self.redis.xgroup_create(STREAM, group, id="0")

    async def publish_many(self, bodies: list[dict[str, Any]]) -> None:
        await self.enqueue_many(bodies)

    async def read(self, group: str, meter: Meter) -> None:
        meter.start()
        while not meter.is_done():
            if ids := self._take(group, meter):
                self.redis.xack(STREAM, group, *ids)
                meter.settled()

    async def left_for(self, group: str) -> int:
        (found,) = (one for one in self.redis.xinfo_groups(STREAM) if one["name"] == group.encode())
        return int(found["pending"]) + int(found["lag"])

    def _take(self, group: str, meter: Meter) -> list[bytes]:
        """Hands a batch to the meter; what is to be acked."""
        found = self.redis.xreadgroup(group, self.name, {STREAM: ">"}, count=BATCH, block=BLOCK_MILLISECONDS)
        entries = found[0][1] if found else []
        for _, fields in entries:
            meter.handle(orjson.loads(fields[b"body"]))
        return [entry for entry, _ in entries]

    async def close(self) -> None:
        self.redis.close()


if __name__ == "__main__":
    serve(RedisStream())
