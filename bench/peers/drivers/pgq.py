"""PgQ from Debian's package, without its C parts, which are for another PostgreSQL than ours.

Events come in by its function for that. A batch is what lies between two ticks: one follows each call, since that is
more than the 500 events after which its ticker ticks.
"""

import sys
from pathlib import Path
from typing import Any

import orjson
import psycopg

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

SCRIPT = "usr/share/postgresql/15/contrib/pgq_pl_only.sql"
PACKAGE = Path(sys.prefix).parent
QUEUE, TYPE = "bench", "thing"


class PgQ:
    async def open(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)

    async def create(self) -> None:
        self.connection.execute((PACKAGE / SCRIPT).read_bytes())
        self._ask("SELECT pgq.create_queue(%s)", QUEUE)

    async def subscribe(self, groups: list[str]) -> None:
        self._ask("SELECT pgq.ticker(%s)", QUEUE)
        for group in groups:
            self._ask("SELECT pgq.register_consumer(%s, %s)", QUEUE, group)

    async def publish_many(self, bodies: list[dict[str, Any]]) -> None:
        self.insert([orjson.dumps(body).decode() for body in bodies])
        self._ask("SELECT pgq.ticker(%s)", QUEUE)

    def insert(self, texts: list[str]) -> None:
        self._ask("SELECT count(pgq.insert_event(%s, %s, event)) FROM unnest(%s::text[]) AS event", QUEUE, TYPE, texts)

    async def read(self, group: str, meter: Meter) -> None:
        meter.start()
        while not meter.is_done():
            batch = self._ask("SELECT pgq.next_batch(%s, %s)", QUEUE, group)
            if batch is None:
                self._ask("SELECT pgq.ticker(%s)", QUEUE)
                continue
            for (text,) in self.connection.execute("SELECT ev_data FROM pgq.get_batch_events(%s)", [batch]):
                meter.handle(orjson.loads(text))
            self._ask("SELECT pgq.finish_batch(%s)", batch)
            meter.settled()

    async def left_for(self, group: str) -> int:
        return int(self._ask("SELECT pending_events FROM pgq.get_consumer_info(%s, %s)", QUEUE, group))

    async def close(self) -> None:
        self.connection.close()

    def _ask(self, query: str, *values: Any) -> Any:
        row = self.connection.execute(query, values).fetchone()
        return None if row is None else row[0]


if __name__ == "__main__":
    serve(PgQ())
