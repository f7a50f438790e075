"""A driver for the benchmarks' tests: a table in the standard library's SQLite, honest unless told to misbehave."""

import json
import sqlite3
import sys
from typing import Any

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve
from tests.waiting import spend

BATCH = 50


class TableQueue:
    async def open(self, url: str) -> None:
        self.fault = sys.argv[1] if len(sys.argv) > 2 else ""
        self.file = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10, isolation_level=None)

    async def create(self) -> None:
        self.file.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")

    async def enqueue(self, body: dict[str, Any]) -> None:
        await self.enqueue_many([body])

    async def enqueue_many(self, bodies: list[dict[str, Any]]) -> None:
        self.file.execute("BEGIN IMMEDIATE")
        self.file.executemany("INSERT INTO job (body) VALUES (?)", [(json.dumps(body),) for body in bodies])
        self.file.execute("COMMIT")

    async def subscribe(self, groups: list[str]) -> None:
        for group in groups:
            self.file.execute(f"CREATE TABLE {group} (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
            copy = f"INSERT INTO {group} VALUES (NEW.id, NEW.body)"
            self.file.execute(f"CREATE TRIGGER to_{group} AFTER INSERT ON job BEGIN {copy}; END")

    async def publish_many(self, bodies: list[dict[str, Any]]) -> None:
        await self.enqueue_many(bodies)

    async def work(self, meter: Meter) -> None:
        await self.read("job", meter)

    async def sagas(self, count: int, seconds: float) -> tuple[list[int], float]:
        """Each is a message that is there and gone; one that misbehaves is not done, or done twice."""
        numbers = list(range(count))
        if self.fault == "loses":
            numbers.remove(count // 2)
        if self.fault == "doubles":
            numbers.append(0)
        if self.fault == "keeps":
            await self.enqueue({})
        return numbers, 0.1

    async def read(self, group: str, meter: Meter) -> None:
        if self.fault == "dies":
            sys.exit("cannot go on")
        if self.fault == "raises":
            raise ValueError("no work today")
        meter.start()
        while not meter.is_done():
            some = f"SELECT id FROM {group} LIMIT {BATCH}"
            taken = self.file.execute(f"DELETE FROM {group} WHERE id IN ({some}) RETURNING body")
            bodies = [json.loads(body) for (body,) in taken.fetchall()]
            if self.fault == "loses":
                bodies = bodies[1:]
            if self.fault == "doubles":
                bodies += bodies[:1]
            for body in bodies:
                meter.handle(body)
            if self.fault == "keeps" and meter.is_done():
                self.file.execute(f"INSERT INTO {group} (body) VALUES ('{{}}')")
            if not bodies:
                spend(0.002)

    async def left(self) -> int:
        return await self.left_for("job")

    async def left_for(self, group: str) -> int:
        return int(self.file.execute(f"SELECT count(*) FROM {group}").fetchone()[0])

    async def close(self) -> None:
        self.file.close()


if __name__ == "__main__":
    serve(TableQueue())
