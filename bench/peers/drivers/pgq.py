"""PgQ from Debian's package, without its C parts, which are for another PostgreSQL than ours.

Events are written as it wants many of them written, straight into the table of the moment. A batch is what lies between
two ticks: one follows each call, since that is more than the 500 events after which its ticker ticks.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import psycopg

from bench.peers.drivers.meter import Meter
from bench.peers.drivers.serving import serve

SCRIPT = "usr/share/postgresql/15/contrib/pgq_pl_only.sql"
PACKAGE = Path(__file__).resolve().parents[3] / ".peers" / "pgq"
QUEUE = "bench"


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
        now = datetime.now(UTC)
        with self.connection.transaction():
            table = self._ask("SELECT pgq.current_event_table(%s)", QUEUE)
            with self.connection.cursor().copy(f"COPY {table} (ev_time, ev_type, ev_data) FROM STDIN") as copy:
                for body in bodies:
                    copy.write_row((now, "thing", orjson.dumps(body).decode()))
        self._ask("SELECT pgq.ticker(%s)", QUEUE)

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
